"""Store grants that outlive a session, and list those that hold in a workspace.

A grant changes with its record: what an event changes here is written in the transaction that writes the
event (`audit/logger.py`), so none holds that is not on record. A revoked or expired grant is removed here
and stays in the audit. The read-only view for `leeward check` creates, writes and migrates nothing and holds
up no writer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

from leeward.security.ports import Clock, RecordError
from leeward.security.session import Decided, Event, Grant, Granted, GrantEntry, Revoked, Scope

from .database import (
    FAILURES,
    Database,
    ForeignFile,
    Row,
    Statement,
    Value,
    check_owner,
    parsed,
    reason,
    shared_lock,
    storable,
    stored_json,
)

__all__ = [
    "HOLDING",
    "GrantStore",
    "holding_in",
    "kept_with",
    "read_standing",
    "standing_grants",
    "stored_grants",
]


_KEEP = (
    "INSERT INTO lasting_grant"
    " (id, tool, pattern, scope, workspace, granted_at, expires_at, session, call,"
    " folder, command, files, mark, effect)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_REVOKE = "DELETE FROM lasting_grant WHERE id = ?"
_USED = "UPDATE lasting_grant SET last_used = ? WHERE id = ?"
_EXPIRED = "DELETE FROM lasting_grant WHERE expires_at <= ?"
_LATER = {"folder": "NULL", "command": "NULL", "files": "NULL", "mark": "0", "effect": "''"}
_COLUMNS = (
    "id, tool, pattern, scope, expires_at, {folder}, {command}, {files}, {mark}, {effect},"
    " workspace, granted_at, session, call, last_used"
)
_HOLDING = (
    f"SELECT {_COLUMNS} FROM lasting_grant"  # noqa: S608 — both are ours
    " WHERE (workspace IS NULL OR workspace = ?) AND (expires_at IS NULL OR expires_at > ?)"
    " ORDER BY granted_at, id"
)
_TODAY = {name: name for name in _LATER}
_ALL = f"SELECT {_COLUMNS} FROM lasting_grant ORDER BY granted_at, id".format(**_TODAY)  # noqa: S608 — both are ours
HOLDING = _HOLDING.format(**_TODAY)
"""Asks for the grants that hold in a workspace at a time."""


def holding_in(columns: set[str]) -> str:
    """Return the same for a file of an earlier release, whose grants have no more than these columns.

    One without a folder is meant for the workspace's root, none without a command is about a trial run, and
    one without files is bound to none.
    """
    return _HOLDING.format(**{name: name if name in columns else missing for name, missing in _LATER.items()})


class GrantStore:
    """The grants that outlive their session."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def holding_in(self, workspace: str) -> list[GrantEntry]:
        """Return the grants that hold in a workspace now, oldest first.

        Raises:
            RecordError: they could not be read.
        """
        return stored_grants(await self._database.read(HOLDING, (storable(workspace), self._clock.now())))

    async def all(self) -> list[GrantEntry]:
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
        case Granted(grant=grant, stored=False) if grant.scope.is_lasting:
            where = None if event.workspace is None else storable(event.workspace)
            match = None if grant.match is None else storable(grant.match)
            values = (grant.id, storable(grant.tool), match, grant.scope.value, where, event.at, grant.until)
            folder = None if grant.folder is None else storable(grant.folder)
            command = None if grant.command is None else storable(grant.command)
            files = None if grant.files is None else stored_json(dict(grant.files))
            bound = (folder, command, files, grant.mark, grant.effect)
            yield _KEEP, (*values, storable(session), event.call, *bound)
        case Revoked():
            yield _REVOKE, (storable(event.id),)
        case Decided():
            for name in event.grants:
                yield _USED, (event.at, name)


def stored_grants(rows: list[Row]) -> list[GrantEntry]:
    """Return the grants in some rows."""
    return [
        GrantEntry(
            Grant(name, tool, match, Scope(scope), until, folder, command, _files(files), mark, effect), *rest
        )
        for name, tool, match, scope, until, folder, command, files, mark, effect, *rest in rows
    ]


def _files(stored: str | None) -> tuple[tuple[str, str], ...] | None:
    return None if stored is None else tuple(parsed(stored).items())


_TABLE = "SELECT name FROM pragma_table_info(?)"
_TRIES = 5
_BUSY_SECONDS = 1.0

_Mark: TypeAlias = tuple[int, int, int, int]


def standing_grants(database: Path, workspace: str, now: float) -> list[GrantEntry]:
    """Return the grants that hold in a workspace at a time; none where there is no database. Blocks.

    Raises:
        RecordError: there is one, and it cannot be read.
    """
    return stored_grants(read_standing(database, "lasting_grant", holding_in, (storable(workspace), now)))


def read_standing(
    database: Path, table: str, query: Callable[[set[str]], str], values: Sequence[Value]
) -> list[Row]:
    """Return the rows of a query made for the columns a table has; none where it, or the file, is not.

    Nothing is created, written or migrated, and no writer is held up. Blocks.

    Raises:
        RecordError: the file is there, and it cannot be read.
    """
    # The log of the processes that have it open: their last writes are in it.
    wal = database.with_name(f"{database.name}-wal")
    failure: Exception | None = None
    for _ in range(_TRIES):
        try:
            file, log = _mark(database), _mark(wal)
            if file is None:
                return []
            is_open = log is not None and log[1] > 0
            # The log is found by its name: of a file that is being moved away, it would be another's.
            with shared_lock(database):
                found = _read(database, table, query, values, is_open=is_open)
        except (OSError, ForeignFile, *FAILURES) as error:
            failure = error
        else:
            # Without a lock, what was read counts only if nobody wrote meanwhile.
            if is_open or (_mark(database), _mark(wal)) == (file, log):
                return found
    why = "others keep writing to it" if failure is None else reason(failure)
    raise RecordError(f"{database} could not be read: {why}") from failure


def _mark(file: Path) -> _Mark | None:
    """Return what tells whether a file was changed, None where there is none."""
    with suppress(FileNotFoundError):
        found = file.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return None


def _read(
    database: Path,
    table: str,
    query: Callable[[set[str]], str],
    values: Sequence[Value],
    *,
    is_open: bool,
) -> list[Row]:
    how = "mode=ro&readonly_shm=1" if is_open else "immutable=1"
    address = f"{database.absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        check_owner(connection)
        # One of an earlier release may not have the table yet, or not all of its columns.
        columns = {name for (name,) in connection.execute(_TABLE, (table,))}
        return connection.execute(query(columns), tuple(values)).fetchall() if columns else []
