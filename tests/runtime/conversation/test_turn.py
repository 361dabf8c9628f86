"""A turn: streaming, order of calls, and its state after it is stopped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from leeward.runtime.conversation.history import CANCELLED
from leeward.runtime.events import Alert, CallEnded, CallStarted, EndReason, LiveOutput, Text, TurnEnded
from leeward.runtime.providers.interface import (
    CallRequested,
    ErrorKind,
    ModelError,
    Stopped,
    StopReason,
    TextDelta,
    Usage,
)
from leeward.security.call import ToolCall
from leeward.security.kinds import Effect
from leeward.security.outcome import PermanentFailure
from leeward.security.ports import Answer
from leeward.tools.declare import Text as Word
from leeward.tools.declare import tool

RAN: list[str] = []


@tool(effects=Effect.READ)
async def echo(word: Word) -> str:
    """Say it again."""
    RAN.append(word)
    await trio.lowlevel.checkpoint()
    return f"echo {word}"


@tool(effects=Effect.READ)
async def fail(word: Word = "") -> str:
    """Fail."""
    raise PermanentFailure("no")


@tool(effects=Effect.READ)
async def hang(word: Word = "") -> str:
    """Never come back."""
    RAN.append("hang")
    await trio.sleep_forever()
    return word


@pytest.fixture
def talk(sessions, tmp_path):
    RAN.clear()

    def open_session(*replies, config="", **options):
        return sessions.session(tmp_path, config, replies, executors=[echo, fail, hang], **options)

    return open_session


def kinds(events) -> list[str]:
    return [type(event).__name__ for event in events]


async def test_calls_are_answered_in_order_and_a_failing_one_stops_nothing(talk):
    calls = [
        TextDelta("On "),
        TextDelta("it."),
        ("echo", {"word": "a"}),
        ("fail", {}),
        ("nothing", {}),
        ("echo", {"word": "b"}),
    ]
    async with talk(calls, "Done.") as runtime:
        ended = await runtime.turn("go")
        assert (ended.reason, ended.text, ended.calls, ended.refused) == (
            EndReason.DONE,
            "On it.\n\nDone.",
            4,
            1,
        )
        assert sorted(RAN) == ["a", "b"]
        texts = runtime.provider.seen()
        assert [
            "echo a" in texts[0],
            "fail failed" in texts[1],
            "gate: known (unknown_tool)" in texts[2],
            "echo b" in texts[3],
        ] == [True] * 4
        asked = [call.id for call in runtime.conversation.messages[1].calls]
        assert [m.call_id for m in runtime.conversation.messages if m.role == "tool"] == asked
        assert [kind for kind in kinds(runtime.heard) if not kind.startswith("Call")] == [
            "Text",
            "Text",
            "Text",
            "TurnEnded",
        ]
        assert (
            kinds(runtime.heard)[2:10].count("CallStarted")
            == kinds(runtime.heard)[2:10].count("CallEnded")
            == 4
        )


async def test_max_turns_ends_the_turn_and_the_next_goes_on(talk):
    again = [("echo", {"word": "x"})]
    async with talk(again, again, "later", config="[agent]\nmax_turns = 2") as runtime:
        ended = await runtime.turn("go")
        assert (ended.reason, ended.calls) == (EndReason.MAX_TURNS, 2)
        assert (await runtime.turn("go on")).text == "later"


async def test_tokens_are_added_up_and_a_cut_reply_is_told(talk):
    first = [Usage(10, 2), CallRequested(ToolCall("1", "echo", '{"word": "x"}'))]
    second = [TextDelta("half"), Usage(20, 3), Stopped(StopReason.LENGTH)]
    async with talk(first, second) as runtime:
        ended = await runtime.turn("go")
        assert (ended.input_tokens, ended.output_tokens) == (30, 5)
        assert any(isinstance(event, Alert) and "cut off" in event.message for event in runtime.heard)


@pytest.mark.parametrize("calls_first", [False, True])
async def test_a_model_error_keeps_what_was_said(talk, calls_first):
    error = ModelError("the connection broke", ErrorKind.UNAVAILABLE)
    broken = [TextDelta("half an "), TextDelta("answ"), ("echo", {"word": "never"}), error]
    async with talk(*([[("echo", {"word": "a"})]] if calls_first else []), broken, "whole") as runtime:
        ended = await runtime.turn("go")
        assert (ended.reason, ended.text, ended.error) == (EndReason.MODEL_ERROR, "half an answ", error)
        assert "never" not in RAN
        assert runtime.conversation.messages[-1].text == "half an answ"
        assert (await runtime.turn("again")).text == "whole"


async def test_ids_used_twice_are_told_apart(talk):
    """Servers that number calls anew in each reply, or not at all, still get a valid history."""
    same = [
        CallRequested(ToolCall(name, "echo", f'{{"word": "{n}"}}'))
        for n, name in enumerate(("0", "0", "", ""))
    ]
    async with talk(same, same, "done") as runtime:
        ended = await runtime.turn("go")
        assert (ended.calls, ended.text) == (8, "done")


async def test_a_broken_provider_leaves_a_valid_history(talk):
    class Bug(Exception):
        pass

    def broken(request):
        raise Bug

    async with talk([("echo", {"word": "a"})], broken, "well again") as runtime:
        with pytest.raises(Bug):
            await runtime.turn("go")
        assert runtime.heard[-1].reason is EndReason.FAILED
        assert (await runtime.turn("and now?")).text == "well again"


async def test_an_answered_turn_is_in_the_transcript(talk):
    async with talk([TextDelta("I look."), ("echo", {"word": "a"})], "Done.") as runtime:
        fenced = await runtime.admit("web words", "stdin")
        await runtime.turn("my words", fenced)
        entries = await runtime.transcript.entries(runtime.session_id)
        assert [(entry.role, entry.turn, entry.origin.value) for entry in entries] == [
            ("user", 1, "person"),
            ("assistant", 1, "model"),
            ("tool", 1, "web"),
            ("assistant", 1, "model"),
        ]
        assert entries[0].content == {"text": "my words", "attached": fenced, "brought": "web"}
        assert entries[1].content["calls"][0][1] == "echo" == entries[1].content["calls"][0][1]
        assert entries[2].content["call_id"] == entries[1].content["calls"][0][0]


class CancelAt(trio.abc.Instrument):
    """Cancels a scope at the nth step any task takes."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope, self.left = scope, step

    def before_task_step(self, task):
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


