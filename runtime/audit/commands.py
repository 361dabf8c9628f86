"""The actions of `leeward audit`: list, show, why, verify, tail, export and stats.

Looking creates no database. Export prints records as JSON lines, a table or spans (`otel.py`), a page of
records in memory at a time, whatever `--output` says. SQLite wakes nobody up, so `tail` looks at the file
four times a second: one step in an index.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import trio

from leeward.memory.audit import DAMAGED, AuditLogger, Head, Record, RecordFilter, Verified, heads_in
from leeward.security.kinds import Json
from leeward.security.text import visible

from ..console import look
from ..exits import CliError, Exit, to_json
from ..options import Options
from ..printer import Printer, plain
from .otel import trace
from .query import explanation_of, filter_of, open_audit, record_json, records_of
from .replay import replay
from .text import egress_lines, record_lines

__all__ = ["COLUMNS", "audit", "export", "stats", "table_row", "tail"]


COLUMNS = (
    *("seq", "time", "session", "kind", "call", "tool", "asker", "model", "allowed", "gate", "rule"),
    *("reason", "approver", "waited", "status", "category", "exit_code", "size", "seconds", "url", "body"),
)
"""The columns of a table; `body` holds the whole record as JSON."""

# A spreadsheet takes a cell that begins so for a formula, some of them the wide signs of East Asian
# keyboards, too; and a model may have written these values.
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
    own: Mapping[str, object] = {
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


_NAMES: Mapping[str, tuple[str, ...]] = {
    "tools": ("tool", "calls", "allowed", "denied", "failed", "p50_seconds", "p95_seconds", "max_seconds"),
    "days": ("day", "calls", "allowed", "denied", "failed"),
    "denials": ("gate", "rule", "count"),
    "approvals": ("approver", "count", "allowed", "mean_waited", "max_waited"),
    "failures": ("category", "tool", "count"),
    "egress": ("host", "attempts", "allowed", "bytes_sent", "bytes_received"),
}
_TITLES = {
    "tools": "calls by tool",
    "days": "calls by day, the last 31 of them",
    "denials": "refused, by gate and rule",
    "approvals": "who answered questions, and how long it took",
    "failures": "failures",
    "egress": "opened, by host",
}


async def stats(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Count the calls that are meant.

    Raises:
        CliError: there is no such session.
        RecordError: they cannot be read.
    """
    rows = await opened.reports.figures(await filter_of(options, opened))
    durations = {row[0]: row[1:] for row in rows["durations"]}
    rows["tools"] = [(*row, *durations.get(row[0], (None, None, None))) for row in rows["tools"]]
    answer: dict[str, Json] = {
        name: [_named(names, row) for row in rows[name]] for name, names in _NAMES.items()
    }
    lines = [line for name, names in _NAMES.items() for line in _table(name, names, rows[name])]
    printer.answer("".join(f"{line}\n" for line in lines or ["no record matches"]))
    printer.event({"schema": 1, "type": "stats", **answer})
    return printer.finish(Exit.SUCCESS, answer)


def _named(names: Sequence[str], row: Sequence[Any]) -> dict[str, Json]:
    return dict(zip(names, row, strict=True))


_LONGEST_BAR = 24


def _table(name: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield a title and a table as wide as its content, with bars; nothing for an empty table."""
    cells = [[heading.replace("_", " ") for heading in names]]
    cells += [[_figure_cell(value) for value in row] for row in rows]
    if len(cells) == 1:
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # A bar shows the first of the counts of a table at a glance; it is drawn in ASCII, as everything here.
    counted = next(place for place, heading in enumerate(names) if heading in {"calls", "count", "attempts"})
    most = max(row[counted] for row in rows)
    bars = ["", *("#" * max(1, round(_LONGEST_BAR * row[counted] / most)) for row in rows)]
    yield _TITLES[name]
    for row, bar in zip(cells, bars, strict=True):
        padded = [
            cell.rjust(width) if index and cells[1][index][:1].isdigit() else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join([*padded, bar])}".rstrip()
    yield ""


def _figure_cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if value % 1 else f"{value:.0f}"
    return "-" if value is None else visible(str(value))


_SECONDS = 0.25
_PAGE = 500


async def tail(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Tell the last records and then all that follow, until it is stopped.

    Raises:
        CliError: one JSON document was asked for, which never ends; or there is no such session.
        RecordError: the records cannot be read.
    """
    if options.output == "json":
        why = "--follow never ends, so it cannot be one JSON document"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion="--output jsonl")
    wanted, reports = await filter_of(options, opened), opened.reports
    seen = await reports.last_seq()
    # A record from between the two looks is shown once, by the loop.
    records = [one for one in await reports.newest(wanted, options.limit) if one.seq <= seen]
    while True:
        _tell(printer, records)
        seen = max([seen, *(record.seq for record in records)])
        if len(records) < _PAGE:
            await trio.sleep(_SECONDS)
        records = await reports.after(wanted, seen, _PAGE)


def _tell(printer: Printer, records: Sequence[Record]) -> None:
    printer.answer("".join(f"{line}\n" for line in record_lines(records)))
    for record in records:
        printer.event({"schema": 1, "type": "record", **record_json(record)})


Action: TypeAlias = Callable[[Options, Printer, AuditLogger], Awaitable[Exit]]


