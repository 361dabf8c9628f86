"""Retries of a model: with a mock clock and fixed random numbers, and against real servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.providers.interface import (
    CallRequested,
    ErrorKind,
    FellBack,
    Message,
    ModelCatalog,
    ModelError,
    ModelEvent,
    ModelInfo,
    Reasoning,
    Request,
    Retrying,
    Stopped,
    StopReason,
    TextDelta,
    Usage,
)
from leeward.runtime.providers.retry import RetryingProvider, RetryPolicy, models_of
from leeward.security.call import ToolCall

DONE = Stopped(StopReason.STOP)
HELLO = Request((Message("user", "hello"),))
BUSY = ModelError("busy (503)", ErrorKind.UNAVAILABLE)


class Plays:
    """A provider that plays one list of events after the other; an error among them is raised."""

    name = "plays"

    def __init__(self, *replies: Sequence[ModelEvent | ModelError]) -> None:
        self.left = list(replies)
        self.asked_at: list[float] = []

    @asynccontextmanager
    async def stream(self, _request: Request) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self.asked_at.append(trio.current_time())
        reply = self.left.pop(0)
        if reply and isinstance(reply[0], ModelError):
            raise reply[0]

        async def events() -> AsyncIterator[ModelEvent]:
            for event in reply:
                await trio.lowlevel.checkpoint()
                if isinstance(event, ModelError):
                    raise event
                yield event

        yield events()


async def ask(provider: RetryingProvider) -> list[ModelEvent | ModelError]:
    seen: list[ModelEvent | ModelError] = []
    try:
        async with provider.stream(HELLO) as events:
            async for event in events:
                seen.append(event)
    except ModelError as error:
        seen.append(error)
    return seen


async def test_waits_are_drawn_from_a_bound_that_doubles(autojump_clock) -> None:
    plays = Plays(*[[BUSY]] * 5, [TextDelta("hi"), DONE])
    policy = RetryPolicy(retries=5, seconds=60, first_wait=1, longest_wait=6)
    started = trio.current_time()
    seen = await ask(RetryingProvider(plays, policy, lambda: 0.5))
    assert seen == [
        *(Retrying("busy (503)", wait) for wait in (0.5, 1.0, 2.0, 3.0, 3.0)),
        TextDelta("hi"),
        DONE,
    ]
    assert [at - started for at in plays.asked_at] == pytest.approx([0, 0.5, 1.5, 3.5, 6.5, 9.5])


LATER = ModelError("slow down (429)", ErrorKind.RATE_LIMITED, retry_after=7)


@pytest.mark.parametrize(("drawn", "wait"), [(0.0, 7.0), (0.5, 7.5)])
async def test_a_server_that_names_a_time_is_given_it(autojump_clock, drawn, wait) -> None:
    seen = await ask(RetryingProvider(Plays([LATER], [DONE]), RetryPolicy(), lambda: drawn))
    assert seen == [Retrying("slow down (429)", wait), DONE]


async def test_a_time_beyond_the_bound_is_not_waited_for(autojump_clock) -> None:
    started = trio.current_time()
    (error,) = await ask(RetryingProvider(Plays([LATER]), RetryPolicy(seconds=5)))
    assert error is LATER
    assert trio.current_time() == started


async def test_it_ends_with_the_number_of_tries_and_with_the_time(autojump_clock) -> None:
    few = Plays(*[[BUSY]] * 9)
    assert (await ask(RetryingProvider(few, RetryPolicy(retries=2), lambda: 0.0)))[-1] is BUSY
    assert len(few.asked_at) == 3
    short = Plays(*[[BUSY]] * 99)
    assert (await ask(RetryingProvider(short, RetryPolicy(retries=99, seconds=10), lambda: 0.9)))[-1] is BUSY
    assert 2 < len(short.asked_at) < 9
    assert short.asked_at[-1] - short.asked_at[0] <= 10


NOT_AGAIN = [
    ModelError("refused the API key (401)", ErrorKind.AUTH),
    ModelError("refused the request (400)", ErrorKind.BAD_REQUEST),
    ModelError("no dialect", ErrorKind.PROTOCOL),
    ModelError("nothing left (429)", ErrorKind.RATE_LIMITED, passing=False),
    ModelError("certificate", ErrorKind.UNAVAILABLE, passing=False),
]


@pytest.mark.parametrize("error", NOT_AGAIN, ids=str)
async def test_what_does_not_pass_is_not_asked_again(autojump_clock, error) -> None:
    assert await ask(RetryingProvider(Plays([error]))) == [error]


CALL = CallRequested(ToolCall("a", "f", "{}"))


@pytest.mark.parametrize(
    ("before", "again"),
    [
        ([Reasoning("hm")], True),
        ([Usage(1, 1)], True),
        ([TextDelta("He")], False),
        ([CALL], False),
        ([Reasoning("hm"), TextDelta("H")], False),
    ],
)
async def test_nothing_of_an_answer_is_told_twice(autojump_clock, before, again) -> None:
    plays = Plays([*before, BUSY], [TextDelta("Hello"), DONE])
    seen = await ask(RetryingProvider(plays, RetryPolicy(), lambda: 0.0))
    rest = [Retrying("busy (503)", 0.0), TextDelta("Hello"), DONE] if again else [BUSY]
    assert seen == [*before, *rest]


EVENTS = st.sampled_from([TextDelta("x"), Reasoning("r"), CALL, Usage(1, 1)])
REPLIES = st.lists(
    st.tuples(st.lists(EVENTS, max_size=3), st.sampled_from([BUSY, LATER, DONE, *NOT_AGAIN])),
    min_size=1,
    max_size=6,
)


@given(REPLIES, st.integers(0, 4), st.floats(0, 0.99))
@example([([TextDelta("x")], BUSY), ([], DONE)], 4, 0.5)
@example([([], LATER), ([], DONE)], 0, 0.0)
def test_whatever_fails_the_answer_is_that_of_one_try(replies, retries, drawn) -> None:
    async def run() -> tuple[list[ModelEvent | ModelError], int]:
        plays = Plays(*([*events, end] for events, end in replies), *[[DONE]] * 9)
        return await ask(RetryingProvider(plays, RetryPolicy(retries, 30), lambda: drawn)), len(
            plays.asked_at
        )

    seen, tries = trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert tries <= retries + 1
    assert isinstance(seen[-1], Stopped | ModelError)
    told = [event for event in seen if isinstance(event, TextDelta | CallRequested)]
    assert (
        told == [e for e in replies[tries - 1][0] if isinstance(e, TextDelta | CallRequested)]
        if tries <= len(replies)
        else not told
    )
    last_wait = max((n for n, event in enumerate(seen) if isinstance(event, Retrying)), default=0)
    assert not any(isinstance(event, TextDelta | CallRequested) for event in seen[:last_wait])


async def test_a_cancelled_wait_asks_nobody(autojump_clock) -> None:
    plays = Plays([BUSY], [DONE])
    with trio.move_on_after(0.5):
        await ask(RetryingProvider(plays, RetryPolicy(first_wait=30), lambda: 0.9))
    assert len(plays.asked_at) == 1


async def test_models_are_those_of_the_provider_behind() -> None:
    class Lists(Plays):
        async def list_models(self) -> tuple[ModelInfo, ...]:
            return (ModelInfo("a"),)

    assert await RetryingProvider(Lists()).list_models() == (ModelInfo("a"),)
    assert await models_of(RetryingProvider(Plays())) == ()
    assert isinstance(RetryingProvider(Plays()), ModelCatalog)
    assert RetryingProvider(Plays()).name == "plays"
    assert not isinstance(FellBack("a", "b"), Retrying)


def failing(model_server: ModuleType, how: str):
    """Return an answer that fails in one of the ways of the world."""
    answer, chunk = model_server.Answer, model_server.event(model_server.chunk({"content": ""}))
    return {
        "429": answer(
            [json.dumps({"error": "slow"}).encode()], 429, "application/json", {"retry-after": "0"}
        ),
        "503": answer([], 503, "text/plain"),
        "overloaded": answer(
            [model_server.event({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})]
        ),
        "hang": answer([], hang=True),
        "stall": answer([chunk], hang=True),
        "disconnect": answer([chunk], fail=True),
        "truncated": answer([chunk, chunk[:-20]]),
        "empty": answer([]),
    }[how]


@pytest.mark.parametrize(
    "how", ["429", "503", "overloaded", "hang", "stall", "disconnect", "truncated", "empty"]
)
@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
async def test_real_servers_are_asked_again(model_server: ModuleType, kind: str, how: str) -> None:
    good = (
        model_server.message({"type": "text", "text": "hi"})
        if kind == "anthropic"
        else model_server.says("hi")
    )
    async with model_server.serve(failing(model_server, how), model_server.Answer(good)) as server:
        # The good answer has to come within it, too, whatever else the machine does.
        patience = 3 if how in {"hang", "stall"} else 30
        async with model_server.opened(server, f"{kind}:m", stall_timeout=patience) as provider:
            seen = await model_server.ask(RetryingProvider(provider, RetryPolicy(first_wait=0.01)))
        assert len(server.bodies) == 2
    assert [type(event) for event in seen[:2]] == [Retrying, TextDelta]
    assert model_server.text(seen) == "hi"
    assert seen[-1] == DONE


@pytest.mark.parametrize("how", ["stall", "disconnect", "truncated"])
async def test_a_server_that_fails_in_mid_answer_is_not(model_server: ModuleType, how: str) -> None:
    answer = failing(model_server, how)
    told = model_server.event(model_server.chunk({"content": "He"}))
    answer = model_server.Answer([told, *answer.pieces], hang=answer.hang, fail=answer.fail)
    async with model_server.serve(answer) as server:
        async with model_server.opened(server, "openai:m", stall_timeout=0.25) as provider:
            with trio.fail_after(30):
                *seen, error = await ask(RetryingProvider(provider))
        assert len(server.bodies) == 1
    assert seen == [TextDelta("He")]
    assert isinstance(error, ModelError)


async def test_nobody_there_is_a_failure_that_passes(model_server: ModuleType) -> None:
    async with model_server.serve(model_server.Answer([])) as server:
        pass
    async with model_server.opened(server, "openai:m") as provider:
        *waits, error = await ask(RetryingProvider(provider, RetryPolicy(2, first_wait=0.01)))
    assert [type(wait) for wait in waits] == [Retrying, Retrying]
    assert isinstance(error, ModelError) and error.kind is ErrorKind.UNAVAILABLE
