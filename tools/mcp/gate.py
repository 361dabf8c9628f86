"""Who judges where a server connects: the gatekeeper of the call it works on, and nobody between calls.

A server outlives its calls, and what it connects to is recorded with the call it does that for. What it tries
between calls is refused. `leeward mcp test` is the person's own call, for which no session is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from leeward.security.call import Exchange, Gatekeeper
from leeward.security.outcome import PolicyBlocked
from leeward.security.url import Url

__all__ = ["CallGate"]

_BETWEEN = "the server connects to nothing between calls"


class CallGate:
    """A gatekeeper for a server's whole life."""

    def __init__(self) -> None:
        self._gates: list[Gatekeeper] = []

    @contextmanager
    def during(self, gate: Gatekeeper | None) -> Iterator[None]:
        """Let the gatekeeper of a call judge meanwhile; of several calls at once, that of the last."""
        if gate is None:
            yield
            return
        self._gates.append(gate)
        try:
            yield
        finally:
            self._gates.remove(gate)

    @property
    def hosts(self) -> Sequence[str]:
        """The rules for what may be reached now."""
        return self._gates[-1].hosts if self._gates else ()

    @property
    def wanted(self) -> Collection[str]:
        """Nothing: what a server may reach is configured, and not asked about."""
        return ()

    async def admit(self, target: str, *, is_tunnel: bool) -> tuple[Url, int]:
        """Return where a request leads and its number, once it may go there and that is on record.

        Raises:
            PolicyBlocked: it may not, or no call is running.
        """
        if not self._gates:
            raise PolicyBlocked(_BETWEEN)
        return await self._gates[-1].admit(target, is_tunnel=is_tunnel)

    async def admitted(self, target: str) -> int:
        """Return the number of a request of ours to a service, once it may be made."""
        _, number = await self.admit(target, is_tunnel=True)
        return number

    async def refuse(self, target: str, rule: str, reason: str) -> None:
        """Put on record that something was refused; between calls there is no record to put it on."""
        if self._gates:
            await self._gates[-1].refuse(target, rule, reason)

    def report(self, exchange: Exchange, number: int) -> None:
        """Record the outcome of a connection, while its call is running."""
        if self._gates:
            self._gates[-1].report(exchange, number)
