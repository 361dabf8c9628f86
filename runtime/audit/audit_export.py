"""How does the audit go to other programs: as JSON lines, as a table, as spans?

What is exported is the answer, whatever `--output` says; a page of records is in memory at a time. What
is in a span is told in `otel.py`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from leeward.memory.audit import AuditLogger, Record, RecordFilter

from ..exits import Exit, to_json
from ..options import Options
from ..printer import Printer, plain
from .otel import trace
from .query import filter_of, record_json

__all__ = ["COLUMNS", "export", "table_row"]

COLUMNS = (
    *("seq", "time", "session", "kind", "call", "tool", "asker", "model", "allowed", "gate", "rule"),
    *("reason", "approver", "waited", "status", "category", "exit_code", "size", "seconds", "url", "body"),
)
"""The columns of a table; `body` holds the whole record as JSON."""

# A spreadsheet takes a cell that begins so for a formula, some of them the wide signs of East Asian
# keyboards, too; and what stands here a model may have written.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


async def export(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Write every record that is meant, oldest first, in the form that was asked for.

    Raises:
        CliError: there is no such session, or no such kind of record.
        RecordError: they cannot be read.
    """
    wanted, reports = await filter_of(options, opened), opened.reports
    match options.form:
        case "csv":
            printer.lines(_row(COLUMNS))
            async for record in reports.all(wanted):
                printer.lines(_row(table_row(record)))
        case "otel":
            for session in await reports.sessions(wanted):
                own = RecordFilter(session, wanted.kinds, since=wanted.since)
                printer.line(trace(session, await _all(reports.all(own))))
        case _:
            async for record in reports.all(wanted):
                printer.line({"schema": 1, "type": "record", **record_json(record)})
    return Exit.SUCCESS


async def _all(records: AsyncIterator[Record]) -> list[Record]:
    return [record async for record in records]


def table_row(record: Record) -> Iterator[str]:
    """Yield the cells of a record, in the order of `COLUMNS`."""
    at = datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds")
    own: Mapping[str, Any] = {
        "seq": record.seq,
        "time": at,
        "session": record.session,
        "kind": record.kind,
        "call": record.call,
        "tool": record.tool,
        "body": to_json(record.body),
    }
    for name in COLUMNS:
        yield _cell(own.get(name, record.body.get(name)))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    text = plain(value if isinstance(value, str) else to_json(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


def _row(cells: Iterable[str] | Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(list(cells))
    return line.getvalue()
