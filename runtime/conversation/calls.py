"""Run the calls of one reply: in order, neighbouring reads in parallel, with retries where allowed.

Neighbours that only read or bring something in run side by side; any other call waits for those before it,
and those behind it wait for its end. Whether a call may run, and how often in all, is judged by the pipeline,
right before each one starts.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

import trio

from leeward.security.action import without_secrets
from leeward.security.call import Asker, Status, ToolCall, ToolResult, ToolSpec
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass

from ..events import CallEnded, CallStarted, RunEvent
from ..providers.interface import new_call_id
from .history import CANCELLED

__all__ = ["AT_ONCE", "Calls", "RetryLimits", "Runner", "batches", "is_passive"]

AT_ONCE = 8
"""How many calls run side by side, at most."""

_CHANGING = Effect.CREATE | Effect.WRITE | Effect.EXECUTE
_RANDOM = secrets.SystemRandom()


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """At most `retries` further tries, after waits drawn between nothing and a bound that doubles.

    The first bound is `first_wait`, none is above `longest_wait`, both in seconds ("full jitter": Brooker,
    "Exponential Backoff And Jitter", 2015).
    """

    retries: int = 2
    first_wait: float = 0.5
    longest_wait: float = 8.0


def is_passive(spec: ToolSpec | None) -> bool:
    """Whether calls of a tool may run beside others: it only reads or brings something in.

    Calls that only bring something in may run side by side if they may be sent again just as well. A tool
    that is not there is refused, which changes nothing either. Those of `ordered` tools keep their place.
    """
    if spec is None:
        return True
    is_harmless = not spec.effects & _CHANGING and (Effect.SEND not in spec.effects or spec.idempotent)
    return is_harmless and not spec.ordered


def batches(
    calls: Sequence[ToolCall], spec_of: Callable[[str], ToolSpec | None]
) -> Iterator[tuple[ToolCall, ...]]:
    """Yield the calls in order, those together that may run side by side."""
    for passive, group in groupby(calls, lambda call: is_passive(spec_of(call.tool))):
        if passive:
            yield tuple(group)
        else:
            yield from ((call,) for call in group)


class Runner(Protocol):
    """What calls go through: a pipeline, or what marks them first."""

    async def run(self, call: ToolCall) -> ToolResult:
        """Judge a call and, if it may, run it."""
        ...

    def expect(self, calls: Sequence[ToolCall]) -> None:
        """Take in which calls will be run next."""
        ...


class Calls:
    """Runs what replies ask for. `made` and `refused` count the calls, tried again or not."""

    def __init__(
        self,
        pipeline: Runner,
        spec_of: Callable[[str], ToolSpec | None],
        retry: RetryLimits,
        emit: Callable[[RunEvent], None],
        behind: Callable[[ToolResult], Awaitable[str]] | None = None,
        random: Callable[[], float] = _RANDOM.random,
    ) -> None:
        """Take what calls go through and who hears of them; `random` gives numbers from 0 up to 1.

        `behind` returns what goes to the model behind a result, as it was admitted.
        """
        self._behind = behind
        self._pipeline = pipeline
        self._spec_of = spec_of
        self._retry = retry
        self._emit = emit
        self._random = random
        self.made: int = 0
        self.refused: int = 0

    async def run(self, calls: Sequence[ToolCall], answer: Callable[[str, str], None]) -> None:
        """Run calls and tell `answer` each one's id and result, in the order asked.

        Also when this is cancelled: then the calls that ran side by side are answered, those that were
        stopped as such, and the ones behind them are not.
        """
        # Whatever the reply says of them, a model asked for them.
        own = [replace(one, id=new_call_id(), asker=Asker.MODEL, model_id=one.id) for one in calls]
        done = 0
        try:
            for batch in batches(own, self._spec_of):
                done += len(batch)
                self._pipeline.expect(own[done:])
                results = [CANCELLED] * len(batch)
                try:
                    await self._side_by_side(batch, results)
                finally:
                    for call, text in zip(batch, results, strict=True):
                        answer(call.model_id, text)
        finally:
            self._pipeline.expect(())

    async def _side_by_side(self, batch: Sequence[ToolCall], results: list[str]) -> None:
        waiting = iter(enumerate(batch))

        async def work() -> None:
            for index, call in waiting:
                result = await self._tried(call)
                # First as it is: cancelling what follows must not lose it.
                results[index] = result.text
                if self._behind is not None:
                    results[index] += await self._behind(result)

        if len(batch) == 1:
            await work()
            return
        async with trio.open_nursery() as nursery:
            for _ in range(min(AT_ONCE, len(batch))):
                nursery.start_soon(work)

    async def _tried(self, call: ToolCall) -> ToolResult:
        """Run a call, and again where that can help: each try is judged and recorded as a call of its own."""
        result = await self._once(call)
        for tried in range(self._retry.retries):
            if not self._may_pass(result):
                break
            bound = min(self._retry.longest_wait, self._retry.first_wait * 2**tried)
            await trio.sleep(self._random() * bound)
            result = await self._once(replace(call, id=new_call_id()))
        return result

    async def _once(self, call: ToolCall) -> ToolResult:
        shown = without_secrets(call.arguments, self._spec_of(call.tool), call.once)
        self._emit(CallStarted(replace(call, arguments=shown)))
        result = await self._pipeline.run(call)
        self.made += 1
        self.refused += result.outcome.status is Status.DENIED
        # Shown before anything is stored, even where nothing can be stored any more.
        self._emit(CallEnded(result))
        return result

    def _may_pass(self, result: ToolResult) -> bool:
        spec, outcome = self._spec_of(result.call.tool), result.outcome
        if spec is None or not spec.idempotent or outcome.status not in {Status.ERROR, Status.TIMEOUT}:
            return False
        return outcome.category is not None and outcome.category.retryable
