"""Append-only audit log: one row for each event of a session, never changed afterwards.

A session is a fold over its rows, so a session is also resumed from them. `events.py` converts events to
rows, `memory/database/chain.py` links the rows, `signer.py` signs them; the pipeline guarantees that a
decision is recorded before its tool starts.

A process may be killed between a decision and its outcome. Nobody can know then how far the call came,
so it is never run again: the next process to start records an outcome of "unknown", and the person is
informed (`AuditLogger.unknown_outcomes`).
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from leeward.security.call import Status
from leeward.security.kinds import Json
from leeward.security.ports import Clock, RecordError
from leeward.security.session import Event, Finished

from ..changes import settled_changes
from ..database import Database, Row, parsed, storable
from ..grants import kept_with
from .events import KINDS, event_of
from .heads import Head, Verified
from .reports import AuditReports
from .rows import EVENTS, FOLDED, OF_CALL, OF_PREFIX, Drafting, Record, listing, record_of
from .signer import HeadSigner
from .unfinished import UNFINISHED, Unfinished, abandoned

__all__ = ["AuditLogger"]


def _head(self: AuditLogger) -> Coroutine[Any, Any, Head]:
    """Sign the audit under the earlier name of `sign_head`, which warns (`DeprecationWarning`)."""
    warnings.warn("call sign_head of AuditLogger, not head: it signs", DeprecationWarning, stacklevel=2)
    return self.sign_head()


class AuditLogger:
    """The append-only audit: the pipeline writes it, `reports` and these methods read it.

    `key` is the file with the key that signs heads, by default `audit.key` beside the database. `heads` is a
    file elsewhere, to which each signed head is copied; `heads_elsewhere` reads it. `last_head` returns the
    newest head that this object has signed, or None.
    """

    def __init__(
        self, database: Database, clock: Clock, *, key: Path | None = None, heads: Path | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._drafting = Drafting()
        self.reports: AuditReports = AuditReports(database)
        self._head_signer = HeadSigner(
            database, self._drafting, key or database.path.with_name("audit.key"), heads
        )
        self.heads_elsewhere: Callable[[], Awaitable[list[Head]]] = self._head_signer.heads_elsewhere
        self.last_head: Callable[[], Head | None] = self._head_signer.last_head

    async def start_session(
        self,
        session: str,
        workspace: str,
        config_hash: str,
        details: Mapping[str, Json] = MappingProxyType({}),
    ) -> None:
        """Record the beginning of a session: its workspace and its configuration.

        `details` are further values for the record (autonomy, model, gates that are off).

        Raises:
            RecordError: it could not be committed, or the file for heads cannot be written.
        """
        details_of = {**details, "workspace": workspace, "config_hash": config_hash}
        draft = self._drafting.of_fact(self._clock.now(), session, "session", details_of)
        await self._head_signer.ready()
        await self._database.write(drafts=[draft])

    async def end_session(self, session: str) -> None:
        """Record the end of a session, and sign the audit.

        Raises:
            RecordError: something could not be written; everything else was.
        """
        now = self._clock.now()
        ended = self._drafting.of_fact(now, session, "ended", {})
        ending = self._database.queue(settled_changes(session), drafts=[ended])
        # Not in one transaction: where the key cannot be used, the session has ended all the same.
        await self._head_signer.sign(now, session)
        await self._database.written(ending)

    async def append(self, session: str, *events: Event) -> None:
        """Return when the events are on disk. Their order is that of the calls of this method.

        A caller who is cancelled while waiting cannot know whether the events were committed. It may append
        the same objects again: each is stored once.

        Raises:
            RecordError: the events could not be committed, not even some of them.
        """
        if events:
            drafts = [self._drafting.of_event(session, event) for event in events]
            beside = [change for event in events for change in kept_with(session, event)]
            writing = self._database.queue(beside, drafts)
            self._head_signer.count(self._clock.now(), session, len(drafts))
            await self._database.written(writing)
            self._drafting.settled(*events)
            if self._head_signer.is_behind:
                await self._head_signer.catch_up()

    async def unfinished(self, session: str) -> list[Unfinished]:
        """Return the calls of a session that were allowed and have no recorded outcome.

        Raises:
            RecordError: they could not be read.
        """
        rows = await self._database.read(UNFINISHED, (storable(session),))
        return [Unfinished(*row) for row in rows]

    async def settle(self, session: str) -> list[Unfinished]:
        """Record the outcome "unknown" for each unfinished call of a session; return these calls.

        Whatever such a call could change counts as changed. The caller must hold the lock of the session.

        Raises:
            RecordError: they could not be read or written; the next call of this method finds them again.
        """
        calls, now = await self.unfinished(session), self._clock.now()
        why = "the process ended before the outcome was on record"
        ends = [Finished(now, one.call, one.tool, one.digest, Status.UNKNOWN, detail=why) for one in calls]
        await self.append(session, *ends)
        await self._database.write(settled_changes(session))
        return calls

    async def unknown_outcomes(self) -> list[Unfinished]:
        """Settle the sessions of killed processes; return the calls, for the person to see once.

        Records that those left unsigned are signed. If that fails, a notice of the database says so.

        Raises:
            RecordError: they could not be read or written; the next call of this method finds them again.
        """
        found: list[Unfinished] = []
        were_killed = False
        for session, lock in abandoned(self._database.path):
            were_killed = True
            is_settled = False
            try:
                found += await self.settle(session)
                is_settled = True
            finally:
                lock.release(is_settled=is_settled)
        if were_killed:
            try:
                await self._head_signer.sign_rest(self._clock.now())
            except RecordError as error:
                self._database.note(str(error))
        return found

    async def events_of(self, session: str) -> list[Event]:
        """Return all events of a session in order.

        Raises:
            RecordError: the records could not be read, or one of them is not an event.
        """
        return list(_events(session, await self._database.read(EVENTS, (storable(session),))))

    async def history_of(self, session: str) -> Iterator[Event]:
        """Return the events of a session in order, without the reasons of decisions, to rebuild its state.

        The iterator makes one event at a time, so that a long history is never in memory at once.

        Raises:
            RecordError: the records could not be read; from the iterator: one of them is not an event.
        """
        return _events(session, await self._database.read(FOLDED, (storable(session),)))

    async def list_records(
        self,
        session: str | None = None,
        limit: int = 100,
        *,
        kinds: Sequence[str] | None = None,
        since: float | None = None,
        after: int | None = None,
    ) -> list[Record]:
        """Return the newest `limit` records that match, oldest first.

        `since` is in seconds since the epoch, `after` the `seq` of a record.

        Raises:
            RecordError: they could not be read.
        """
        sql, values = listing(session, limit, kinds=kinds, since=since, after=after)
        rows = await self._database.read(sql, values)
        return [record_of(row) for row in reversed(rows)]

    async def show(self, call: str) -> list[Record]:
        """Return all records about one call, or about every call whose id begins with this text.

        Raises:
            RecordError: they could not be read.
        """
        if not call:
            return []
        exact = await self._database.read(OF_CALL, (storable(call),))
        rows = exact or await self._database.read(OF_PREFIX, (storable(call),))
        return [record_of(row) for row in rows]

    async def sign_head(self) -> Head:
        """Sign the audit as it is now; record the head, copy it to the file for heads, and return it.

        Raises:
            RecordError: it could not be committed, there is no key, or it could not be copied; then the
                next head copies it as well.
        """
        return await self._head_signer.sign(self._clock.now(), "")

    head: ClassVar[Callable[[AuditLogger], Coroutine[Any, Any, Head]]] = _head

    async def heads(self, before: float = float("inf"), limit: int = 100) -> list[Head]:
        """Return the newest `limit` recorded heads, oldest first; `before` is in seconds since the epoch.

        Raises:
            RecordError: they could not be read.
        """
        return await self._head_signer.heads(before, limit)

    async def verify(self, *anchors: Head) -> Verified:
        """Verify the whole chain, and report the first fault. The records are read a page at a time.

        `anchors` are heads that were copied elsewhere: only they show that the end was cut off.

        Raises:
            RecordError: the records or the key could not be read.
        """
        return await self._head_signer.verify(anchors)

    async def prune(self, before_head: Head) -> int:
        """Delete the records before a recorded head, which the chain then begins with; return how many.

        A signed record states the pruning. Nothing else ever deletes a record.

        Raises:
            RecordError: there is no record of that head, or the records could not be deleted.
        """
        return await self._head_signer.prune(self._clock.now(), before_head)


def _events(session: str, rows: Iterable[Row]) -> Iterator[Event]:
    """Yield the events of a session from its rows."""
    try:
        for kind, body in rows:
            if kind in KINDS:
                yield event_of(kind, parsed(body))
    except ValueError as error:
        raise RecordError(f"the audit of session {session!r} cannot be read back: {error}") from error
