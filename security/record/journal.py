"""Keep the session and its audit in step: what is counted, what is written, and what is still owed.

Two ways for an event to happen. `fold` counts at once, and the caller must `write` before anything
follows from it. `note` counts whatever the disk says; what is not known to be written is owed, and no
call starts until it is paid.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import trio

from ..ports import Ports, RecordError
from ..session import Event, Granted, GrantEntry, LevelSet, Revoked, Session, apply_events
from ..trust import TrustLevel

__all__ = ["Journal", "tell"]

# A record of an outcome is written under a shield, so that a cancelled call leaves one. But a disk that hangs
# must not make the cancellation hang: what is not written by then is written before the next call.
_RECORD_SECONDS = 5.0


class Journal:
    """Holds the one `Session` of a pipeline; it is replaced, never changed."""

    def __init__(self, session: Session, ports: Ports) -> None:
        self._session = session
        self._audit = ports.audit
        self._clock = ports.clock
        self._observer = ports.observer
        self._grants = ports.grants
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
        self._session = apply_events(self._session, *events)

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

    async def catch_up(self) -> None:
        """Write what is owed, and let count what was always-allowed or revoked elsewhere by now.

        Raises:
            RecordError: one of the two could not be done.
        """
        await self.write()
        if self._grants is not None:
            # What is not on the disk yet, or changes here meanwhile, is known better here than there.
            ours = {event.grant.id for event in self._owed if isinstance(event, Granted)}
            ours |= {event.id for event in self._owed if isinstance(event, Revoked)}
            known = {grant.id for grant in self._session.grants if grant.scope.is_lasting}
            held = await self._grants.holding_in(self._session.policy.workspace)
            self.defer(*self._changed({one.grant.id: one for one in held}, known, ours))

    def _changed(
        self, held: Mapping[str, GrantEntry], known: set[str], ours: set[str]
    ) -> Iterator[Granted | Revoked]:
        """Yield what others did to the grants since some were known; one that has expired nobody revoked."""
        now, session = self.now(), self._session
        for grant in session.grants:
            if grant.id in known - ours and grant.id not in held and grant.holds_at(now):
                yield Revoked(now, grant.id)
        here = {grant.id for grant in session.grants}
        for name, one in held.items():
            if name not in known | ours | here and one.workspace in (None, session.policy.workspace):
                yield Granted.taken_in(one, now)

    def defer(self, *events: Event) -> None:
        """Let events count; they are written with the next ones, and before any call starts."""
        self.fold(*events)
        self._owed.extend(events)

    async def note(self, *events: Event) -> None:
        """Let events count; they are written within 5 s, even under cancellation, or owed."""
        self.defer(*events)
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
        cause = f"anomaly window: {window.told(tool)}; /trust {tool} LEVEL lifts it"
        tell(partial(self._observer.alert, f"critical: {tool}: {cause}"))
        if limits.auto_block:
            await self.note(LevelSet(self.now(), tool, TrustLevel.BLOCKED, cause))


def tell(speak: Callable[[], None]) -> None:
    """Let an observer hear something; one that fails stops no call."""
    try:
        speak()
    except Exception as error:  # noqa: BLE001 — an observer may break, a call may not
        warnings.warn(f"an observer failed: {error!r}", RuntimeWarning, stacklevel=2)
