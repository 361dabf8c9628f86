"""`leeward permissions`: list and revoke grants that outlive a session.

How a running session takes it up is in `sessions/grants.py`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import trio

from leeward.memory.audit import AuditLogger
from leeward.memory.grants import GrantStore
from leeward.security.kinds import Json
from leeward.security.session import Grant, GrantEntry, Revoked

from ..clock import SystemClock
from ..console import Startup, look
from ..exits import Exit
from ..options import Options
from ..printer import Printer
from ..sessions import grant_line, grant_named, new_session_id, revoked
from ..storage import audit_of, open_storage

__all__ = ["permissions"]


async def permissions(options: Options, printer: Printer) -> Exit:
    """List what is always-allowed beyond a session, in all workspaces, or revoke one of it.

    Raises:
        CliError: there is no such grant, or there are several.
        RecordError: the database cannot be used.
    """
    start = look(options)
    if options.action == "revoke":
        grant = await _revoke(options.name, start, printer)
        printer.answer(f"{revoked(grant)}\n")
        return printer.finish(Exit.SUCCESS, {"revoked": grant.id})
    found: Sequence[GrantEntry] = ()
    # Looking makes no database.
    if await trio.Path(start.places.database).exists():
        async with _opened(start, printer) as (_, store):
            found = [one for one in await store.all() if one.grant.holds_at(time.time())]
    lines = [grant_line(one.grant, one, one.workspace) for one in found]
    printer.answer("".join(f"{line}\n" for line in lines or ["nothing is always-allowed"]))
    rows = [_as_json(one) for one in found]
    for one in rows:
        printer.event({"schema": 1, "type": "grant", **one})
    return printer.finish(Exit.SUCCESS, {"grants": rows})


async def _revoke(name: str, start: Startup, printer: Printer) -> Grant:
    """Take a grant back by its id or the beginning of it, on record in a session of its own; return it."""
    database = start.places.database
    if not await trio.Path(database).exists():
        return grant_named(name, ())
    async with _opened(start, printer) as (audit, store):
        grant = grant_named(name, [one.grant for one in await store.all()])
        session = new_session_id()
        details: dict[str, Json] = {"command": "permissions revoke"}
        await audit.start_session(session, str(start.places.workspace), start.loaded.digest, details)
        await audit.append(session, Revoked(time.time(), grant.id))
    return grant


@asynccontextmanager
async def _opened(start: Startup, printer: Printer) -> AsyncGenerator[tuple[AuditLogger, GrantStore], None]:
    clock = SystemClock()
    async with open_storage(start.places.database) as database:
        for notice in database.take_notices():
            printer.warn(notice)
        yield audit_of(database, clock, start.loaded, start.places), GrantStore(database, clock)


def _as_json(stored: GrantEntry) -> dict[str, Json]:
    grant = stored.grant
    return {
        "id": grant.id,
        "tool": grant.tool,
        "match": grant.match,
        "folder": grant.folder,
        "command": grant.command,
        "effect": grant.effect,
        "scope": grant.scope.value,
        "workspace": stored.workspace,
        "granted_at": stored.granted_at,
        "expires_at": grant.until,
        "session": stored.session,
        "call": stored.call,
        "last_used": stored.last_used,
    }
