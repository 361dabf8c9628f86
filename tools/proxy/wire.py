"""The two ends of a forwarded connection: count bytes, and close what makes no progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field

import trio

from leeward.security.lazy import dataclass

__all__ = ["BROKEN", "CHUNK", "Wire"]

CHUNK = 65_536

BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
"""What says that the other side of a connection is gone."""


@dataclass(slots=True)
class Wire:
    """A program's connection and the one that was dialled for it; `idle` are seconds without a byte.

    `spend` is called with each number of bytes before they go on. `scope` is entered by the forwarding task.
    """

    stream: trio.SocketStream
    upstream: trio.SocketStream
    spend: Callable[[int], Awaitable[None]]
    idle: float
    sent: int = 0
    received: int = 0
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def moved(self) -> None:
        """Begin the idle time anew."""
        self.scope.deadline = trio.current_time() + self.idle

    async def send_up(self, data: bytes) -> None:
        """Send to what was dialled."""
        if data:
            self.moved()
            self.sent += len(data)
            await self.spend(len(data))
            await self.upstream.send_all(data)

    async def receive_down(self) -> bytes:
        """Return what came from there, nothing at its end."""
        data = bytes(await self.upstream.receive_some(CHUNK))
        self.moved()
        self.received += len(data)
        await self.spend(len(data))
        return data

    @property
    def is_idle(self) -> bool:
        """Whether it was given up since nothing moved."""
        return trio.current_time() >= self.scope.deadline