async def audit(options: Options, printer: Printer) -> Exit:
    """Look into the audit.

    Raises:
        CliError: there is no such call, session, kind or head.
        RecordError: the database cannot be read.
    """
    start = look(options)
    if not await trio.Path(start.places.database).exists():
        if options.action != "list":
            raise CliError(Exit.NOT_FOUND, "NOT_FOUND", "nothing was recorded yet")
        return _print_records(printer, (), ())
    async with open_audit(start, printer.warn) as opened:
        return await _ACTIONS[options.action](options, printer, opened)


async def _list(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    wanted = await filter_of(options, opened)
    if options.egress:
        # An attempt has up to two rows, shown as one.
        found = await opened.reports.newest(replace(wanted, kinds=("egress",)), 2 * options.limit)
        rows = [row for row in found if row.kind != DAMAGED]
        attempts = list(_attempts(rows))[-options.limit :]
        return _print_records(printer, attempts, egress_lines(attempts))
    records = await opened.reports.newest(wanted, options.limit)
    return _print_records(printer, records, record_lines(records))


async def _show(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    records = await records_of(options.name, opened)
    return _print_records(printer, records, (line for record in records for line in _whole(record)))


def _print_records(printer: Printer, records: Sequence[Record], lines: Iterable[str]) -> Exit:
    printer.answer("".join(f"{line}\n" for line in lines))
    answer = [record_json(record) for record in records]
    for one in answer:
        printer.event({"schema": 1, "type": "record", **one})
    return printer.finish(Exit.SUCCESS, {"records": answer})


def _attempts(rows: Sequence[Record]) -> Iterable[Record]:
    """Return one record for each attempt to open a URL: what was decided, and what came of it."""
    found: dict[tuple[Json, ...], Record] = {}
    for row in rows:
        attempt = (row.session, row.call, row.body["hop"], row.body["url"])
        decided = found.get(attempt)
        if decided is not None and row.body["ended"]:
            ruled = {name: decided.body[name] for name in ("gate", "rule", "allowed")}
            found[attempt] = replace(decided, body={**row.body, **ruled})
        else:
            found[attempt] = row
    return found.values()


def _whole(record: Record) -> Sequence[str]:
    """Return a record with every field that says something, one per line."""
    fields = ((name, value) for name, value in record.body.items() if value not in (None, "", [], {}))
    return [*record_lines([record]), *(f"    {name}: {visible(str(value))}" for name, value in fields)]


async def _why(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    explanation = await explanation_of(options.name, opened)
    printer.answer("".join(f"{line}\n" for line in explanation.lines()))
    answer = explanation.as_json()
    printer.event({"schema": 1, "type": "explanation", **answer})
    return printer.finish(Exit.SUCCESS, answer)


async def _verify(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Walk the chain; the exit code says whether all of it holds."""
    named = options.head
    kept = await opened.heads_elsewhere() if named is None else await trio.to_thread.run_sync(_heads, named)
    verified = await opened.verify(*kept)
    answer = _verified_json(verified)
    printer.event({"schema": 1, "type": "verified", **answer})
    printer.answer("".join(f"{line}\n" for line in _verified_lines(verified, len(kept))))
    problem = verified.problem
    if problem is None:
        return printer.finish(Exit.SUCCESS, answer)
    where = f"record {problem.seq} ({problem.kind})" if problem.seq else str(problem.kind)
    error: dict[str, Json] = {
        "code": "AUDIT_BROKEN",
        "message": f"{where}: {visible(problem.message)}",
        "phase": "verification",
    }
    return printer.finish(Exit.GENERAL_ERROR, answer, error)


def _verified_lines(verified: Verified, kept: int) -> Iterable[str]:
    """Yield what was found, and never more than the signatures bear out."""
    up_to = " up to where it is wrong" if verified.problem is not None else ""
    yield f"{verified.records} records, {verified.heads} signed heads{up_to}"
    if verified.head is not None:
        yield verified.head.line()
    if kept:
        yield f"held against {kept} head{'' if kept == 1 else 's'} kept elsewhere"
    if verified.problem is not None:
        return
    if not verified.records:
        yield "nothing is on record"
        return
    if not verified.unsigned:
        yield "every record is there, as it was written"
        return
    which = "all" if verified.unsigned == verified.records else "the last"
    yield f"every record fits the one before it; {which} {verified.unsigned} are signed by nobody yet,"
    yield "so a program that can write to the file may have rewritten those"


def _heads(named: str) -> Sequence[Head]:
    """Return the head that a line holds, or all in a file of such lines.

    Raises:
        CliError: neither holds a head.
    """
    try:
        if named.strip().startswith("leeward-head"):
            return [Head.parse(named)]
        found = heads_in(Path(named))
    except OSError as error:
        why = f"--head {visible(named)} is no head, nor a file that can be read: {error.strerror}"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why) from error
    except ValueError as error:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"--head: {error}") from error
    if not found:
        why = f"--head: {visible(named)} holds no head of an audit: one begins with 'leeward-head 1'"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why)
    return found


def _verified_json(verified: Verified) -> Mapping[str, Json]:
    problem, head = verified.problem, verified.head
    answer: dict[str, Json] = {
        "records": verified.records,
        "heads": verified.heads,
        "head": head.line() if head is not None else None,
        "unsigned": verified.unsigned,
        "problem": None,
    }
    if problem is not None:
        answer["problem"] = {"seq": problem.seq, "kind": str(problem.kind), "message": problem.message}
    return answer


_ACTIONS: Mapping[str, Action] = {
    "list": _list,
    "show": _show,
    "why": _why,
    "tail": tail,
    "verify": _verify,
    "export": export,
    "replay": replay,
    "stats": stats,
}
