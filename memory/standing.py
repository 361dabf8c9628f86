"""Which grants would count in a workspace, for somebody who only wants to know?

Nothing is made, written, migrated or set aside, and nobody who writes is held up: what a process that works
has open is read as any other reads it, without recovering it, and a file that nobody has open without a lock.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

from leeward.security.ports import RecordError

from .database import FAILURES, ForeignFile, among_others, check_owner, reason, storable
from .grants import HOLDING, HOLDING_BEFORE, StoredGrant, stored_grants

__all__ = ["standing_grants"]

_TABLE = "SELECT name FROM pragma_table_info('lasting_grant')"
_TRIES = 5
_BUSY_SECONDS = 1.0

_Mark: TypeAlias = tuple[int, int, int, int]


def standing_grants(database: Path, workspace: str, now: float) -> list[StoredGrant]:
    """Return the grants that hold in a workspace at a time; none where there is no database. Blocks.

    Raises:
        RecordError: there is one, and it cannot be read.
    """
    # The log of those who have it open: what they wrote last stands there.
    wal = database.with_name(f"{database.name}-wal")
    failure: Exception | None = None
    for _ in range(_TRIES):
        try:
            file, log = _mark(database), _mark(wal)
            if file is None:
                return []
            is_open = log is not None and log[1] > 0
            # The log is found by its name: of a file that is being moved away, it would be another's.
            with among_others(database):
                found = _read(database, workspace, now, is_open=is_open)
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


def _read(database: Path, workspace: str, now: float, *, is_open: bool) -> list[StoredGrant]:
    how = "mode=ro&readonly_shm=1" if is_open else "immutable=1"
    address = f"{database.absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        check_owner(connection)
        # One of an earlier release may have no grants yet, or none with a folder.
        columns = {name for (name,) in connection.execute(_TABLE)}
        if not columns:
            return []
        asking = HOLDING if "folder" in columns else HOLDING_BEFORE
        return stored_grants(connection.execute(asking, (storable(workspace), now)).fetchall())
