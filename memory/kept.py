"""Where does a database go that must not be lost: the copy from before a migration, the damaged file?

Into a folder beside it, closed to everybody else. Nothing in there is ever read, changed or deleted by
this program; it is for a person.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from .schema import APPLICATION_ID

__all__ = [
    "KEPT",
    "SIDES",
    "alone",
    "copy",
    "is_ours",
    "is_own_folder",
    "is_suspect",
    "set_aside",
    "suspect",
    "trust",
]

SIDES = ("", "-wal", "-shm", "-journal")
"""How the names of a database and of the files beside it, which SQLite makes, end."""

KEPT = "-kept"
"""What the folder of the copies and of the damaged is called, behind the name of the database."""

_MAGIC = b"SQLite format 3\0"
_OWNER = slice(68, 72)
_SUSPECT = "suspect"
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

    To be called when `alone`.

    Raises:
        OSError: it could not be moved.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    folder = _free(_folder(path) / f"damaged-{stamp}")
    folder.mkdir(mode=0o700)
    # The log first: beside a new database, SQLite would take it for that one's.
    for end in reversed(SIDES):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(folder / (path.name + end))
    return folder / path.name


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
    """Note that reading or writing a database found it damaged: whoever opens it next looks closely."""
    with suppress(OSError):
        (_folder(path) / _SUSPECT).touch(mode=0o600)


def is_suspect(path: Path) -> bool:
    """Whether a database was found damaged while it was in use."""
    return (_place(path) / _SUSPECT).exists()


def trust(path: Path) -> None:
    """Forget the suspicion: the database was looked at, or set aside."""
    (_place(path) / _SUSPECT).unlink(missing_ok=True)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from moving a database away that this one has begun anew, and the reverse."""
    handle = os.open(_folder(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _place(path: Path) -> Path:
    return path.with_name(path.name + KEPT)


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
    """Wait until a file, and that it stands in its folder, is on the disk."""
    for name, flags in ((path, os.O_RDWR), (path.parent, os.O_RDONLY)):
        handle = os.open(name, flags | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
