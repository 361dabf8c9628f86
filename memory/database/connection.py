"""Open a database file with durable settings, and translate SQLite's failures.

Everything here runs in the thread of the connection, which serves one function at a time. `writer.py`
uses the connection afterwards; `schema.py` describes the contents of the file.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

import aiosqlite

from leeward.security.ports import RecordError

from . import backup as kept
from .chain import RecordRow, append
from .schema import ForeignFile, check_owner, migrate

__all__ = [
    "FAILURES",
    "Connection",
    "Statement",
    "Value",
    "connect",
    "integrity",
    "is_busy",
    "is_damage",
    "reason",
    "transact",
]

Value: TypeAlias = int | float | str | bytes | None
Statement: TypeAlias = tuple[str, Sequence[Value]]
"""One INSERT, UPDATE or DELETE and the values for its placeholders."""

FAILURES = (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError)
"""What sqlite3 raises: its own errors, and Python's for a value that SQLite has no type for."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_BUSY: "another process keeps it locked",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked",
    sqlite3.SQLITE_IOERR: "the disk reported an input/output error, or has no room left",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; it was left as it is",
    sqlite3.SQLITE_NOTADB: "the file is damaged or no database; it was left as it is",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_CONSTRAINT: "the record contradicts what is stored already",
    sqlite3.SQLITE_TOOBIG: "the record is too large",
}

# How often another process that opens the same new file is waited for.
_TRIES = 20

# Free pages can then be given back a few at a time (`maintenance.py`); rewriting the whole file would keep
# every other process from writing meanwhile. It has an effect on a new file only. On an existing one the
# pragma writes and waits for the write lock, so that a reader would fail while another process writes.
_OF_NEW_FILE = "PRAGMA auto_vacuum = INCREMENTAL"

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",
    # A commit returns when the disk has it, not when the system promised to write it some time.
    "PRAGMA synchronous = FULL",
    # On macOS a sync reaches the disk's own memory only, unless it is asked to go further.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    # Functions named in a schema someone else may have written are not run.
    "PRAGMA trusted_schema = OFF",
    # A page that lies about itself is found when it is read, not when it has led somewhere.
    "PRAGMA cell_size_check = ON",
    # What is deleted is overwritten, in whichever way SQLite was built: it must not be read from the file.
    "PRAGMA secure_delete = ON",
    # Intermediate results are as private as the file; they go to no temporary file beside it.
    "PRAGMA temp_store = MEMORY",
    # After a burst the write-ahead log shrinks to this size again (bytes).
    "PRAGMA journal_size_limit = 16777216",
)


