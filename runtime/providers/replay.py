"""How a model without a wire answers: events known beforehand, handed out one by one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import trio

from .interface import CallRequested, ModelEvent, Requested, Stopped, StopReason, TextDelta

__all__ = ["replay", "reply"]


def reply(text: str, calls: Sequence[Requested] = ()) -> tuple[ModelEvent, ...]:
    """Return the events of a whole reply; the text is told line by line, as a stream would."""
    reason = StopReason.TOOL_CALLS if calls else StopReason.STOP
    return (
        *(TextDelta(line) for line in text.splitlines(keepends=True)),
        *(CallRequested(requested) for requested in calls),
        Stopped(reason),
    )


@asynccontextmanager
async def replay(events: Sequence[ModelEvent]) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
    """Hand out events; each is a point where the reader can be cancelled."""
    async with aclosing(_each(events)) as reading:
        yield reading


async def _each(events: Sequence[ModelEvent]) -> AsyncGenerator[ModelEvent, None]:
    for event in events:
        await trio.lowlevel.checkpoint()
        yield event
