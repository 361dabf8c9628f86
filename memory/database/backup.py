"""Keep the copy of a database from before a migration, and set a damaged file aside.

They go into a folder beside the database, closed to everybody else. Nothing in there is ever read, changed
or deleted by this program; it is for a person.

SQLite finds the side files of a database by name. So a name may come to mean another file only while nobody
opens or closes what it meant before: who does takes a shared lock, who moves an exclusive one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import gmtime, monotonic, sleep, strftime

from .schema import APPLICATION_ID

__all__ = [
    "BACKUP_SUFFIX",
    "SIDES",
    "copy",
    "exclusive_lock",
    "is_half_moved",
    "is_ours",
    "is_own_folder",
    "is_suspect",
    "set_aside",
    "shared_lock",
    "suspect",
    "trust",
]

SIDES = ("", "-wal", "-shm", "-journal")
"""How the names of a database and of the files beside it, which SQLite makes, end."""

BACKUP_SUFFIX = "-kept"
"""What the folder of the copies and of the damaged is called, behind the name of the database."""

_MAGIC = b"SQLite format 3\0"
_OWNER = slice(68, 72)
_SUSPECT = "suspect"
_HALF_MOVED = ".partial"
# A process that moves a database may first read all of it; one that opens it, copy all of it.
_TURN_SECONDS = 60
_LOOK_AGAIN_SECONDS = 0.01
# Whatever the folder of a database is, this file says that it is the one for Leeward's own data.
_OWN_KEY = "audit.key"


def copy(path: Path, version: int) -> Path:
    """Copy a database as it is, what is still in its write-ahead log included; return where to.

    Raises:
        OSError, sqlite3.Error: it could not be copied; no part of a copy stays.
    """
    whole = _free(_folder(path) / f"version-{version}.db")
    partial = whole.with_suffix(".partial")
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        # The copy is of no use in the write-ahead mode of its original: it would need side files.
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")
        _sync(partial)
        partial.rename(whole)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return whole


def set_aside(path: Path) -> Path:
    """Move a damaged database with all its side files out of the way; return where to.

    To be called under `exclusive_lock`. What was begun before a crash is brought to its end, in one place.

    Raises:
        OSError: it could not be moved.
    """
    half = _half_moved(path)
    if half is None:
        stamp = strftime("%Y%m%dT%H%M%SZ", gmtime())
        half = _free(_folder(path) / f"damaged-{stamp}{_HALF_MOVED}")
        half.mkdir(mode=0o700)
    # The log first: beside a new database, SQLite would take it for that one's.
    for end in reversed(SIDES):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(half / (path.name + end))
    return half.rename(_free(half.with_suffix(""))) / path.name


def is_half_moved(path: Path) -> bool:
    """Whether somebody ended in the middle of `set_aside`: what is left of the database is not one."""
    return _half_moved(path) is not None


def is_ours(path: Path) -> bool:
    """Whether a file that cannot be opened was a database of ours, so that it may be moved.

    Its header says so; or the header is gone, and the file lies in the folder of our own data.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_OWNER.stop)
    except OSError:
        return False
    if header.startswith(_MAGIC):
        return header[_OWNER] == APPLICATION_ID.to_bytes(4, "big")
    return is_own_folder(path.parent)


def is_own_folder(folder: Path) -> bool:
    """Whether a folder is the one for Leeward's own data, and no other of the person's."""
    return (folder / _OWN_KEY).is_file()


def suspect(path: Path) -> None:
    """Note that reading or writing a database found it damaged: the next one to open it checks it closely."""
    with suppress(OSError):
        (_folder(path) / _SUSPECT).touch(mode=0o600)


def is_suspect(path: Path) -> bool:
    """Whether a database was found damaged while it was in use."""
    return (_place(path) / _SUSPECT).exists()


def trust(path: Path) -> None:
    """Forget the suspicion: the database was looked at, or set aside."""
    (_place(path) / _SUSPECT).unlink(missing_ok=True)


@contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    """Open or close a database while nobody moves it away.

    Raises:
        OSError: the turn did not come.
    """
    with _turn(path, fcntl.LOCK_SH):
        yield


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Look at a database, move it and begin another while nobody opens or closes it.

    Raises:
        OSError: the turn did not come.
    """
    with _turn(path, fcntl.LOCK_EX):
        yield


@contextmanager
def _turn(path: Path, kind: int) -> Iterator[None]:
    """Hold the lock of the folder: a file made for it would come to lie beside foreign databases, too."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _locked(handle, kind)
        yield
    finally:
        os.close(handle)


def _locked(handle: int, kind: int) -> None:
    """Wait for a lock, but not for ever: the process that holds it may have been stopped."""
    until = monotonic() + _TURN_SECONDS
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > until:
                why = f"another process has locked its folder for {_TURN_SECONDS} s; end it and try again"
                raise OSError(errno.EWOULDBLOCK, why) from None
            sleep(_LOOK_AGAIN_SECONDS)
        else:
            return


def _half_moved(path: Path) -> Path | None:
    return next(_place(path).glob(f"damaged-*{_HALF_MOVED}"), None)


def _place(path: Path) -> Path:
    return path.with_name(path.name + BACKUP_SUFFIX)


def _folder(path: Path) -> Path:
    folder = _place(path)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _free(name: Path) -> Path:
    """Return the name, or one made from it that is not taken."""
    taken, number = name, 1
    while taken.exists():
        number += 1
        taken = name.with_stem(f"{name.stem}-{number}")
    return taken


def _sync(path: Path) -> None:
    """Wait until a file and its entry in its folder are on the disk."""
    for name, flags in ((path, os.O_RDWR), (path.parent, os.O_RDONLY)):
        handle = os.open(name, flags | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
