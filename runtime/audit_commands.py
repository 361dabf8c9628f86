"""`leeward audit …`: which action is meant, and what those that list, show, explain or verify say.

Each of the others has a file of its own: `audit_tail.py`, `audit_export.py`, `audit_replay.py` and
`audit_stats.py`. Looking makes no database where there is none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import trio

from leeward.memory import AuditLogger, Head, Record, Verified
from leeward.security import Json, visible

from .audit_export import export
from .audit_reading import explanation_of, filter_of, open_audit, record_json, records_of
from .audit_replay import replay
from .audit_stats import stats
from .audit_tail import tail
from .describe import egress_lines, record_lines
from .exits import CliError, Exit
from .options import Options
from .printer import Printer
from .startup import look

__all__ = ["audit"]

_LARGEST_HEADS = 16 * 1024 * 1024

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
        return _told(printer, (), ())
    async with open_audit(start) as opened:
        return await _ACTIONS[options.action](options, printer, opened)


async def _list(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    wanted = filter_of(options)
    if options.egress:
        # An attempt has up to two rows, told as one.
        rows = await opened.reports.newest(replace(wanted, kinds=("egress",)), 2 * options.limit)
        attempts = list(_attempts(rows))[-options.limit :]
        return _told(printer, attempts, egress_lines(attempts))
    records = await opened.reports.newest(wanted, options.limit)
    return _told(printer, records, record_lines(records))


async def _show(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    records = await records_of(options.name, opened)
    return _told(printer, records, (line for record in records for line in _whole(record)))


def _told(printer: Printer, records: Sequence[Record], lines: Iterable[str]) -> Exit:
    printer.answer("".join(f"{line}\n" for line in lines))
    told = [record_json(record) for record in records]
    for one in told:
        printer.event({"schema": 1, "type": "record", **one})
    return printer.finish(Exit.SUCCESS, {"records": told})


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
    said = ((name, value) for name, value in record.body.items() if value not in (None, "", [], {}))
    return [*record_lines([record]), *(f"    {name}: {visible(str(value))}" for name, value in said)]


async def _why(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    explanation = await explanation_of(options.name, opened)
    printer.answer("".join(f"{line}\n" for line in explanation.lines()))
    told = explanation.as_json()
    printer.event({"schema": 1, "type": "explanation", **told})
    return printer.finish(Exit.SUCCESS, told)


async def _verify(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Walk the chain; the exit code says whether all of it holds."""
    anchor = await _anchor(options.head) if options.head is not None else None
    verified = await opened.verify(anchor)
    told = _verified_json(verified)
    printer.event({"schema": 1, "type": "verified", **told})
    lines = [f"{verified.records} records, {verified.heads} signed heads"]
    lines += [verified.head.line()] if verified.head is not None else ["no head was signed yet"]
    problem = verified.problem
    if problem is None:
        printer.answer("".join(f"{line}\n" for line in [*lines, "every record is there, as it was written"]))
        return printer.finish(Exit.SUCCESS, told)
    printer.answer("".join(f"{line}\n" for line in lines))
    error: dict[str, Json] = {
        "code": "AUDIT_BROKEN",
        "message": f"record {problem.seq} ({problem.kind}): {visible(problem.message)}",
        "phase": "verification",
    }
    return printer.finish(Exit.GENERAL_ERROR, told, error)


async def _anchor(named: str) -> Head:
    """Return the head that a line holds, or the last one in a file of such lines.

    Raises:
        CliError: neither holds a head.
    """
    text = named
    if not named.startswith("leeward-head"):
        try:
            async with await trio.open_file(Path(named), encoding="utf-8", errors="replace") as file:
                text = await file.read(_LARGEST_HEADS)
        except OSError as error:
            why = f"--head {visible(named)} is no head, nor a file that can be read: {error.strerror}"
            raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why) from error
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return Head.parse(lines[-1] if lines else "")
    except ValueError as error:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"--head: {error}") from error


def _verified_json(verified: Verified) -> Mapping[str, Json]:
    problem, head = verified.problem, verified.head
    told: dict[str, Json] = {
        "records": verified.records,
        "heads": verified.heads,
        "head": head.line() if head is not None else None,
        "problem": None,
    }
    if problem is not None:
        told["problem"] = {"seq": problem.seq, "kind": str(problem.kind), "message": problem.message}
    return told


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
