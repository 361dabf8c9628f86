"""Silent surroundings for benches that measure only the pipeline."""

from __future__ import annotations

import time

import trio

from leeward.security.session import Event

__all__ = ["NoAudit", "Silent"]


class NoAudit:
    """Keeps nothing: what an audit is measured against."""

    async def append(self, session: str, *events: Event) -> None:
        """Keep nothing."""
        await trio.lowlevel.checkpoint()


class Silent:
    """Nobody listens, and the clock is the system's."""

    def now(self) -> float:
        """Return the time of day."""
        return time.time()

    def live(self, call: str, chunk: str) -> None:
        """Nothing."""

    def alert(self, message: str) -> None:
        """Nothing."""
