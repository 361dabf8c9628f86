"""Check that a file is ours and of a supported version, and run the `migrations/` on older ones.

The columns are described where they are used: `audit/logger.py`, `overflow/store.py` and
`sessions/transcript.py`. Everything here runs in the thread of the connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache

from .chain import record_hash
from .migrations import MIGRATIONS

__all__ = ["APPLICATION_ID", "AROUND_AUDIT", "ForeignFile", "audit_schema", "check_owner", "migrate"]

APPLICATION_ID = 0x4C656577
"""Marks a SQLite file as ours ("Leew"), so that another program's database is never written into."""

AROUND_AUDIT = (
    "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND (tbl_name = 'audit' OR type = 'view')"
)
"""Asks for the table of the audit, its indexes, and all views."""

_TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"


class ForeignFile(Exception):
    """The file is not one of ours, one of a later version, or was made to do more; the message says which."""


def check_owner(connection: sqlite3.Connection) -> None:
    """See that a file is empty or ours, and of a version that is known here, without touching it.

    Leeward adds no triggers: one that is there may drop records, or write other ones.

    Raises:
        ForeignFile: it is not.
        sqlite3.Error: it could not be read.
    """
    _version(connection)
    if triggers := [str(name) for (name,) in connection.execute(_TRIGGERS)]:
        raise ForeignFile(
            f"somebody put triggers into it that change what is recorded: {', '.join(triggers)};"
            " look at them with sqlite3, and take them out by DROP TRIGGER"
        )


def migrate(connection: sqlite3.Connection, before: Callable[[int], Callable[[], None]]) -> None:
    """Bring a file to the newest version, whole or not at all.

    `before` is called with the old version of a file that has one, while nobody else can write to it; what it
    returns is called if nothing came of it.

    Raises:
        ForeignFile: another process has made something else of it meanwhile.
        sqlite3.Error: it could not be read or written.
    """
    if _version(connection) == len(MIGRATIONS):
        return
    connection.create_function("leeward_hash", -1, record_hash, deterministic=True)
    # Under the write lock the version is read again: another process may have been faster.
    connection.execute("BEGIN IMMEDIATE")
    undo: Callable[[], None] | None = None
    try:
        version = _version(connection)
        if 0 < version < len(MIGRATIONS):
            undo = before(version)
        for number in range(version, len(MIGRATIONS)):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.commit()
    except BaseException:
        if undo is not None:
            undo()
        raise
    finally:
        connection.rollback()
        connection.create_function("leeward_hash", -1, None)


def _version(connection: sqlite3.Connection) -> int:
    """Return the version of a file of ours; an empty file has version 0."""
    owner, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if owner != APPLICATION_ID and (owner or version or tables):
        raise ForeignFile("the file is a database of another program")
    if version > len(MIGRATIONS):
        raise ForeignFile(
            f"the file has version {version}, and this program knows versions up to {len(MIGRATIONS)}:"
            " it was written by a later release; use that one, or name another file as storage.path"
        )
    return int(version)


@cache
def audit_schema() -> Mapping[str, str]:
    """Return how the table of the audit, its indexes and the views are made in a file that nobody touched."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh, lambda _: lambda: None)
        return dict(fresh.execute(AROUND_AUDIT))
