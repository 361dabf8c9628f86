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

from leeward.memory.audit import DAMAGED, AuditLogger, Head, Record, Verified, heads_in
from leeward.security.kinds import Json
from leeward.security.text import visible

from ..console import look
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer
from .audit_export import export
from .audit_replay import replay
from .audit_stats import stats
from .audit_tail import tail
from .query import explanation_of, filter_of, open_audit, record_json, records_of
from .text import egress_lines, record_lines

__all__ = ["audit"]

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
    async with open_audit(start, printer.warn) as opened:
        return await _ACTIONS[options.action](options, printer, opened)


async def _list(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    wanted = await filter_of(options, opened)
    if options.egress:
        # An attempt has up to two rows, told as one.
        found = await opened.reports.newest(replace(wanted, kinds=("egress",)), 2 * options.limit)
        rows = [row for row in found if row.kind != DAMAGED]
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
    named = options.head
    kept = await opened.heads_elsewhere() if named is None else await trio.to_thread.run_sync(_heads, named)
    verified = await opened.verify(*kept)
    told = _verified_json(verified)
    printer.event({"schema": 1, "type": "verified", **told})
    printer.answer("".join(f"{line}\n" for line in _verified_lines(verified, len(kept))))
    problem = verified.problem
    if problem is None:
        return printer.finish(Exit.SUCCESS, told)
    where = f"record {problem.seq} ({problem.kind})" if problem.seq else str(problem.kind)
    error: dict[str, Json] = {
        "code": "AUDIT_BROKEN",
        "message": f"{where}: {visible(problem.message)}",
        "phase": "verification",
    }
    return printer.finish(Exit.GENERAL_ERROR, told, error)


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
    yield "so whoever can write to the file may have written those anew"


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
        why = f"--head: no head of an audit stands in {visible(named)}: one begins with 'leeward-head 1'"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why)
    return found


def _verified_json(verified: Verified) -> Mapping[str, Json]:
    problem, head = verified.problem, verified.head
    told: dict[str, Json] = {
        "records": verified.records,
        "heads": verified.heads,
        "head": head.line() if head is not None else None,
        "unsigned": verified.unsigned,
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