async def stopped_at(runtime, step: int) -> tuple[bool, bool]:
    """Run a turn that is cancelled at a step; whether it was cancelled, and whether that came in time."""
    with trio.CancelScope() as scope:
        instrument = CancelAt(scope, step)
        trio.lowlevel.add_instrument(instrument)
        try:
            await runtime.turn("go https://good.com/docs")
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancelled_caught, instrument.left <= 0


async def test_cancelled_anywhere_the_history_and_the_record_are_whole(talk, sessions):
    """Wherever the turn is stopped: valid history, an outcome for each allowed call, an end for each turn."""
    rule = '[[permissions.rules]]\ntool = "shell"\nmatch = "*"\naction = "allow"\n'
    limits = "[agent]\nmax_tool_calls_per_session = 100000\n[tools.anomaly]\nenabled = false\n"
    breaker = "[security.breaker]\nconsecutive = 1000\ntotal = 100000\n"
    calls = [
        TextDelta("I "),
        ("echo", {"word": "a"}),
        ("shell", {"command": "echo hi"}),
        ("fetch", {"url": "https://x.example/"}),
    ]
    async with talk(config=limits + breaker + rule) as runtime:
        step, cancelled, in_time = 1, 0, True
        while in_time:
            runtime.provider.replies = [calls, [TextDelta("so "), ("echo", {"word": "b"})], "Done."]
            caught, in_time = await stopped_at(runtime, step)
            cancelled += caught
            sessions.valid(runtime.conversation.messages)
            assert isinstance(runtime.heard[-1], TurnEnded)
            assert (runtime.heard[-1].reason is EndReason.CANCELLED) == caught
            assert runtime.pipeline.session.pending == runtime.pipeline.session.running == frozenset()
            runtime.provider.replies = ["still here"]
            assert (await runtime.turn("are you there?")).text == "still here"
            await runtime.clear()
            # Early steps one by one, where the bookkeeping is; then coarser, while programs run.
            step += 1 if step < 60 else 7
        assert cancelled > 40
        allowed = {row.call for row in await sessions.rows(runtime, "decision") if row.body["allowed"]}
        ended = [row.call for row in await sessions.rows(runtime, "outcome")]
        assert len(ended) == len(allowed) and set(ended) == allowed
        started = [event.call.id for event in runtime.heard if isinstance(event, CallStarted)]
        assert allowed <= set(started)


