"""Messages over the standard input and output of a confined program, a line each.

Lines are bounded, so is what is held back, and so is what it says on standard error, whose end is kept to
explain why it ended. What the program does not take off its input in time ends the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from ..process import Dialogue
from .transport import MOST_BYTES, Ended

__all__ = ["StdioTransport", "open_stdio"]

_CHUNK = 65_536
_KEPT_OF_ERRORS = 4_096
_MOST_WAITING = 64

# How long the end of the program is waited for once its output was closed, to say how it ended.
_END = 0.5


class StdioTransport:
    """The messages of one program."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._outgoing, self._waiting = trio.open_memory_channel[bytes](_MOST_WAITING)
        self._buffer = bytearray()
        self._searched = 0
        self._errors: deque[bytes] = deque(maxlen=2)

    @property
    def last_words(self) -> str:
        """The end of what the program wrote to standard error."""
        return b"".join(self._errors)[-_KEPT_OF_ERRORS:].decode("utf-8", "replace").strip()

    async def send(self, message: bytes) -> None:
        """Have a message written.

        Raises:
            Ended: too many wait to be.
        """
        await trio.lowlevel.checkpoint()
        try:
            self._outgoing.send_nowait(message + b"\n")
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Ended("it does not read what it is sent") from error

    async def receive(self) -> bytes:
        """Return the next line.

        Raises:
            Ended: the program ended, or a line is longer than any is read.
        """
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                await trio.lowlevel.checkpoint()
                return line
            self._searched = len(self._buffer)
            if self._searched > MOST_BYTES:
                raise Ended(f"it sent a line of more than {MOST_BYTES >> 20} MiB")
            try:
                chunk = await self._dialogue.out.receive_some(_CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Ended("its output was closed") from error
            if not chunk:
                raise Ended(await self._how_it_ended())
            self._buffer += chunk

    async def _how_it_ended(self) -> str:
        with trio.move_on_after(_END):
            return await self._dialogue.ended()
        return "it closed its output"

    async def write(self) -> None:
        """Write what is to be sent, until the program takes no more."""
        async with self._waiting:
            async for message in self._waiting:
                try:
                    await self._dialogue.into.send_all(message)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return

    async def listen_to_errors(self) -> None:
        """Take off what it says on standard error; only the end of it is kept."""
        async for chunk in self._dialogue.err:
            last = bytes(chunk)[-_KEPT_OF_ERRORS:]
            if self._errors and len(self._errors[-1]) + len(last) <= _KEPT_OF_ERRORS:
                last = self._errors.pop() + last
            self._errors.append(last)


@asynccontextmanager
async def open_stdio(dialogue: Dialogue) -> AsyncIterator[StdioTransport]:
    """Yield the messages of a program that runs."""
    transport = StdioTransport(dialogue)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.write)
        nursery.start_soon(transport.listen_to_errors)
        yield transport
        nursery.cancel_scope.cancel()
