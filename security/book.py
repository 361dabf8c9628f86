"""The session and its record, kept in step: what counts, what is written, what is still owed.

Two ways for an event to happen. `fold` counts at once, and the caller must `write` before anything
follows from it. `note` counts whatever the disk says; what is not known to be written is owed, and no
call starts until it is paid.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import trio

from .events import Event, LevelSet
from .level import TrustLevel
from .ports import Audit, Clock, Observer, RecordError
from .session import Session, after

__all__ = ["Book", "tell"]

_RECORD_SECONDS = 5.0


class Book:
    """Holds the one `Session` of a pipeline; it is replaced, never changed."""

    def __init__(self, session: Session, audit: Audit, clock: Clock, observer: Observer) -> None:
        self._session = session
        self._audit = audit
        self._clock = clock
        self._observer = observer
        self._owed: list[Event] = []
        self._alerted: set[str] = set()
        self._writing = trio.Lock()

    @property
    def session(self) -> Session:
        """The session as it is at this moment, its clock included."""
        return replace(self._session, now=self.now())

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._clock.now()

    def fold(self, *events: Event) -> None:
        """Let events count."""
        for event in events:
            self._session = after(self._session, event)

    async def write(self, *events: Event) -> None:
        """Put events that count already on record, behind whatever is owed; those that are not stay owed.

        Raises:
            RecordError: they are not on record.
        """
        # Owed until they are known to be on record: of a writing that was cancelled, nobody knows that.
        self._owed.extend(events)
        # One at a time, in order: nobody may go on past an outcome that another still fails to write.
        async with self._writing:
            owed = tuple(self._owed)
            if owed:
                await self._audit.append(self._session.id, *owed)
                del self._owed[: len(owed)]

    def owe(self, *events: Event) -> None:
        """Let events count; they are written with the next ones, and before any call starts."""
        self.fold(*events)
        self._owed.extend(events)

    async def note(self, *events: Event) -> None:
        """Let events count; they are written within 5 s, even under cancellation, or owed."""
        self.owe(*events)
        with trio.move_on_after(_RECORD_SECONDS, shield=True), suppress(RecordError):
            await self.write()

    async def watch(self, tool: str) -> None:
        """Block a tool whose window has tripped, and tell the person; once for each time it trips."""
        limits, window = self._session.policy.anomaly, self._session.anomaly
        if not window.is_tripped(tool, limits):
            self._alerted.discard(tool)
            return
        level = self._session.level_of(tool)
        if level is not None and level[0] is TrustLevel.BLOCKED:
            return
        if tool in self._alerted and not limits.auto_block:
            return
        self._alerted.add(tool)
        failures, seen = window.failures(tool)
        cause = f"anomaly window: {failures} of {seen} failed; /trust {tool} LEVEL lifts it"
        tell(partial(self._observer.alert, f"critical: {tool}: {cause}"))
        if limits.auto_block:
            await self.note(LevelSet(self.now(), tool, TrustLevel.BLOCKED, cause))


def tell(speak: Callable[[], None]) -> None:
    """Let an observer hear something; one that fails stops no call."""
    try:
        speak()
    except Exception as error:  # noqa: BLE001 — one of the three: an observer may break, a call may not
        warnings.warn(f"an observer failed: {error!r}", RuntimeWarning, stacklevel=2)
