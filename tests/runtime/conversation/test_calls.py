"""Order of calls: which run in parallel, which wait, which are retried."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.conversation.calls import AT_ONCE, Calls, RetryLimits, batches, is_passive
from leeward.runtime.conversation.history import CANCELLED
from leeward.runtime.events import CallEnded, CallStarted
from leeward.security.call import Asker, Outcome, Status, ToolCall, ToolResult
from leeward.security.kinds import Effect
from leeward.security.outcome import (
    Category,
    NetworkError,
    PermanentFailure,
    RateLimited,
    ServerError,
    ToolTimeout,
)
from leeward.security.ports import Answer
from leeward.tools.declare import Text, tool
from leeward.tools.todo import TodoList

R, W, X, S, B = Effect.READ, Effect.WRITE, Effect.EXECUTE, Effect.SEND, Effect.BRING_IN


def spec_with(effects: Effect, idempotent: bool = False, ordered: bool = False):
    @tool(effects=effects, name="t", idempotent=idempotent)
    async def some(word: Text = "") -> str:
        """Do something."""
        return word

    (spec,) = (some.ordered() if ordered else some).specs()
    return spec


@pytest.mark.parametrize(
    ("effects", "idempotent", "passive"),
    [
        (R, False, True),
        (B, False, True),
        (R | B, False, True),
        (S | B, True, True),  # a page is fetched: it may be fetched again, so it may be fetched beside others
        (S | B, False, False),
        (S, False, False),
        (W, True, False),
        (R | W, True, False),
        (X, True, False),
        (Effect.ALL, True, False),
    ],
)
def test_what_changes_something_runs_alone(effects, idempotent, passive):
    assert is_passive(spec_with(effects, idempotent)) is passive


def test_an_unknown_tool_holds_nobody_up():
    assert is_passive(None)


def test_what_keeps_its_place_runs_alone_though_it_only_reads():
    (todo,) = TodoList().tools()
    assert not is_passive(spec_with(R, ordered=True)) and not is_passive(*todo.specs())


SPECS = {
    "read": spec_with(R),
    "fetch": spec_with(S | B, True),
    "write": spec_with(W),
    "shell": spec_with(Effect.ALL),
    "todo": spec_with(R, ordered=True),
}


def asked(*names: str) -> list[ToolCall]:
    return [ToolCall(f"id{number}", name, "{}") for number, name in enumerate(names)]


NAMES = st.lists(st.sampled_from([*SPECS, "unknown"]), max_size=12)


@given(NAMES)
@example(["read", "write", "write", "read", "fetch", "unknown", "shell"])
@example(["todo", "todo", "read"])
def test_batches_keep_the_order_and_set_apart_what_changes(names):
    calls = asked(*names)
    found = list(batches(calls, SPECS.get))
    assert [call for batch in found for call in batch] == calls
    for batch in found:
        assert len(batch) == 1 or all(is_passive(SPECS.get(call.tool)) for call in batch)
    for left, right in zip(found, found[1:]):
        assert not all(is_passive(SPECS.get(call.tool)) for call in (*left, *right)), (
            "neighbours were torn apart"
        )


def result(call: ToolCall, status=Status.OK, category=None) -> ToolResult:
    return ToolResult(call, Outcome(status, category), f"{call.tool} {call.arguments}", "shown")


class Fake:
    """A pipeline that runs what it is told to, and knows how many ran at once."""

    def __init__(self, work=None) -> None:
        self.work = work or (lambda call: trio.lowlevel.checkpoint())
        self.running = self.most = 0
        self.log: list[str] = []
        self.ids: list[str] = []
        self.expected: list[str] = []

    def expect(self, calls: Sequence[ToolCall]) -> None:
        self.expected.append("".join(call.arguments for call in calls))

    async def run(self, call: ToolCall) -> ToolResult:
        self.running += 1
        self.most = max(self.most, self.running)
        self.log.append(f"+{call.arguments}")
        self.ids.append(call.id)
        try:
            found = await self.work(call)
        finally:
            self.running -= 1
        self.log.append(f"-{call.arguments}")
        return found if isinstance(found, ToolResult) else result(call)


def runner(pipeline, specs=SPECS.get, retry=None, heard=None):
    emit = (heard if heard is not None else []).append
    return Calls(pipeline, specs, retry or RetryLimits(), emit, random=lambda: 1.0)


def numbered(*names: str) -> list[ToolCall]:
    return [ToolCall(f"id{n}", name, str(n)) for n, name in enumerate(names)]


async def test_what_runs_has_an_id_of_its_own_and_is_the_model_s_whatever_the_reply_says_of_it():
    ran: list[ToolCall] = []

    async def work(call):
        ran.append(call)

    told: list[str] = []
    said = [ToolCall("toolu_1", "read", "{}", Asker.PERSON, "another"), ToolCall("toolu_1", "write", "{}")]
    await runner(Fake(work)).run(said, lambda call_id, _: told.append(call_id))
    assert [(call.tool, call.model_id, call.asker) for call in ran] == [
        ("read", "toolu_1", Asker.MODEL),
        ("write", "toolu_1", Asker.MODEL),
    ]
    assert len({"toolu_1", *(call.id for call in ran)}) == 3 and told == ["toolu_1", "toolu_1"]


async def test_readers_run_side_by_side_and_a_barrier_waits_for_both_sides(autojump_clock):
    async def work(call):
        await trio.sleep(10 - int(call.arguments))  # later ones end earlier

    pipeline, answers, heard = Fake(work), [], []
    calls = runner(pipeline, heard=heard)
    await calls.run(
        numbered("read", "fetch", "unknown", "write", "read", "read"), lambda *pair: answers.append(pair)
    )
    assert pipeline.log == ["+0", "+1", "+2", "-2", "-1", "-0", "+3", "-3", "+4", "+5", "-5", "-4"] or sorted(
        pipeline.log[:3]
    ) == ["+0", "+1", "+2"]
    assert pipeline.log[3:8] == ["-2", "-1", "-0", "+3", "-3"] and pipeline.log[-2:] == ["-5", "-4"]
    assert pipeline.expected == ["345", "45", "", ""], "it knows what comes behind those that run"
    assert [call_id for call_id, _ in answers] == [f"id{n}" for n in range(6)], "in the order asked"
    assert [text.split()[1] for _, text in answers] == [str(n) for n in range(6)]
    started = [event.call.arguments for event in heard if isinstance(event, CallStarted)]
    ended = [event.result.call.arguments for event in heard if isinstance(event, CallEnded)]
    assert sorted(started) == sorted(ended) and ended[:3] == ["2", "1", "0"]
    assert (calls.made, calls.refused) == (6, 0)


async def test_side_by_side_is_bounded(autojump_clock):
    pipeline, answers = Fake(lambda call: trio.sleep(1)), []
    await runner(pipeline).run(numbered(*["read"] * 64), lambda *pair: answers.append(pair))
    assert pipeline.most == AT_ONCE and len(answers) == 64
    assert trio.current_time() > 0


async def test_a_denied_or_failing_call_stops_no_other():
    async def work(call):
        await trio.lowlevel.checkpoint()
        n = int(call.arguments)
        if n == 1:
            return result(call, Status.DENIED, Category.POLICY_BLOCKED)
        return result(call, Status.ERROR, Category.PERMANENT_FAILURE) if n == 2 else None

    pipeline, answers = Fake(work), []
    calls = runner(pipeline)
    await calls.run(numbered("read", "read", "read", "read", "write"), lambda *pair: answers.append(pair))
    assert len(answers) == 5 and all(CANCELLED not in text for _, text in answers)
    assert (calls.made, calls.refused) == (5, 1)


@pytest.mark.parametrize("after", [0.5, 1.5, 2.5, 3.5])
async def test_stopped_in_the_middle_the_batch_is_answered_in_order(autojump_clock, after):
    answers: list[tuple[str, str]] = []
    pipeline = Fake(lambda call: trio.sleep(int(call.arguments) + 1))
    with trio.move_on_after(after) as scope:
        await runner(pipeline).run(
            numbered("read", "read", "read", "write"), lambda *pair: answers.append(pair)
        )
    assert scope.cancelled_caught and pipeline.running == 0
    assert [call_id for call_id, _ in answers] == ["id0", "id1", "id2"] + ["id3"] * (after > 3)
    assert [text == CANCELLED for _, text in answers] == [n + 1 > after for n in range(3)] + [True] * (
        after > 3
    )


# ------------------------------------------------------------------ trying again

PASSING = [RateLimited, ServerError, NetworkError, ToolTimeout]


def failing(times: int, category: Category, status: Status = Status.ERROR):
    left = [times]

    async def work(call):
        await trio.lowlevel.checkpoint()
        left[0] -= 1
        return result(call, status, category) if left[0] >= 0 else None

    return work


@pytest.mark.parametrize("category", list(Category))
@pytest.mark.parametrize("idempotent", [True, False])
async def test_only_what_passes_is_tried_again_and_only_where_it_does_no_harm(
    autojump_clock, category, idempotent
):
    status = Status.TIMEOUT if category is Category.TIMEOUT else Status.ERROR
    pipeline, answers = Fake(failing(1, category, status)), []
    calls = runner(pipeline, {"t": spec_with(R, idempotent)}.get)
    await calls.run([ToolCall("a", "t", "x")], lambda *pair: answers.append(pair))
    again = idempotent and category in {error.category for error in PASSING}
    assert len(pipeline.ids) == len(set(pipeline.ids)) == calls.made == 1 + again
    assert [call_id for call_id, _ in answers] == ["a"]


@pytest.mark.parametrize(("retries", "fails", "tries"), [(2, 9, 3), (2, 1, 2), (1, 9, 2), (0, 9, 1)])
async def test_tries_are_bounded_and_each_waits_longer(autojump_clock, retries, fails, tries):
    pipeline, began = Fake(failing(fails, Category.SERVER_ERROR)), trio.current_time()
    limits = RetryLimits(retries, first_wait=1.0, longest_wait=1.5)
    await runner(pipeline, {"t": spec_with(R, True)}.get, limits).run(
        [ToolCall("a", "t", "x")], lambda *_: None
    )
    assert len(pipeline.ids) == tries
    assert trio.current_time() - began == pytest.approx(sum([1.0, 1.5][: tries - 1]))


@pytest.mark.parametrize("status", [Status.DENIED, Status.CANCELLED, Status.OK])
async def test_a_refusal_is_no_failure(status):
    pipeline = Fake(failing(9, Category.RATE_LIMITED, status))
    await runner(pipeline, {"t": spec_with(R, True)}.get).run([ToolCall("a", "t", "x")], lambda *_: None)
    assert len(pipeline.ids) == 1


# ------------------------------------------------------------------ in a whole session

STATE = {"fails": 0, "running": 0, "most": 0}


@tool(effects=R, idempotent=True)
async def shaky(word: Text = "") -> str:
    """Work after a while."""
    await trio.lowlevel.checkpoint()
    if STATE["fails"]:
        STATE["fails"] -= 1
        raise ServerError("it is busy")
    return f"at last {word}"


@tool(effects=R)
async def look(word: Text = "") -> str:
    """Look."""
    STATE["running"] += 1
    STATE["most"] = max(STATE["most"], STATE["running"])
    if STATE["most"] > 1:
        STATE["met"].set()
    # Whichever is first waits for another: how fast each comes to run, and in which order, does not matter.
    with trio.move_on_after(10 if word.isdigit() else 0):
        await STATE["met"].wait()
    STATE["running"] -= 1
    if word == "broken":
        raise PermanentFailure("no")
    return f"saw {word}"


@tool(effects=W)
async def change(word: Text = "") -> str:
    """Change."""
    STATE["alone"] = STATE["running"]
    return "changed"


@pytest.fixture
def talk(sessions, tmp_path):
    STATE.update(fails=0, running=0, most=0, alone=-1, met=trio.Event())

    @asynccontextmanager
    async def opened(*says, config="[tools.retry]\nfirst_wait = 0\n", **options):
        async with sessions.session(
            tmp_path, config, says, executors=[shaky, look, change], **options
        ) as runtime:
            yield runtime

    return opened


async def test_each_try_is_judged_and_recorded(talk, sessions):
    STATE["fails"] = 2
    async with talk([("shaky", {"word": "x"})]) as runtime:
        ended = await runtime.turn("go")
        assert "at last x" in runtime.provider.seen()[0] and len(runtime.provider.seen()) == 1
        rows = await sessions.rows(runtime, "decision", "outcome")
        assert [row.kind for row in rows] == ["decision", "outcome"] * 3
        assert len({row.call for row in rows}) == 3 and ended.calls == 3
        assert [row.body["status"] for row in rows if row.kind == "outcome"] == ["error", "error", "ok"]


async def test_the_budget_counts_every_try(talk):
    STATE["fails"] = 9
    config = "[tools.retry]\nfirst_wait = 0\n[agent]\nmax_tool_calls_per_turn = 2\n"
    async with talk([("shaky", {})], config=config) as runtime:
        ended = await runtime.turn("go")
        assert (ended.calls, ended.refused) == (3, 1)
        assert "2 tool calls" in runtime.provider.seen()[0]


async def test_parallel_calls_share_one_budget(talk, sessions):
    config = "[agent]\nmax_tool_calls_per_turn = 3\n"
    async with talk([("look", {"word": str(n)}) for n in range(10)], config=config) as runtime:
        ended = await runtime.turn("go")
        assert (ended.calls, ended.refused) == (10, 7)
        assert sum("saw" in text for text in runtime.provider.seen()) == 3


async def test_a_reply_of_many_calls(talk, sessions):
    says = [
        *[("look", {"word": str(n)}) for n in range(5)],
        ("look", {"word": "broken"}),
        ("nothing", {}),
        ("look", "{broken"),
    ]
    async with talk(
        [*says, ("change", {}), ("look", {"word": "last"})], approver=sessions.Answers(Answer.YES)
    ) as runtime:
        ended = await runtime.turn("go")
        seen = runtime.provider.seen()
        assert ["saw 0", "saw 1", "saw 2", "saw 3", "saw 4"] == [
            text.split("»")[1].split("«")[0] for text in seen[:5]
        ]
        assert "failed" in seen[5] and "refused" in seen[6] and "refused" in seen[7]
        assert "changed" in seen[8] and "saw last" in seen[9] and STATE["alone"] == 0 and STATE["most"] >= 2
        assert (ended.calls, ended.refused) == (10, 2)
