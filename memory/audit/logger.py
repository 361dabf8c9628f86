"""Append-only audit log: one row for each event of a session, never changed afterwards.

A session is a fold over its rows, so a session is also resumed from them. `events.py` converts events to
rows, `memory/database/chain.py` links the rows, `signer.py` signs them; the pipeline guarantees that a
decision is recorded before its tool starts.

A process may be killed between a decision and its outcome. Nobody can know then how far the call came,
so it is never run again: the next process to start records an outcome of "unknown", and the person is
informed (`AuditLogger.unknown_outcomes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

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


class AuditLogger:
    """The append-only record, as the pipeline needs it and as a person reads it (`reports`).

    `key` is the file with the key that heads are signed with, by default `audit.key` beside the database;
    `heads` a file elsewhere to which each signed head is added, and which `heads_elsewhere` reads.
    `last_head` returns the newest head that was signed here, as at a session's end, None before the first.
    """

    def __init__(
        self, database: Database, clock: Clock, *, key: Path | None = None, heads: Path | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._drafting = Drafting()
        self.reports = AuditReports(database)
        self._head_signer = HeadSigner(
            database, self._drafting, key or database.path.with_name("audit.key"), heads
        )
        self.heads_elsewhere = self._head_signer.heads_elsewhere
        self.last_head = self._head_signer.last_head

    async def start_session(
        self,
        session: str,
        workspace: str,
        config_hash: str,
        details: Mapping[str, Json] = MappingProxyType({}),
    ) -> None:
        """Record that a session began, where, and under which configuration.

        `details` are further values of the row (autonomy, model, gates that are off).

        Raises:
            RecordError: it could not be committed, or heads cannot be written where they should be.
        """
        details_of = {**details, "workspace": workspace, "config_hash": config_hash}
        draft = self._drafting.of_fact(self._clock.now(), session, "session", details_of)
        await self._head_signer.ready()
        await self._database.write(drafts=[draft])

    async def end_session(self, session: str) -> None:
        """Record that a session ended, and sign the audit.

        Raises:
            RecordError: not all of it could be written; what could is.
        """
        now = self._clock.now()
        ended = self._drafting.of_fact(now, session, "ended", {})
        ending = self._database.queue(settled_changes(session), drafts=[ended])
        # Not in one transaction: where the key cannot be used, the session has ended all the same.
        await self._head_signer.sign(now, session)
        await self._database.written(ending)

    async def append(self, session: str, *events: Event) -> None:
        """Return once the events are on the disk; their order is that of the calls, set before any await.

        A caller who is cancelled while waiting leaves at once; the events stay in line, and nobody knows
        whether they get in. Appending the same objects again makes sure, and makes no second row.

        Raises:
            RecordError: they could not be committed; not one of them counts.
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
        """Return the calls of a session that were allowed and have no outcome on record.

        Raises:
            RecordError: they could not be read.
        """
        rows = await self._database.read(UNFINISHED, (storable(session),))
        return [Unfinished(*row) for row in rows]

    async def settle(self, session: str) -> list[Unfinished]:
        """Give each unfinished call of a session an outcome with the status "unknown", and return them.

        What they changed is not known either, so it may be anything.

        To be called by who holds the lock of the session, before it goes on.

        Raises:
            RecordError: they could not be read or written; they will be found again.
        """
        calls, now = await self.unfinished(session), self._clock.now()
        why = "the process ended before the outcome was on record"
        ends = [Finished(now, one.call, one.tool, one.digest, Status.UNKNOWN, detail=why) for one in calls]
        await self.append(session, *ends)
        await self._database.write(settled_changes(session))
        return calls

    async def unknown_outcomes(self) -> list[Unfinished]:
        """Settle all sessions whose process was killed; what is returned is shown to the person, once.

        What they left unsigned is signed. Where that cannot be, it is among the notices of the database.

        Raises:
            RecordError: they could not be read or written; they will be found again.
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
        """Return everything that happened in a session, in order.

        Raises:
            RecordError: the rows could not be read, or one of them is no event.
        """
        return list(_events(session, await self._database.read(EVENTS, (storable(session),))))

    async def history_of(self, session: str) -> Iterator[Event]:
        """Return what happened in a session, in order, to fold it over again: without why it was decided.

        An event is made when it is asked for, so that none is kept that nobody keeps.

        Raises:
            RecordError: the rows could not be read; from the iterator, one of them is no event.
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
        """Return the newest `limit` records that fit, oldest first.

        `since` is in seconds since the epoch, `after` the `seq` of a record seen before.

        Raises:
            RecordError: they could not be read.
        """
        sql, values = listing(session, limit, kinds=kinds, since=since, after=after)
        rows = await self._database.read(sql, values)
        return [record_of(row) for row in reversed(rows)]

    async def show(self, call: str) -> list[Record]:
        """Return all records about one call, or about every call whose id starts like this.

        Raises:
            RecordError: they could not be read.
        """
        if not call:
            return []
        exact = await self._database.read(OF_CALL, (storable(call),))
        rows = exact or await self._database.read(OF_PREFIX, (storable(call),))
        return [record_of(row) for row in rows]

    async def head(self) -> Head:
        """Sign the audit as it is now, put the head on record and into the second place, and return it.

        Raises:
            RecordError: it could not be committed, there is no key to sign with, or it could not be written
                to the second place (where it will be with the next one).
        """
        return await self._head_signer.sign(self._clock.now(), "")

    async def heads(self, before: float = float("inf"), limit: int = 100) -> list[Head]:
        """Return the newest `limit` heads on record, oldest first; `before` is in seconds since the epoch.

        Raises:
            RecordError: they could not be read.
        """
        return await self._head_signer.heads(before, limit)

    async def verify(self, *anchors: Head) -> Verified:
        """Walk the whole chain and tell the first thing that is wrong; never all of it in memory.

        `anchors` are heads that were kept in a second place: they show whether the end was cut off.

        Raises:
            RecordError: the records or the key could not be read.
        """
        return await self._head_signer.verify(anchors)

    async def prune(self, before_head: Head) -> int:
        """Delete the records before a head that is on record, and return how many; it becomes the anchor.

        A signed record tells that it was done, and where. Nothing else ever deletes a record.

        Raises:
            RecordError: no such head is on record, or the records could not be deleted.
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
