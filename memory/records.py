"""How are records looked up? Each query finds its rows by an index, newest first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .stored import storable, stored_json
from .writer import Row, Statement, Value

__all__ = ["EVENTS", "OF_CALL", "OF_PREFIX", "Record", "listing", "record_of"]

_SELECT = "SELECT seq, at, session, kind, call, tool, body FROM audit WHERE "

EVENTS = "SELECT kind, body FROM audit WHERE session = ? ORDER BY seq"
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
    """Return the record that a row holds."""
    seq, at, session, kind, call, tool, body = row
    return Record(seq, at, session, kind, call, tool, MappingProxyType(json.loads(body)))


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
