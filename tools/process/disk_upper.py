"""Hold a run's writes to the workspace in a folder on disk when memory is too small for them.

The folder lies in a private one of the data directory, outside of the workspace, and is locked for as long as
its run lasts: the next process to open the data directory removes only what a killed one left. A
program decides what is in it, so it is removed by handles, without following a link, however deep it lies and
whatever its modes are.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import trio

from leeward.security.lazy import dataclass
from leeward.security.paths import is_inside

__all__ = ["DiskUpper", "remove_abandoned", "room_on_disk"]

_SHARE = 4
"""Kept changes lie there twice, and once more in the workspace."""
_MOST = 16 << 30
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER = stat.S_IRWXU


def room_on_disk(folder: str, workspace: str) -> int:
    """Return how many bytes a run may write on the disk of a folder, 0 where nothing may lie there."""
    if not folder or is_inside(os.path.realpath(folder), workspace):
        return 0
    with suppress(OSError):
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        stats = os.statvfs(folder)
        return min(stats.f_bavail * stats.f_frsize // _SHARE, _MOST)
    return 0


@dataclass(slots=True)
class DiskUpper:
    """A folder of one run: its `path`, and a handle on it that holds the lock."""

    path: str
    _parent: int
    _handle: int

    @classmethod
    def made(cls, folder: str) -> DiskUpper:
        """Make one in a folder.

        Raises:
            OSError: that was not possible.
        """
        with _locked(folder) as parent:
            name = secrets.token_hex(8)
            os.mkdir(name, mode=0o700, dir_fd=parent)
            handle = os.open(name, _FOLDER, dir_fd=parent)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(f"{folder}/{name}", os.dup(parent), handle)

    def close(self) -> None:
        """Remove it, in a thread: there may be much."""
        trio.lowlevel.start_thread_soon(self._removed, lambda _: None)

    def _removed(self) -> None:
        try:
            with suppress(OSError):
                _remove(self._parent, Path(self.path).name, self._handle)
        finally:
            os.close(self._handle)
            os.close(self._parent)


def remove_abandoned(folder: str) -> None:
    """Remove what killed processes left in a folder; this waits for the disk."""
    if not Path(folder).is_dir():
        return
    with suppress(OSError), _locked(folder) as parent:
        for name in os.listdir(parent):  # noqa: PTH208 — a handle
            with suppress(OSError), closing(_Open(os.open(name, _FOLDER, dir_fd=parent))) as one:
                fcntl.flock(one.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(parent, name, one.handle)


@dataclass(slots=True)
class _Open:
    handle: int

    def close(self) -> None:
        os.close(self.handle)


@contextmanager
def _locked(folder: str) -> Iterator[int]:
    """Open a private folder, so that nobody else makes or removes anything in it meanwhile."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(_Open(os.open(folder, _FOLDER))) as parent:
        if os.fstat(parent.handle).st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to somebody else")
        os.fchmod(parent.handle, 0o700)
        fcntl.flock(parent.handle, fcntl.LOCK_EX)
        try:
            yield parent.handle
        finally:
            # Closing would not give it back where the handle was duplicated.
            fcntl.flock(parent.handle, fcntl.LOCK_UN)


def _remove(parent: int, name: str, top: int) -> None:
    """Remove a folder: what lies deep in it is moved to its top first, so that no path becomes long."""
    moved = 0
    while folders := _without_files(top):
        for folder in folders:
            _opened_up(top, folder)
            with closing(_Open(os.open(folder, _FOLDER, dir_fd=top))) as below:
                for inner in _without_files(below.handle):
                    _opened_up(below.handle, inner)
                    moved += 1
                    os.rename(inner, f".{moved}.moved", src_dir_fd=below.handle, dst_dir_fd=top)
            os.rmdir(folder, dir_fd=top)
    os.rmdir(name, dir_fd=parent)


def _without_files(folder: int) -> list[str]:
    """Remove the files in a folder, and return the folders in it."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders


def _opened_up(folder: int, name: str) -> None:
    # A handle that only names something cannot be changed itself, but the way through it can.
    with closing(_Open(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))) as one:
        os.chmod(f"/proc/self/fd/{one.handle}", _OWNER)  # noqa: PTH101 — no path of ours
