"""Who judges where a server connects: the gatekeeper of the call it works on, and nobody between calls.

A server outlives its calls, and what it connects to is recorded with the call it does that for. A server that
reaches hosts has one call at a time, for nobody could know which of several it connects for. What it tries
between calls is refused, and what is open when a call ends is closed. `leeward mcp test` is the person's own
call, for which no session is there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager

import trio

from leeward.security.call import Exchange, Gatekeeper
from leeward.security.outcome import PolicyBlocked
from leeward.security.url import Url

__all__ = ["CallGate"]

# Closing waits for nothing that is far away.
_LONGEST_DROP = 2.0

_BETWEEN = "the server connects to nothing between calls"


class CallGate:
    """A gatekeeper for a server's whole life; one call at a time has it.

    `drop` ends what is connected, and is set by what connects.
    """

    def __init__(self) -> None:
        self.drop: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        self._gate: Gatekeeper | None = None
        self._admits = False
        self._turn = trio.Lock()

    @asynccontextmanager
    async def during(self, gate: Gatekeeper) -> AsyncIterator[None]:
        """Let the gatekeeper of a call judge meanwhile; another call waits until this one is closed."""
        async with self._turn:
            self._gate, self._admits = gate, True
            try:
                yield
            finally:
                self._admits = False
                # What is still connected would be on record with the next call, or with none.
                with trio.move_on_after(_LONGEST_DROP) as scope:
                    scope.shield = True
                    await self.drop()
                self._gate = None

    @property
    def hosts(self) -> Sequence[str]:
        """The rules for what may be reached now."""
        return self._gate.hosts if self._gate is not None else ()

    @property
    def wanted(self) -> Collection[str]:
        """Nothing: what a server may reach is configured, and not asked about."""
        return ()

    async def admit(self, target: str, *, is_tunnel: bool) -> tuple[Url, int]:
        """Return where a request leads and its number, once it may go there and that is on record.

        Raises:
            PolicyBlocked: it may not, or no call is running.
        """
        if self._gate is None or not self._admits:
            raise PolicyBlocked(_BETWEEN)
        return await self._gate.admit(target, is_tunnel=is_tunnel)

    async def admitted(self, target: str) -> int:
        """Return the number of a request of ours to a service, once it may be made."""
        _, number = await self.admit(target, is_tunnel=True)
        return number

    async def refuse(self, target: str, rule: str, reason: str) -> None:
        """Put on record that something was refused; between calls there is no record to put it on."""
        if self._gate is not None:
            await self._gate.refuse(target, rule, reason)

    def report(self, exchange: Exchange, number: int) -> None:
        """Record the outcome of a connection, while its call is running."""
        if self._gate is not None:
            self._gate.report(exchange, number)
