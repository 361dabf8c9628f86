"""Serve the only way out of a program's network: an HTTP proxy with CONNECT.

Where a request leads is judged and on record before anything is dialled (`security/connections.py`), the name
is resolved once and dialled by the one dialler (`http/dial.py`), and what is refused is answered with the
reason.

A run is bounded in connections, bytes and idle time. Its program alone suffers from what it holds open, and
ending it ends all of this.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import field

import trio

from leeward.security.call import Gatekeeper
from leeward.security.lazy import dataclass

from .connection import Bounds, Connection, Dial

__all__ = ["Bounds", "Dial", "Proxy"]

_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE = 0.1


@dataclass(slots=True)
class Proxy:
    """Serves the program of one run."""

    gate: Gatekeeper
    dial: Dial
    bounds: Bounds = field(default_factory=Bounds)
    _bytes: int = 0
    _scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    _open: dict[trio.CancelScope, trio.Event] = field(default_factory=dict)

    async def serve(self, listener: trio.SocketListener) -> None:
        """Serve what connects, until this is cancelled or the run has used up what it may."""
        slots = trio.Semaphore(self.bounds.at_once)
        with self._scope:
            async with trio.open_nursery() as nursery:
                for _ in range(self.bounds.connections):
                    await slots.acquire()
                    nursery.start_soon(self._served, await _accepted(listener), slots)
                # Closed, it refuses at once a program that keeps trying.
                await listener.aclose()
                await self.gate.refuse("", "connections", "the command made more connections than it may")

    async def _served(self, stream: trio.SocketStream, slots: trio.Semaphore) -> None:
        scope, ended = trio.CancelScope(), trio.Event()
        self._open[scope] = ended
        try:
            with scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                await Connection(self.gate, self.dial, self.bounds, self.spend, stream).followed()
        finally:
            del self._open[scope]
            ended.set()
            await trio.aclose_forcefully(stream)
            slots.release()

    async def drop(self) -> None:
        """End the connections there are, and wait until the outcome of each is reported."""
        for scope, ended in [*self._open.items()]:
            scope.cancel()
            await ended.wait()
        await trio.lowlevel.checkpoint()

    async def spend(self, count: int) -> None:
        """Count bytes, and end everything once they are too many."""
        self._bytes += count
        if self._bytes > self.bounds.total_bytes:
            await self.gate.refuse("", "bytes", "the command moved more bytes than it may")
            self._scope.cancel()
            await trio.lowlevel.checkpoint()


async def _accepted(listener: trio.SocketListener) -> trio.SocketStream:
    while True:
        try:
            return await listener.accept()
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
        await trio.sleep(_PAUSE)
