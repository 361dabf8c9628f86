"""Lock a session, so that one process at a time has it open.

Each open session has a file beside the database, locked with `flock`: the system grants the lock to one
process and releases it when that process ends, however it ends. So a crash leaves nothing behind that
could be mistaken for a live process.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from leeward.security.ports import RecordError

__all__ = ["LOCKS", "SessionInUse", "SessionLock"]

LOCKS = "-locks"
"""What the folder of the lock files is called, behind the name of the database."""

_TRIES = 100


class SessionInUse(Exception):
    """Somebody has the session open, or nobody may; the message says who, where that is known."""


class SessionLock:
    """The right to resume a session, for as long as it is held."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self._handle = handle

    @classmethod
    def take(cls, database: Path, session: str, what: str = "") -> SessionLock:
        """Take the lock of a session of a database; nothing is waited for.

        `what` is how errors name it, without one by its id.

        Raises:
            SessionInUse: it is open.
            RecordError: the lock cannot be made.
        """
        path = database.with_name(database.name + LOCKS) / session
        what = what or f"session {session}"
        # An id comes from the database, and the file is emptied and removed: it must lead nowhere else.
        if path.name != session or "\0" in session:
            raise SessionInUse(f"{session!r} is no id of a session: nobody may open it")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for _ in range(_TRIES):
                handle = _locked(path, what)
                if handle is not None:
                    return cls(path, handle)
        except OSError as error:
            raise RecordError(f"{what} cannot be locked: {error.strerror}") from error
        raise SessionInUse(f"{what} is being opened by several at once")

    def release(self, *, is_settled: bool = True) -> None:
        """Give the lock back; again does no harm.

        If a call of the session is not settled, its file stays, as after a crash: the next process to start
        next looks after it (`audit/unfinished.py`).
        """
        handle, self._handle = self._handle, -1
        if handle >= 0:
            # While it is held nobody else removes it, so the name still leads to this very file.
            if is_settled:
                with suppress(OSError):
                    self._path.unlink()
            os.close(handle)


def _locked(path: Path, what: str) -> int | None:
    """Return an open and locked file, or None where its owner removed it meanwhile.

    Raises:
        SessionInUse: somebody else holds the lock.
        OSError: the file cannot be used.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            who = f"by process {pid}" if pid.isdigit() else "elsewhere"
            raise SessionInUse(f"{what} is open already, {who}") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        if _is_still(handle, path):
            taken, handle = handle, -1
            return taken
        return None
    finally:
        if handle >= 0:
            os.close(handle)


def _is_still(handle: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(handle)
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)