class Connection(aiosqlite.Connection):
    """A connection to whose thread a whole piece of work can be handed in one hop.

    A hop costs more than what is done there. `notices` tell the person what was done to the file when
    it was opened.
    """

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self.notices: list[str] = []
        self._opening = partial(_opened, path, busy_seconds, self.notices)
        self._failure: Exception | None = None
        super().__init__(self._open, iter_chunk_size=64)

    async def begin(self) -> None:
        """Open the file.

        Raises:
            OSError, ForeignFile, *FAILURES: it cannot be used.
        """
        await self
        if self._failure is not None:
            await self.close()
            raise self._failure

    def _open(self) -> sqlite3.Connection:
        try:
            return self._opening()
        except (OSError, ForeignFile, *FAILURES) as error:
            # An error here would leave the thread to an end that nobody waits for, maybe after the loop's.
            self._failure = error
            return sqlite3.connect(":memory:")

    def start(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Have a function called in the thread, with SQLite's own connection, behind what is in line there.

        May be called from any thread. Nobody hears how it ends, so it must not raise; not even the loop
        is notified, whose thread would have to wake up for that.
        """
        self._tx.put_nowait((None, lambda: work(self._conn)))


def transact(
    connection: sqlite3.Connection, drafts: Sequence[RecordRow], statements: Sequence[Statement]
) -> None:
    """Put records into the chain and carry statements out, in one transaction: all or nothing."""
    try:
        # Who only reads first and then wants to write may find that another process was faster.
        connection.execute("BEGIN IMMEDIATE")
        if drafts:
            append(connection, drafts)
        for sql, group in groupby(statements, itemgetter(0)):
            connection.executemany(sql, [values for _, values in group])
        connection.execute("COMMIT")
    except BaseException:
        # SQLite may have rolled back by itself: the method knows, a statement ROLLBACK would fail.
        # Should even the method fail, the next BEGIN will too, and this is tried again then.
        with suppress(*FAILURES):
            connection.rollback()
        raise


async def connect(path: Path, busy_seconds: float) -> Connection:
    """Open a file, made first or brought to the newest version; one of ours that is damaged is moved.

    Raises:
        RecordError: the file cannot be used; the message says why. It is never deleted.
    """
    try:
        connection = Connection(path, busy_seconds)
        await connection.begin()
    except (OSError, ForeignFile, *FAILURES) as error:
        why = reason(error).removesuffix(f" ({path})")
        raise RecordError(f"{path} cannot be used: {why}") from error
    return connection


def is_busy(error: BaseException) -> bool:
    """Whether it failed only because another process holds the lock."""
    return _code(error) in _BUSY


def is_damage(error: BaseException | None) -> bool:
    """Whether it failed because the content of the file is impossible."""
    return error is not None and _code(error) in _DAMAGE


def reason(error: BaseException) -> str:
    """Describe what went wrong in words a person understands, followed by the machine's own message."""
    if isinstance(error, OSError):
        named = f" ({error.filename})" if error.filename is not None else ""
        return f"{error.strerror}{named}" if error.strerror else repr(error)
    words = _REASONS.get(_code(error) or sqlite3.SQLITE_OK)
    return (str(error) or repr(error)) if words is None else f"{words} ({error})"


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code, or None where the error is not SQLite's."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


class _Unmoved(sqlite3.Connection):
    """A connection that is closed while nobody moves its file.

    Who closes a database last removes its side files by name: they must not be those of another by then.
    """

    path: Path | None = None

    def close(self) -> None:
        """Close it, in the end even without a turn: there is nothing else to be done with it."""
        with ExitStack() as turn:
            if self.path is not None:
                with suppress(OSError):
                    turn.enter_context(kept.shared_lock(self.path))
            super().close()


def _opened(path: Path, busy_seconds: float, notices: list[str]) -> sqlite3.Connection:
    """Open a file; where it is ours and damaged, set it aside and begin a new one."""
    connection = _as_it_is(path, busy_seconds, notices)
    if connection is None:
        with kept.exclusive_lock(path):
            connection = _reopened(path, busy_seconds, notices)
    connection.path = path
    return connection


def _as_it_is(path: Path, busy_seconds: float, notices: list[str]) -> _Unmoved | None:
    """Open a file among others who do, or return None where it may be damaged, and is ours."""
    with kept.shared_lock(path):
        if kept.is_suspect(path) or kept.is_half_moved(path):
            return None
        try:
            return _ready(path, busy_seconds, notices)
        except sqlite3.DatabaseError as error:
            if not is_damage(error) or not kept.is_ours(path):
                raise
    return None


def _reopened(path: Path, busy_seconds: float, notices: list[str]) -> _Unmoved:
    """Look at a file closely, when nobody else opens it, and begin a new one if it is beyond use.

    Another process may have come to the same end before, and have begun the new file already.
    """
    try:
        if not kept.is_half_moved(path):
            connection = _ready(path, busy_seconds, notices)
            if _is_sound(path, connection):
                return connection
    except sqlite3.DatabaseError as error:
        if not is_damage(error) or not kept.is_ours(path):
            raise
    where = kept.set_aside(path)
    kept.trust(path)
    notices.append(
        f"the database {path} is damaged. It was moved to {where}, nothing was deleted; a new one was begun."
        " Sessions and records up to now are in the old one: sqlite3 and its .recover may read them"
    )
    return _ready(path, busy_seconds, notices)


def _is_sound(path: Path, connection: sqlite3.Connection) -> bool:
    """Whether nothing is wrong with an open file; one that is unsound is closed."""
    try:
        if not kept.is_suspect(path) or not integrity(connection):
            kept.trust(path)
            return True
    except BaseException:
        connection.close()
        raise
    connection.close()
    return False


def integrity(connection: sqlite3.Connection) -> list[str]:
    """Return what SQLite finds wrong with a file, at most 100 lines; nothing where all is well."""
    try:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return [str(error)]
    lost = [f"row {row} of {table} belongs to nothing in {other}" for table, row, other, _ in broken]
    return [line for line in found if line != "ok"] + lost[:100]


def _ready(path: Path, busy_seconds: float, notices: list[str]) -> _Unmoved:
    _create(path)
    connection = sqlite3.connect(path, isolation_level=None, timeout=busy_seconds, factory=_Unmoved)
    try:
        # Whose file it is comes first: another program's is not changed in any way.
        check_owner(connection)
        _restrict(path)
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            connection.execute(_OF_NEW_FILE)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        _enter_wal(connection)
        _verify(connection)
        migrate(connection, partial(_copy, path, notices))
    except BaseException:
        connection.close()
        raise
    return connection


def _copy(path: Path, notices: list[str], version: int) -> Callable[[], None]:
    where = kept.copy(path, version)
    notices.append(f"the database {path} was brought up to date; as it was before, it lies at {where}")

    def undo() -> None:
        # Each further start would leave one more copy of a file that is as it was.
        notices.clear()
        where.unlink(missing_ok=True)

    return undo


def _verify(connection: sqlite3.Connection) -> None:
    """See that what the records rely upon holds: SQLite ignores a PRAGMA that it cannot follow."""
    found = connection.execute(
        "SELECT journal_mode, synchronous, foreign_keys"
        " FROM pragma_journal_mode, pragma_synchronous, pragma_foreign_keys"
    ).fetchone()
    if found != ("wal", 2, 1):
        raise sqlite3.OperationalError(f"its settings for durability do not hold: {found}")


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging, which lets other processes read while one writes.

    SQLite does not wait for its turn here as it does elsewhere. So where another process is in the
    way, its transaction is waited for by asking for the write lock.
    """
    for _ in range(_TRIES):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        else:
            return


def _create(path: Path) -> None:
    """Make the file where it is missing, closed to everybody else from the start.

    Raises:
        OSError: it cannot be made, or something else is there, such as a pipe.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file")
    finally:
        os.close(handle)


def _restrict(path: Path) -> None:
    """Take from everybody else what an existing file grants; new side files get the mode of the file.

    So with the folder, where it is the one for our own data.
    """
    if kept.is_own_folder(path.parent) and path.parent.stat().st_mode & 0o077:
        # Whose folder it is may have decided otherwise; the files in it are closed all the same.
        with suppress(PermissionError):
            path.parent.chmod(0o700)
    for end in kept.SIDES:
        # A side file may go away at any time, when another process closes.
        with suppress(FileNotFoundError):
            name = path.with_name(path.name + end)
            if name.stat().st_mode & 0o077:
                name.chmod(0o600)
