"""Is a file ours, and of a version we can use? What brings an older one up to date stands in `migrations/`.

What the columns mean to whom is told in `audit.py`, `overflow.py` and `transcript.py`.
"""

from __future__ import annotations

import aiosqlite

from .migrations import MIGRATIONS

__all__ = ["APPLICATION_ID", "MIGRATIONS", "ForeignFile", "check_owner", "migrate"]

APPLICATION_ID = 0x4C656577
"""Marks a SQLite file as ours ("Leew"), so that another program's database is never written into."""


class ForeignFile(Exception):
    """The file is not one of ours, or one of a later version; the message says which."""


async def check_owner(connection: aiosqlite.Connection) -> None:
    """See that a file is empty or ours, and of a version that is known here, without touching it.

    Raises:
        ForeignFile: it is not.
        sqlite3.Error: it could not be read.
    """
    await _version(connection)


async def migrate(connection: aiosqlite.Connection) -> None:
    """Bring a file to the newest version, whole or not at all.

    Raises:
        ForeignFile: another process has made something else of it meanwhile.
        sqlite3.Error: it could not be read or written.
    """
    if await _version(connection) == len(MIGRATIONS):
        return
    # Under the write lock the version is read again: another process may have been faster.
    await connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(await _version(connection), len(MIGRATIONS)):
            for statement in MIGRATIONS[number]:
                await connection.execute(statement)
        await connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        await connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        await connection.commit()
    finally:
        await connection.rollback()


async def _version(connection: aiosqlite.Connection) -> int:
    """Return the version of a file of ours; an empty file has version 0."""
    ((owner, version, tables),) = await connection.execute_fetchall(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    )
    if owner != APPLICATION_ID and (owner or version or tables):
        raise ForeignFile("the file is a database of another program")
    if version > len(MIGRATIONS):
        raise ForeignFile(
            f"the file has version {version}, and this program knows versions up to {len(MIGRATIONS)}:"
            " it was written by a later release"
        )
    return int(version)
