"""A turn stopped at any step leaves a history every dialect accepts, and no running call."""

from __future__ import annotations

import json

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.runtime.conversation.history import CANCELLED
from leeward.runtime.events import EndReason, TurnEnded
from leeward.runtime.providers.anthropic.request import Messages
from leeward.runtime.providers.interface import Message, Request, TextDelta, Usage, Verbatim
from leeward.runtime.providers.openai.request import ChatCompletions
from leeward.security.kinds import Effect
from leeward.security.ports import Answer
from leeward.tools.declare import Text, tool

RUNNING: list[str] = []
CONFIG = """
[agent]
max_tool_calls_per_session = 100000
max_tool_calls_per_turn = 1000
[tools.anomaly]
enabled = false
[tools.retry]
first_wait = 0
[security.breaker]
consecutive = 1000
total = 100000
"""


async def work(word: str, steps: int) -> str:
    RUNNING.append(word)
    try:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        return f"did {word}"
    finally:
        RUNNING.remove(word)


@tool(effects=Effect.READ)
async def look(word: Text, steps: int = 1) -> str:
    """Look."""
    return await work(word, steps)


@tool(effects=Effect.WRITE)
async def change(word: Text, steps: int = 1) -> str:
    """Change."""
    return await work(word, steps)


CALL = st.tuples(
    st.sampled_from(["look", "change", "nothing"]),
    st.fixed_dictionaries({"word": st.text(max_size=3), "steps": st.integers(0, 6)}) | st.just("{broken"),
)
REPLY = st.tuples(st.booleans(), st.lists(CALL, max_size=5))


class CancelAt(trio.abc.Instrument):
    """Cancels a scope at the nth step that tasks take."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope, self.left = scope, step

    def before_task_step(self, task):
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


def reply(says: bool, calls, thinks: bool):
    items = [*([TextDelta("so ")] if says else []), *calls]
    if thinks and items:
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        items.append(Verbatim("m@host", (thought, *({"type": "tool_use"} for _ in calls))))
    return [*items, Usage(10, 1)]


def accepted(rules, runtime, then: str = "and now?") -> None:
    """What the next request would say is what each service accepts, whoever was asked before."""
    messages = (Message("system", "s"), *runtime.conversation.messages, Message("user", then))
    for owner in ("m@host", "other@host"):
        chat = json.loads(ChatCompletions().writer("m", owner).write(Request(messages)))
        rules.check_chat(chat)
        rules.check_messages(json.loads(Messages().writer("m", owner).write(Request(messages))))


async def stopped(runtime, step: int, words: str) -> None:
    with trio.CancelScope() as scope:
        instrument = CancelAt(scope, step)
        trio.lowlevel.add_instrument(instrument)
        try:
            await runtime.turn(words)
        finally:
            trio.lowlevel.remove_instrument(instrument)
    last = runtime.heard[-1]
    assert isinstance(last, TurnEnded) and (last.reason is EndReason.CANCELLED) == scope.cancelled_caught


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    st.lists(REPLY, min_size=1, max_size=3),
    st.lists(st.integers(1, 400), min_size=1, max_size=3),
    st.booleans(),
)
@example([(True, [("look", {"word": str(n), "steps": 6}) for n in range(5)])], [30, 60, 90], True)
@example(
    [(False, [("change", {"word": "a", "steps": 6}), ("look", {"word": "b", "steps": 6})])], [40, 80], False
)
def test_stopped_anywhere_every_dialect_goes_on(
    sessions, dialect_rules, tmp_path_factory, replies, steps, thinks
):
    async def main() -> None:
        person = sessions.Answers(Answer.YES)
        folder = tmp_path_factory.mktemp("stopped")
        async with sessions.session(folder, CONFIG, [], executors=[look, change], approver=person) as runtime:
            tasks = trio.lowlevel.current_statistics().tasks_living
            for step in steps:
                runtime.provider.replies = [reply(*one, thinks) for one in replies]
                await stopped(runtime, step, "go")
                assert RUNNING == [] and trio.lowlevel.current_statistics().tasks_living == tasks
                sessions.valid(runtime.conversation.messages)
                accepted(dialect_rules, runtime)
                session = runtime.pipeline.session
                assert session.pending == session.running == frozenset()
            runtime.provider.replies = ["still here"]
            assert (await runtime.turn("are you there?")).text == "still here"
            allowed = [row.call for row in await sessions.rows(runtime, "decision") if row.body["allowed"]]
            ended = [row.call for row in await sessions.rows(runtime, "outcome")]
            assert sorted(allowed) == sorted(ended)
            stored = await runtime.transcript.entries(runtime.session_id)
            told = [entry for entry in stored if entry.content != {"text": "", "calls": []}]
            assert len(told) == len(runtime.conversation.messages), "what was said is stored, stopped or not"

    trio.run(main)


async def test_what_was_done_before_the_stop_is_told(sessions, tmp_path):
    """Of several calls side by side, those that were done keep their results."""
    started = trio.Event()

    @tool(effects=Effect.READ)
    async def hang(word: Text = "") -> str:
        """Never come back."""
        started.set()
        await trio.sleep_forever()
        return word

    says = [
        [("look", {"word": "a"}), ("hang", {}), ("look", {"word": "b"}), ("change", {"word": "c"})],
        "later",
    ]
    async with sessions.session(tmp_path, CONFIG, says, executors=[look, change, hang]) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.turn, "go")
            await started.wait()
            with trio.fail_after(5):
                while sum(type(event).__name__ == "CallEnded" for event in runtime.heard) < 2:
                    await trio.sleep(0.002)
            nursery.cancel_scope.cancel()
        texts = [m.text for m in runtime.conversation.messages if m.role == "tool"]
        assert ["did a" in texts[0], texts[1], "did b" in texts[2], texts[3]] == [
            True,
            CANCELLED,
            True,
            CANCELLED,
        ]
        assert (await runtime.turn("and?")).text == "later"


@pytest.mark.parametrize("seconds", [0.05])
async def test_the_clock_stops_all_that_runs_side_by_side(sessions, tmp_path, seconds):
    @tool(effects=Effect.READ)
    async def hang(word: Text = "") -> str:
        """Never come back."""
        RUNNING.append(word)
        try:
            await trio.sleep_forever()
        finally:
            RUNNING.remove(word)
        return word

    says = [[("hang", {"word": str(n)}) for n in range(20)], "in time"]
    config = CONFIG.replace("[agent]", f"[agent]\ntimeout = {seconds}")
    async with sessions.session(tmp_path, config, says, executors=[hang]) as runtime:
        ended = await runtime.turn("go")
        assert ended.reason is EndReason.TIMEOUT and RUNNING == []
        assert {m.text for m in runtime.conversation.messages if m.role == "tool"} == {CANCELLED}
        assert (await runtime.turn("again")).text == "in time"
