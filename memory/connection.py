"""How is a file opened so that it can be relied upon, and what does it mean when SQLite fails?

Everything here runs in the island. What is done with the connection afterwards is told in
`database.py`, what stands in the file in `schema.py`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

import aiosqlite

from leeward.security import RecordError

from .schema import ForeignFile, check_owner, migrate

__all__ = ["FAILURES", "Connection", "Statement", "Value", "connect", "is_busy", "reason"]

Value: TypeAlias = int | float | str | bytes | None
Statement: TypeAlias = tuple[str, Sequence[Value]]
"""One INSERT, UPDATE or DELETE and the values for its placeholders."""

FAILURES = (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError)
"""What sqlite3 raises: its own errors, and Python's for a value that SQLite has no type for."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_BUSY: "another process keeps it locked",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked",
    sqlite3.SQLITE_IOERR: "the disk reported an input/output error",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; it was left as it is",
    sqlite3.SQLITE_NOTADB: "the file is damaged or no database; it was left as it is",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_CONSTRAINT: "the record contradicts what is stored already",
    sqlite3.SQLITE_TOOBIG: "the record is too large",
}

# How often another process that opens the same new file is waited for.
_TRIES = 20

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    # A commit returns when the disk has it, not when the system promised to write it some time.
    "PRAGMA synchronous = FULL",
    # Functions named in a schema someone else may have written are not run.
    "PRAGMA trusted_schema = OFF",
    # Intermediate results are as private as the file; they go to no temporary file beside it.
    "PRAGMA temp_store = MEMORY",
    # After a burst the write-ahead log shrinks to this size again (bytes).
    "PRAGMA journal_size_limit = 16777216",
)


class Connection(aiosqlite.Connection):
    """A connection that makes a whole transaction in one hop to its thread and back.

    A hop costs more than what is done there, and there are two transactions in every call of a tool.
    """

    async def transact(self, statements: Sequence[Statement], *, durable: bool = True) -> None:
        """Carry statements out in one transaction, all or none.

        One that need not be `durable` is in the file for everybody to read, and there after a crash of the
        process. Only the loss of power can take it away, until the next durable one is written.
        """
        await self._execute(self._transacted, statements, durable)  # type: ignore[no-untyped-call]  # it has no types

    def _transacted(self, statements: Sequence[Statement], durable: bool) -> None:
        connection = self._conn
        if not durable:
            connection.execute("PRAGMA synchronous = NORMAL")
        try:
            connection.execute("BEGIN IMMEDIATE")
            for sql, group in groupby(statements, itemgetter(0)):
                connection.executemany(sql, [values for _, values in group])
            connection.execute("COMMIT")
        except BaseException:
            # SQLite may have rolled back by itself: the method knows, a statement ROLLBACK would fail.
            # Should even the method fail, the next BEGIN will too, and this is tried again then.
            with suppress(*FAILURES):
                connection.rollback()
            raise
        finally:
            if not durable:
                connection.execute("PRAGMA synchronous = FULL")


async def connect(path: Path, busy_seconds: float) -> Connection:
    """Open a file, making it first or bringing it to the newest version.

    Raises:
        RecordError: the file cannot be used; the message says why. It is never deleted.
    """
    try:
        _create(path)
        connection = Connection(partial(_opened, path, busy_seconds), iter_chunk_size=64)
        await connection
        try:
            await _prepare(connection, path)
        except BaseException:
            # An aiosqlite connection that is left open keeps the whole process from ending.
            await connection.close()
            raise
    except (OSError, ForeignFile, *FAILURES) as error:
        raise RecordError(f"{path} cannot be used: {reason(error)}") from error
    return connection


def _opened(path: Path, busy_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=busy_seconds)


def is_busy(error: Exception) -> bool:
    """Whether it failed only because another process holds the lock."""
    return _code(error) in _BUSY


def reason(error: BaseException) -> str:
    """Say in words a person understands what went wrong, and after them what the machine said."""
    if isinstance(error, OSError):
        return error.strerror or repr(error)
    words = _REASONS.get(_code(error) or sqlite3.SQLITE_OK)
    return (str(error) or repr(error)) if words is None else f"{words} ({error})"


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code, or None where the error is not SQLite's."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


async def _prepare(connection: aiosqlite.Connection, path: Path) -> None:
    # Whose file it is comes first: another program's is not changed in any way.
    await check_owner(connection)
    _restrict(path)
    for pragma in _PRAGMAS:
        await connection.execute(pragma)
    await _enter_wal(connection)
    await _verify(connection)
    await migrate(connection)


async def _verify(connection: aiosqlite.Connection) -> None:
    """See that what the records rely upon holds: SQLite ignores a PRAGMA that it cannot follow."""
    (found,) = await connection.execute_fetchall(
        "SELECT journal_mode, synchronous, foreign_keys"
        " FROM pragma_journal_mode, pragma_synchronous, pragma_foreign_keys"
    )
    if tuple(found) != ("wal", 2, 1):
        raise sqlite3.OperationalError(f"its settings for durability do not hold: {tuple(found)}")


async def _enter_wal(connection: aiosqlite.Connection) -> None:
    """Switch to write-ahead logging, which lets other processes read while one writes.

    SQLite does not wait for its turn here as it does elsewhere. So where another process is in the
    way, its transaction is waited for by asking for the write lock.
    """
    for _ in range(_TRIES):
        try:
            await connection.execute_fetchall("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            await connection.execute("BEGIN IMMEDIATE")
            await connection.rollback()
        else:
            return


def _create(path: Path) -> None:
    """Make the file and its folder where they are missing, closed to everybody else from the start."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _restrict(path: Path) -> None:
    """Take from everybody else what an existing file grants; new side files get the mode of the file."""
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        # A side file may go away at any time, when another process closes.
        with suppress(FileNotFoundError):
            if name.stat().st_mode & 0o077:
                name.chmod(0o600)