async def gone(word: str) -> None:
    """Wait until no process has a word among its arguments: a sandbox numbers its processes itself."""
    with trio.fail_after(30):
        while any(has_argument(place, word) for place in Path("/proc").glob("[0-9]*")):
            await trio.sleep(0.005)


def has_argument(place: Path, word: str) -> bool:
    try:
        return word.encode() in (place / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


async def test_stopping_a_turn_kills_what_runs(talk, sessions):
    lasting = f"600.{os.getpid()}"
    says = [
        [
            TextDelta("Running."),
            ("shell", {"command": f"sleep {lasting} & echo begun; sleep {lasting}"}),
            ("echo", {"word": "b"}),
        ]
    ]
    heard: list[object] = []
    scope = trio.CancelScope()

    def listen(event):
        heard.append(event)
        if isinstance(event, LiveOutput):
            scope.cancel()

    person = sessions.Answers(Answer.YES)
    async with talk(*says, "again", approver=person, listener=listen) as runtime:
        with scope:
            await runtime.turn("run")
        assert next(event.text for event in heard if isinstance(event, LiveOutput)) == "begun\n"
        await gone(lasting)
        messages = runtime.conversation.messages
        sessions.valid(messages)
        assert [m.text for m in messages if m.role == "tool"] == [CANCELLED, CANCELLED]
        (outcome,) = await sessions.rows(runtime, "outcome")
        assert outcome.body["status"] == "cancelled"
        assert (await runtime.turn("and now?")).text == "again"
    assert "b" not in RAN


class Silent:
    """A person who is asked and does not answer."""

    def __init__(self) -> None:
        self.asked = trio.Event()

    async def ask(self, question) -> Answer:
        self.asked.set()
        await trio.sleep_forever()
        return Answer.NO


async def test_stopped_while_a_question_is_open(talk, sessions):
    person = Silent()
    says = [[("write", {"path": "a.txt", "content": "x"}), ("echo", {"word": "b"})]]
    async with talk(*says, "later", approver=person) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.turn, "write a.txt")
            await person.asked.wait()
            nursery.cancel_scope.cancel()
        (asked,) = await sessions.rows(runtime, "approval")
        (decided,) = await sessions.rows(runtime, "decision")
        assert (decided.body["allowed"], decided.body["approver"], decided.call) == (
            False,
            "cancelled",
            asked.call,
        )
        assert await sessions.rows(runtime, "outcome") == []
        assert (await runtime.turn("and now?")).text == "later"
    assert RAN == []


async def test_a_turn_stopped_before_it_began_says_nothing(talk):
    async with talk("hello") as runtime:
        with trio.CancelScope() as scope:
            scope.cancel()
            await runtime.turn("hi")
        assert scope.cancelled_caught
        assert [event.reason for event in runtime.heard if isinstance(event, TurnEnded)] == [
            EndReason.CANCELLED
        ]
        assert (await runtime.turn("hi")).text == "hello"


async def test_a_result_is_told_although_storing_it_is_cancelled(talk):
    """What ran is shown: the end of a call is told before anything else is waited for."""
    async with talk([("echo", {"word": "a"})]) as runtime:
        with trio.CancelScope() as scope:
            runtime._relay.listeners.append(lambda event: isinstance(event, CallEnded) and scope.cancel())
            await runtime.turn("go")
        assert scope.cancelled_caught
        assert "echo a" in runtime.conversation.messages[-1].text
        assert kinds(runtime.heard) == ["CallStarted", "CallEnded", "TurnEnded"]
        assert [event.text for event in runtime.heard if isinstance(event, Text)] == []


async def test_the_time_of_a_turn_runs_out(talk, sessions):
    """Also while the model says nothing, or a call is on its way; the next turn has its own."""

    async def silent():
        yield TextDelta("I am ")
        await trio.sleep_forever()

    class Slow(sessions.Says):
        async def _events(self, reply):
            async for event in silent() if reply == "silent" else super()._events(reply):
                yield event

    async with talk(config="[agent]\ntimeout = 0.05", provider=None) as runtime:
        runtime.provider = Slow("silent", [("hang", {})], "in time")
        ended = await runtime.turn("go")
        assert (ended.reason, ended.text) == (EndReason.TIMEOUT, "I am ")
        assert (await runtime.turn("go")).reason is EndReason.TIMEOUT
        assert [row.body["status"] for row in await sessions.rows(runtime, "outcome")] == ["cancelled"]
        assert (await runtime.turn("go")).text == "in time"
