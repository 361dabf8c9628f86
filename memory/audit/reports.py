"""Query the audit: records that match a filter, page by page, and figures about calls.

Everything here only reads. One page is in memory at a time, however long the audit is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from leeward.security.lazy import dataclass

from ..database import Database, Row, Value, storable, stored_json
from ..database.migrations.m005_views import CALLS, DENIALS, EGRESS
from .rows import Record, record_of

__all__ = ["AuditReports", "RecordFilter"]

_COLUMNS = "SELECT seq, at, session, kind, call, tool, body FROM audit"
_SINCE = "seq >= (SELECT min(seq) FROM audit INDEXED BY audit_by_time WHERE at >= ?)"
_DENIED = "kind = 'decision' AND json_extract(body, '$.allowed') = 0"
# The last decision that somebody would ask about: a refusal, or one that a person was asked for.
_LAST_QUESTIONED = (
    "SELECT call FROM audit WHERE kind = 'decision' AND {} AND"
    " (json_extract(body, '$.allowed') = 0 OR json_extract(body, '$.waited') > 0"
    " OR json_extract(body, '$.approver') LIKE 'the person%') ORDER BY seq DESC LIMIT 1"
)
_LAST = "SELECT call FROM audit WHERE kind = 'decision' AND {} ORDER BY seq DESC LIMIT 1"
_SESSIONS = "SELECT session FROM audit WHERE session <> '' AND {} GROUP BY session ORDER BY min(seq)"
_PAGE = 500

# The views themselves are for other programs: a schema is not trusted here, and what is in one may not
# take JSON apart.
_TABLES = f"WITH calls AS ({CALLS}), denials AS ({DENIALS}), egress AS ({EGRESS})"
_FIGURES = {
    "tools": (
        "SELECT tool, count(*), sum(allowed), sum(NOT allowed),"
        " count(*) FILTER (WHERE status IN ('error', 'timeout'))"
        " FROM calls WHERE {} GROUP BY tool ORDER BY 2 DESC, 1"
    ),
    "days": (
        "SELECT date(at, 'unixepoch', 'localtime'), count(*), sum(allowed), sum(NOT allowed),"
        " count(*) FILTER (WHERE status IN ('error', 'timeout'))"
        " FROM calls WHERE {} GROUP BY 1 ORDER BY 1 DESC LIMIT 31"
    ),
    # The nearest rank: the smallest duration that so many percent of the calls did not exceed.
    "durations": (
        "SELECT tool, min(seconds) FILTER (WHERE 100 * place >= 50 * number),"
        " min(seconds) FILTER (WHERE 100 * place >= 95 * number), max(seconds) FROM ("
        " SELECT tool, seconds, row_number() OVER (PARTITION BY tool ORDER BY seconds) AS place,"
        " count(*) OVER (PARTITION BY tool) AS number FROM calls WHERE status IS NOT NULL AND {}"
        ") GROUP BY tool"
    ),
    "denials": (
        "SELECT gate, rule, count(*) FROM denials WHERE {} GROUP BY gate, rule ORDER BY 3 DESC, 1, 2"
    ),
    "approvals": (
        "SELECT approver, count(*), sum(allowed), avg(waited), max(waited) FROM calls"
        " WHERE approver <> '' AND {} GROUP BY approver ORDER BY 2 DESC, 1"
    ),
    "failures": (
        "SELECT category, tool, count(*) FROM calls WHERE status IN ('error', 'timeout') AND {}"
        " GROUP BY category, tool ORDER BY 3 DESC, 1, 2"
    ),
    "egress": (
        "SELECT host, count(*), sum(allowed), total(sent), total(received) FROM egress"
        " WHERE {} GROUP BY host ORDER BY 2 DESC, 1"
    ),
}


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records; what is None is not asked about. `since` is in seconds since the epoch."""

    session: str | None = None
    kinds: tuple[str, ...] | None = None
    tool: str | None = None
    denied: bool = False
    since: float | None = None

    def conditions(self) -> tuple[str, list[Value]]:
        """Return the condition on a record, and its values."""
        found: list[tuple[str, tuple[Value, ...]]] = []
        if self.session is not None:
            found.append(("session = ?", (storable(self.session),)))
        if self.kinds is not None:
            found.append(("kind IN (SELECT value FROM json_each(?))", (stored_json(list(self.kinds)),)))
        if self.tool is not None:
            found.append(("tool = ?", (storable(self.tool),)))
        if self.denied:
            found.append((_DENIED, ()))
        if self.since is not None:
            found.append((f"at >= ? AND {_SINCE}", (self.since, self.since)))
        values = [value for _, some in found for value in some]
        return " AND ".join(condition for condition, _ in found) or "TRUE", values


class AuditReports:
    """Questions to the audit in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def newest(self, wanted: RecordFilter, limit: int) -> list[Record]:
        """Return the newest records that fit, oldest first.

        Raises:
            RecordError: they could not be read.
        """
        where, values = wanted.conditions()
        rows = await self._database.read(
            f"{_COLUMNS} WHERE {where} ORDER BY seq DESC LIMIT ?", (*values, max(limit, 0))
        )
        return [record_of(row) for row in reversed(rows)]

    async def after(self, wanted: RecordFilter, seq: int, limit: int = _PAGE) -> list[Record]:
        """Return the first records behind one of that `seq` that fit.

        Raises:
            RecordError: they could not be read.
        """
        where, values = wanted.conditions()
        rows = await self._database.read(
            f"{_COLUMNS} WHERE seq > ? AND {where} ORDER BY seq LIMIT ?", (seq, *values, limit)
        )
        return [record_of(row) for row in rows]

    async def all(self, wanted: RecordFilter) -> AsyncIterator[Record]:
        """Return every record that fits, oldest first, page by page.

        Raises:
            RecordError: they could not be read.
        """
        page = await self.after(wanted, 0)
        while page:
            for record in page:
                yield record
            page = await self.after(wanted, page[-1].seq)

    async def last_seq(self) -> int:
        """Return the `seq` of the newest record, 0 where there is none.

        Raises:
            RecordError: it could not be read.
        """
        ((seq,),) = await self._database.read("SELECT coalesce(max(seq), 0) FROM audit")
        return int(seq)

    async def sessions(self, wanted: RecordFilter) -> list[str]:
        """Return the ids of the sessions with records that fit, in the order in which they began.

        Raises:
            RecordError: they could not be read.
        """
        where, values = wanted.conditions()
        rows = await self._database.read(_SESSIONS.format(where), values)
        return [str(session) for (session,) in rows]

    async def last_call(self, session: str | None = None, *, questioned: bool = False) -> str | None:
        """Return the id of the last call, or of the last that was refused or asked about; None if none was.

        Raises:
            RecordError: it could not be read.
        """
        where, values = RecordFilter(session=session).conditions()
        sql = (_LAST_QUESTIONED if questioned else _LAST).format(where)
        rows = await self._database.read(sql, values)
        return str(rows[0][0]) if rows else None

    async def figures(self, wanted: RecordFilter) -> dict[str, list[Row]]:
        """Return the rows of every figure (see `runtime/audit/commands.py`) about calls that fit.

        Raises:
            RecordError: they could not be read.
        """
        plain = RecordFilter(session=wanted.session, tool=wanted.tool)
        where, values = plain.conditions()
        if wanted.since is not None:
            where, values = f"{where} AND at >= ?", [*values, wanted.since]
        return {
            name: await self._database.read(f"{_TABLES} {sql.format(where)}", values)
            for name, sql in _FIGURES.items()
        }
