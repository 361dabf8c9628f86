"""Run a program that is talked to through its standard input and output for as long as its caller wants.

However this is left, nothing the program started is left afterwards. Left without an error, its input is
closed first, for a well-behaved one ends then; otherwise all of it is ended at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure

from .run import Child, Start, Starter, starting, two_pipes

__all__ = ["Dialogue", "open_dialogue"]

# How long a program may tidy up once its input was closed, and once more after SIGTERM.
_GRACE = 0.3


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A program that runs: the three ends of its pipes, and how it ends."""

    into: trio.lowlevel.FdStream
    out: trio.lowlevel.FdStream
    err: trio.lowlevel.FdStream
    child: Child

    async def ended(self) -> str:
        """Wait for its end, and say in our words how it came."""
        try:
            code = await self.child.ended()
        except PermanentFailure as error:
            return str(error)
        if self.child.exceeded is not None:
            return str(self.child.exceeded)
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"


@asynccontextmanager
async def open_dialogue(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], starter: Starter
) -> AsyncIterator[Dialogue]:
    """Start a program and yield it; when this is left, nothing of it is left.

    Raises:
        PermanentFailure: it could not be started.
    """
    (reads, into), (out, writes_out), (err, writes_err) = _three_pipes()
    ours = [trio.lowlevel.FdStream(end) for end in (into, out, err)]
    try:
        try:
            child = await starter(Start(argv, cwd, env, writes_out, writes_err, reads))
        finally:
            for end in (reads, writes_out, writes_err):
                os.close(end)
        is_gentle = False
        try:
            yield Dialogue(ours[0], ours[1], ours[2], child)
            is_gentle = True
        finally:
            with trio.CancelScope(shield=True):
                await ours[0].aclose()
                if is_gentle:
                    await _let_end(child)
                await child.end()
    finally:
        for stream in ours:
            await trio.aclose_forcefully(stream)


def _three_pipes() -> list[tuple[int, int]]:
    """Return three pipes, reading end first, or none.

    Raises:
        PermanentFailure: there are not enough descriptors left.
    """
    with starting():
        first = os.pipe()
    try:
        return [first, *two_pipes()]
    except PermanentFailure:
        for end in first:
            os.close(end)
        raise


async def _let_end(child: Child) -> None:
    """Give a program whose input is closed a moment to end, and another once it was asked to."""
    ask: Callable[[], None]
    for ask in (lambda: None, lambda: child.signal(signal.SIGTERM)):
        ask()
        with trio.move_on_after(_GRACE):
            with suppress(PermanentFailure):
                await child.ended()
            return
