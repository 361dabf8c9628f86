"""What did the person always-allow beyond a session, and what of it holds where?

A grant comes and goes with its record: what an event changes here is written in the transaction that
writes the event (`audit.py`), so none holds that is not on record. A grant that was revoked or has expired
is gone from here and stays in the audit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from leeward.security.ports import Clock
from leeward.security.session import Decided, Event, Grant, Granted, Revoked, Scope

from .database import Database, Row, Statement, storable

__all__ = ["HOLDING", "HOLDING_BEFORE", "GrantStore", "StoredGrant", "kept_with", "stored_grants"]

_KEEP = (
    "INSERT INTO lasting_grant"
    " (id, tool, pattern, scope, workspace, granted_at, expires_at, session, call, folder)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_REVOKE = "DELETE FROM lasting_grant WHERE id = ?"
_USED = "UPDATE lasting_grant SET last_used = ? WHERE id = ?"
_EXPIRED = "DELETE FROM lasting_grant WHERE expires_at <= ?"
_COLUMNS = "id, tool, pattern, scope, expires_at, {}, workspace, granted_at, session, call, last_used"
_HOLDING = (
    f"SELECT {_COLUMNS} FROM lasting_grant"  # noqa: S608 — both are ours
    " WHERE (workspace IS NULL OR workspace = ?) AND (expires_at IS NULL OR expires_at > ?)"
    " ORDER BY granted_at, id"
)
_ALL = f"SELECT {_COLUMNS} FROM lasting_grant ORDER BY granted_at, id".format("folder")  # noqa: S608 — both are ours
HOLDING = _HOLDING.format("folder")
"""Asks for the grants that hold in a workspace at a time."""

HOLDING_BEFORE = _HOLDING.format("NULL")
"""The same for a file in which no grant names a folder: what it holds is meant for the workspace's root."""


@dataclass(frozen=True, slots=True)
class StoredGrant:
    """A grant with where and when it was given. Times are seconds since the epoch.

    `workspace` is the only one it holds in, `call` the one it was given in answer to.
    """

    grant: Grant
    workspace: str | None
    granted_at: float
    session: str
    call: str | None
    last_used: float | None

    def taken_in(self, now: float) -> Granted:
        """Return the event by which a session takes it in."""
        grant = self.grant
        return Granted(
            now,
            grant.tool,
            grant.match,
            grant.id,
            grant.scope,
            grant.until,
            self.workspace,
            stored=True,
            folder=grant.folder,
        )


class GrantStore:
    """The grants that outlive their session."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def holding_in(self, workspace: str) -> list[StoredGrant]:
        """Return the grants that hold in a workspace now, oldest first.

        Raises:
            RecordError: they could not be read.
        """
        return stored_grants(await self._database.read(HOLDING, (storable(workspace), self._clock.now())))

    async def all(self) -> list[StoredGrant]:
        """Return all grants, of all workspaces, oldest first.

        Raises:
            RecordError: they could not be read.
        """
        return stored_grants(await self._database.read(_ALL))

    async def prune(self) -> None:
        """Forget what has expired.

        Raises:
            RecordError: it could not be done.
        """
        await self._database.write([(_EXPIRED, (self._clock.now(),))])


def kept_with(session: str, event: Event) -> Iterator[Statement]:
    """Yield what an event of a session changes among the grants, to be written together with it."""
    match event:
        case Granted(stored=False) if event.scope.is_lasting:
            where = None if event.workspace is None else storable(event.workspace)
            match = None if event.match is None else storable(event.match)
            values = (event.id, storable(event.tool), match, event.scope.value, where, event.at, event.until)
            folder = None if event.folder is None else storable(event.folder)
            yield _KEEP, (*values, storable(session), event.call, folder)
        case Revoked():
            yield _REVOKE, (storable(event.id),)
        case Decided():
            for name in event.grants:
                yield _USED, (event.at, name)


def stored_grants(rows: list[Row]) -> list[StoredGrant]:
    """Return the grants that stand in some rows."""
    return [
        StoredGrant(Grant(name, tool, match, Scope(scope), until, folder), *rest)
        for name, tool, match, scope, until, folder, *rest in rows
    ]
