"""Convert events to audit rows, and rows to records.

Rows are named by their writer (a mark no other process has, and a number), so that none is written twice.
Queries find rows by an index, newest first. A row changed by hand may be no record any more: it is shown as
what is left of it (`DAMAGED`), so that it cannot keep anybody from the others.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from types import MappingProxyType, NoneType
from typing import Any

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.session import Event

from ..database import Body, RecordRow, Row, Statement, Value, parsed, storable, stored_json
from .events import KINDS, body_of, event_of, kind_of, stored_fields

__all__ = [
    "DAMAGED",
    "EVENTS",
    "FOLDED",
    "OF_CALL",
    "OF_PREFIX",
    "Drafting",
    "Record",
    "listing",
    "record_of",
]


class Drafting:
    """Makes the drafts of one who writes."""

    def __init__(self) -> None:
        self.mark: str = secrets.token_hex(8)
        self._numbers = count()
        self._unsure: dict[int, tuple[Event, str]] = {}

    def of_fact(self, at: float, session: str, kind: str, body: dict[str, Json] | Body) -> RecordRow:
        """Return the draft of a record that no session is folded from.

        Raises:
            RecordError: JSON cannot say it.
        """
        text = stored_json(body) if isinstance(body, dict) else body
        return RecordRow(at, storable(session), kind, None, None, text, self._new_name())

    def of_event(self, session: str, event: Event) -> RecordRow:
        """Return the draft of an event; the same event gets the same name until it is `settled`.

        Raises:
            RecordError: JSON cannot say it.
        """
        call, tool = getattr(event, "call", None), getattr(event, "tool", None)
        body = body_of(event)
        # The event is kept beside its name: another one cannot come to have the same identity meanwhile.
        _, name = self._unsure.setdefault(id(event), (event, self._new_name()))
        return RecordRow(
            event.at,
            storable(session),
            kind_of(event),
            None if call is None else storable(call),
            None if tool is None else storable(tool),
            body,
            name,
        )

    def settled(self, *events: Event) -> None:
        """Forget the names of events that are known to be on record."""
        for event in events:
            self._unsure.pop(id(event), None)

    def _new_name(self) -> str:
        return f"{self.mark}{next(self._numbers):x}"


DAMAGED = "damaged"
"""The kind under which a row is shown that is no record; `was` is the kind it says it has."""

_LATEST = 253_402_300_799.0  # the last second that has a date with four figures for the year
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str | None": (str, NoneType),
    "int | None": (int, NoneType),
    "tuple[str, ...]": (list,),
}


@cache
def _plain_fields(kind: str) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """Return the fields of a kind of event that JSON can say, each with the types it has there."""
    stored = stored_fields(KINDS[kind])
    return tuple((name, _PLAIN[held]) for name, (_, held) in stored.items() if held in _PLAIN)


@cache
def _lists_of_texts(kind: str) -> tuple[str, ...]:
    """Return the fields of a kind of event that are lists of texts."""
    return tuple(name for name, (_, held) in stored_fields(KINDS[kind]).items() if held == "tuple[str, ...]")


_SELECT = "SELECT seq, at, session, kind, call, tool, body FROM audit WHERE "

EVENTS = "SELECT kind, body FROM audit WHERE session = ? ORDER BY seq"
# The reasons are most of a decision and change nothing in the session, so they are not parsed.
FOLDED = (
    "SELECT kind, CASE kind WHEN 'decision' THEN json_remove(body, '$.words', '$.reading', '$.always')"
    " ELSE body END FROM audit WHERE session = ? ORDER BY seq"
)
OF_CALL = _SELECT + "call = ? ORDER BY seq"
# Text is compared byte by byte, and nothing that starts with the prefix comes after the last character.
OF_PREFIX = _SELECT + "call >= ?1 AND call < ?1 || char(0x10FFFF) ORDER BY seq"

_FIRST_SINCE = "seq >= (SELECT min(seq) FROM audit INDEXED BY audit_by_time WHERE at >= ?)"
# For each kind its newest rows, found from the end of its part of the index: rare ones are not looked
# for among all others, and of frequent ones no more are looked at than are wanted.
_OF_KINDS = (
    "seq IN (SELECT newest.seq FROM json_each(?) AS wanted JOIN audit AS newest ON newest.seq IN"
    " (SELECT seq FROM audit WHERE kind = wanted.value{} ORDER BY seq DESC LIMIT ?))"
)


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


def record_of(row: Row) -> Record:
    """Return the record that a row holds, or what is left of it."""
    seq, at, session, kind, call, tool, body = row
    try:
        fields = parsed(body)
        _check(row, fields)
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        left = {"was": str(kind), "problem": str(error)}
        call, tool = (None if value is None else str(value) for value in (call, tool))
        return Record(seq, 0.0, str(session), DAMAGED, call, tool, MappingProxyType(left))
    return Record(seq, at, session, kind, call, tool, MappingProxyType(fields))


def _check(row: Row, body: Any) -> None:
    """See that a row is a record of its kind.

    Raises:
        ValueError, TypeError, AttributeError, LookupError: it is none.
    """
    _, at, session, kind, call, tool, _ = row
    if not isinstance(at, float) or not 0 <= at <= _LATEST:
        raise ValueError(f"{at!r} is no time")
    if not isinstance(body, dict) or not all(isinstance(text, str | None) for text in (session, call, tool)):
        raise ValueError("it is no object, or what it is about has no name")
    if kind in KINDS:
        event_of(kind, body)
        for name, types in _plain_fields(kind):
            if name in body and not isinstance(body[name], types):
                raise ValueError(f"{name} is {body[name]!r}")
        for name in _lists_of_texts(kind):
            if not all(isinstance(text, str) for text in body.get(name, ())):
                raise ValueError(f"{name} is {body[name]!r}")


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
    if since is not None:
        # Without the bound on the key, a search for few late records would walk through all early ones.
        conditions.append(("at >= ?", since))
        conditions.append((_FIRST_SINCE, since))
    if after is not None:
        conditions.append(("seq > ?", after))
    where = " AND ".join(condition for condition, _ in conditions)
    values = [value for _, value in conditions]
    if kinds is not None and session is None:
        inner = f" AND {where}" if where else ""
        where, values = _OF_KINDS.format(inner), [stored_json(list(kinds)), *values, max(limit, 0)]
    elif kinds is not None:
        where += " AND kind IN (SELECT value FROM json_each(?))"
        values.append(stored_json(list(kinds)))
    return f"{_SELECT}{where or 'TRUE'} ORDER BY seq DESC LIMIT ?", (*values, max(limit, 0))
