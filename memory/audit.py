"""What was decided, asked, done and blocked, and when? One row per fact, added and never changed.

A session is a fold over its rows, so they are also what a session is resumed from. How an event
stands in a row is told in `events.py`; that a decision is here before its tool starts is the
business of the pipeline.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any

from leeward.security import Clock, Egress, Event, Finished, Json, Read, RecordError

from .database import Database
from .events import KINDS, body_of, event_of, kind_of
from .stored import storable, stored_json
from .writer import Row, Statement, Value

__all__ = ["AuditLogger", "Record"]

_INSERT = (
    "INSERT INTO audit (at, session, kind, call, tool, body, id) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO NOTHING"
)
_EVENTS = "SELECT kind, body FROM audit WHERE session = ? ORDER BY seq"
_SELECT = "SELECT seq, at, session, kind, call, tool, body FROM audit WHERE "
_OF_CALL = _SELECT + "call = ? ORDER BY seq"
_FIRST_SINCE = "seq >= (SELECT min(seq) FROM audit INDEXED BY audit_by_time WHERE at >= ?)"
# Text is compared byte by byte, and nothing that starts with the prefix comes after the last character.
_OF_PREFIX = _SELECT + "call >= ?1 AND call < ?1 || char(0x10FFFF) ORDER BY seq"


@dataclass(frozen=True, slots=True)
class Record:
    """One row. `at` is seconds since the epoch; `call` and `tool` are None where it is about neither."""

    seq: int
    at: float
    session: str
    kind: str
    call: str | None
    tool: str | None
    body: Mapping[str, Any]


class AuditLogger:
    """The append-only record, as the pipeline needs it and as a person reads it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._mark = secrets.token_hex(8)
        self._numbers = count()
        self._unsure: dict[int, tuple[Event, str]] = {}

    async def start_session(
        self,
        session: str,
        workspace: str,
        config_hash: str,
        details: Mapping[str, Json] = MappingProxyType({}),
    ) -> None:
        """Record that a session began, where, and under which configuration.

        `details` is whatever else should stand in the row (autonomy, model, gates that are off).

        Raises:
            RecordError: it could not be committed.
        """
        body = {**details, "workspace": workspace, "config_hash": config_hash}
        text = stored_json(body)
        values = (self._clock.now(), storable(session), "session", None, None, text, self._new_id())
        await self._database.write([(_INSERT, values)])

    async def append(self, session: str, *events: Event) -> None:
        """Return once the events are committed; their order is that of the calls, set before any await.

        What only tells how something ended waits for no disk of its own, but for that of the next decision:
        without power it may be lost, and then looks like the end of a call that the power was lost in.

        A caller who is cancelled while waiting leaves at once; the events stay in line, and nobody knows
        whether they get in. Appending the same objects again makes sure, and makes no second row.

        Raises:
            RecordError: they could not be committed; none of them counts.
        """
        if events:
            rows = [self._insertion(session, event) for event in events]
            await self._database.write(rows, durable=not all(map(_is_end, events)))
            for event in events:
                self._unsure.pop(id(event), None)

    async def events_of(self, session: str) -> list[Event]:
        """Return everything that happened in a session, in order, to fold it over again.

        Raises:
            RecordError: the rows could not be read, or one of them is no event.
        """
        rows = await self._database.read(_EVENTS, (storable(session),))
        try:
            return [event_of(kind, json.loads(body)) for kind, body in rows if kind in KINDS]
        except ValueError as error:
            raise RecordError(f"the audit of session {session!r} cannot be read back: {error}") from error

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
        return [_record(row) for row in reversed(rows)]

    async def show(self, call: str) -> list[Record]:
        """Return all records about one call, or about every call whose id starts like this.

        Raises:
            RecordError: they could not be read.
        """
        if not call:
            return []
        exact = await self._database.read(_OF_CALL, (storable(call),))
        rows = exact or await self._database.read(_OF_PREFIX, (storable(call),))
        return [_record(row) for row in rows]

    def _insertion(self, session: str, event: Event) -> Statement:
        call, tool = getattr(event, "call", None), getattr(event, "tool", None)
        body = body_of(event)
        # The event is kept beside its name: another one cannot come to have the same identity meanwhile.
        _, name = self._unsure.setdefault(id(event), (event, self._new_id()))
        values = (
            event.at,
            storable(session),
            kind_of(event),
            None if call is None else storable(call),
            None if tool is None else storable(tool),
            body,
            name,
        )
        return _INSERT, values

    def _new_id(self) -> str:
        """Return a name for one row that no process gives to another."""
        return f"{self._mark}{next(self._numbers):x}"


def _is_end(event: Event) -> bool:
    """Whether an event tells what came of something whose decision is on record."""
    return isinstance(event, (Finished, Read)) or (isinstance(event, Egress) and event.ended)


def listing(
    session: str | None,
    limit: int,
    *,
    kinds: Sequence[str] | None = None,
    since: float | None = None,
    after: int | None = None,
) -> Statement:
    """Return the query that lists records, newest first, and its values."""
    conditions: list[tuple[str, Value]] = []
    if session is not None:
        conditions.append(("session = ?", storable(session)))
    if kinds is not None:
        conditions.append(("kind IN (SELECT value FROM json_each(?))", stored_json(list(kinds))))
    if since is not None:
        # Without the bound on the key, a search for few late records would walk through all early ones.
        conditions.append(("at >= ?", since))
        conditions.append((_FIRST_SINCE, since))
    if after is not None:
        conditions.append(("seq > ?", after))
    where = " AND ".join(condition for condition, _ in conditions) or "TRUE"
    sql = f"{_SELECT}{where} ORDER BY seq DESC LIMIT ?"
    return sql, (*(value for _, value in conditions), max(limit, 0))


def _record(row: Row) -> Record:
    seq, at, session, kind, call, tool, body = row
    return Record(seq, at, session, kind, call, tool, MappingProxyType(json.loads(body)))
