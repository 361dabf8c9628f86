"""Select audit records by the words of a command line or slash command."""

from __future__ import annotations

import difflib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from leeward.memory.audit import DAMAGED, KINDS, AuditLogger, Record, RecordFilter
from leeward.memory.database import AsyncioThread, Database
from leeward.security.kinds import Json
from leeward.security.text import visible

from ..clock import SystemClock
from ..console import Startup
from ..exits import CliError, Exit
from ..options import Options
from ..storage import audit_of
from .why import Explanation, explained, sources_at

__all__ = ["explanation_of", "filter_of", "open_audit", "record_json", "records_of"]

_FACTS = ("chain", "ended", "head", "pruned", "session")


@asynccontextmanager
async def open_audit(start: Startup, warn: Callable[[str], None]) -> AsyncGenerator[AuditLogger, None]:
    """Open the audit for reading; `warn` is called with what was done to the file for that.

    Raises:
        RecordError: it cannot be opened.
    """
    path = start.places.database
    async with (
        AsyncioThread.open("storage") as asyncio_thread,
        Database.open(path, asyncio_thread) as database,
    ):
        for notice in database.take_notices():
            warn(notice)
        yield audit_of(database, SystemClock(), start.loaded, start.places)


async def filter_of(options: Options, audit: AuditLogger) -> RecordFilter:
    """Return which records the command line asks for.

    Raises:
        CliError: there is no such kind of record, or no such session.
        RecordError: the records could not be read.
    """
    known = sorted({*KINDS, *_FACTS})
    for kind in options.kinds:
        if kind not in known:
            near = difflib.get_close_matches(kind, known, n=1)
            why, hint = f"there is no kind of record {visible(kind)}", near[0] if near else ", ".join(known)
            raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion=hint)
    if options.session is not None and not await audit.list_records(options.session, 1):
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", "there is no such session", session=options.session)
    return RecordFilter(
        options.session, options.kinds or None, options.tool or None, options.denied, options.since
    )


async def records_of(name: str, audit: AuditLogger, session: str | None = None) -> list[Record]:
    """Return the records of the call whose id begins so; `last` is the last one.

    Raises:
        CliError: there is none, or there are several.
        RecordError: they could not be read.
    """
    call = await audit.reports.last_call(session) if name == "last" else name
    records = [one for one in await audit.show(call or "") if session in (None, one.session)]
    if not records:
        raise CliError(
            Exit.NOT_FOUND,
            "NOT_FOUND",
            "there is no record of that call",
            call=name,
            suggestion="leeward audit list",
        )
    return records


async def explanation_of(name: str, audit: AuditLogger, session: str | None = None) -> Explanation:
    """Return why a call ran or did not; "" is the last that was refused or asked about.

    Raises:
        CliError: there is none, or there are several whose ids begin so.
        RecordError: the records could not be read.
    """
    if not name:
        name = await audit.reports.last_call(session, questioned=True) or ""
        if not name:
            why = "no call was refused or asked about yet; `last` is about the last that ran"
            raise CliError(Exit.NOT_FOUND, "NOT_FOUND", why, suggestion="leeward audit why last")
    records = await records_of(name, audit, session)
    calls = sorted({str(record.call) for record in records})
    if len(calls) > 1:
        why = f"the ids of {len(calls)} calls begin so"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, call=name, suggestion=visible(calls[-1]))
    if broken := [record for record in records if record.kind == DAMAGED]:
        why = f"record {broken[0].seq} of this call was changed, so it explains nothing"
        raise CliError(Exit.GENERAL_ERROR, "AUDIT_BROKEN", why, suggestion="leeward audit verify")
    own = RecordFilter(session=records[0].session, kinds=("config",))
    configured = [record for record in await audit.reports.newest(own, 1000) if record.kind != DAMAGED]
    return explained(calls[0], records, sources_at(configured, records[0].seq))


def record_json(record: Record) -> dict[str, Json]:
    """Return a record as JSON says it."""
    return {
        "seq": record.seq,
        "at": record.at,
        "session": record.session,
        "kind": record.kind,
        "call": record.call,
        "tool": record.tool,
        "body": dict(record.body),
    }
