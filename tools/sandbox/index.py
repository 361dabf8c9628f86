"""Remember which folders hold secret or protected files, so that a scan need not visit the whole tree.

The kernel reports every change of names in a watched folder (inotify). Before each look all pending reports
are read, so nothing that happened before is missed. Only names are remembered. What depends on a file's
content, its mode or the target of a link is read again, by the code of a full scan. Where the reports may be
incomplete, the whole tree is scanned.

1. A folder is watched before it is listed, and after its parent. If a part of the path is replaced meanwhile,
   this is reported, and the folder is dropped and listed again.
2. A folder that was moved, deleted, replaced or given other rights is dropped, with everything below it.
3. A look gives its answer when no report is left to read. If reports keep coming, it gives up after a bounded
   number of rounds, and the whole tree is scanned.
"""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from leeward.security.lazy import dataclass
from leeward.security.paths import is_inside

from .. import linux
from ..linux import Notice
from ..process import mounts
from .scan import ScanResult, WorkspaceScan, is_too_much

__all__ = ["SecretIndex"]

# File systems that only this kernel changes, so that it can tell of each change. Of a network's, a FUSE
# one's or the layers of an overlay others change something unseen.
_TOLD = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"})
_MOST_WATCHES = "/proc/sys/fs/inotify/max_user_watches"
# The rest of what the person may watch is for editors and for other sessions.
_SHARE = 4
_ROUNDS = 20  # of listing what changed while it was listed
_LONGEST_REST = 64  # looks, at most, that are whole scans before an index is tried again
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP})


class _DoubtError(Exception):
    """What is known may not be what is there."""


class _UnwatchedError(Exception):
    """Watches cannot be had for all folders; the message says why."""


@dataclass(slots=True)
class _Folder:
    """A folder that is watched: how deep it lies below what is looked at, and what it held."""

    watch: int
    depth: int
    entries: int = 0
    folders: frozenset[str] = frozenset()


@dataclass(slots=True)
class SecretIndex:
    """What a scan finds, without looking at all of it each time.

    `unused_because` tells why each look is a scan of the whole tree, and is empty where it is not. Looks of
    several threads take turns. `close` gives the watches back; a look after that begins anew.
    """

    scan: WorkspaceScan
    unused_because: str = ""
    _queue: int = -1
    _folders: dict[str, _Folder] = field(default_factory=dict)
    _paths: dict[int, str] = field(default_factory=dict)
    _noted: set[str] = field(default_factory=set)
    _unlisted: dict[str, int] = field(default_factory=dict)
    _dirty: set[str] = field(default_factory=set)
    _entries: int = 0
    _grounds: object = None
    _rest: int = 0
    _failures: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> ScanResult:
        """Return what a scan would find now; this waits for the disk."""
        with self._lock:
            return self.scan.look(folders=self._current())

    @property
    def watched(self) -> int:
        """How many folders are watched."""
        return len(self._folders)

    def close(self) -> None:
        """Forget everything and give the watches back."""
        with self._lock:
            self._forget()

    def _current(self) -> list[str] | None:
        """Return the folders in which something is to be noted, the shallow ones first; None for all."""
        if self._rest:
            self._rest -= 1
            return None
        tops = (*self.scan.roots, *self.scan.read_only)
        try:
            grounds = _grounds(tops)
            if grounds != self._grounds:
                self._forget()
            try:
                self._follow(tops)
            except _DoubtError:
                # Begun anew, it is what a scan finds.
                self._forget()
                self._follow(tops)
            if _grounds(tops) != grounds:
                raise _DoubtError("what is looked at was replaced")
        except (_DoubtError, _UnwatchedError, OSError) as error:
            self._forget()
            self.unused_because = str(error)
            # Beginning anew costs as much as a scan, so it is not repeated while it cannot succeed.
            self._rest = min(2**self._failures, _LONGEST_REST) - 1
            self._failures += 1
            return None
        self._grounds, self.unused_because, self._failures = grounds, "", 0
        depths = {path: self._folders[path].depth for path in self._noted} | self._unlisted
        return sorted(depths, key=lambda path: (depths[path], path))

    def _follow(self, tops: tuple[str, ...]) -> None:
        """Make what is known what is there.

        Raises:
            _DoubtError: that is unknown.
            _UnwatchedError: what is there cannot be watched.
        """
        if self._queue < 0:
            self._queue = linux.open_notices()
            self._add((path, 0) for path in tops)
        for _ in range(_ROUNDS):
            # What could not be listed is not watched, so nothing tells when it can be.
            again, self._unlisted = self._unlisted, {}
            self._add(again.items())
            if not self._read_notices():
                return
            dirty, self._dirty = self._dirty, set()
            for path in sorted(dirty):
                if path in self._folders:
                    self._list(path)
        raise _DoubtError("the tree changes all the time")

    def _read_notices(self) -> bool:
        """Take in the kernel's reports; return whether something has to be listed anew."""
        stale: set[str] = set()
        for watch, notice, name in linux.pending_notices(self._queue):
            if notice & (Notice.OVERFLOW | Notice.UNMOUNT):
                raise _DoubtError("more changed than the kernel can queue")
            folder = self._paths.get(watch)
            if folder is None:
                continue
            if not name:
                stale.add(folder)
            elif notice & Notice.IS_FOLDER or not notice & Notice.ATTRIB:
                self._dirty.add(folder)
                stale.add(posixpath.join(folder, name))
        for path in sorted(stale):
            if path in self._folders:
                if not self._folders[path].depth:
                    raise _DoubtError("what is looked at was moved")
                self._drop(path)
                self._dirty.add(posixpath.dirname(path))
        self._dirty = {path for path in self._dirty if path in self._folders}
        return bool(self._dirty)

    def _add(self, paths: Iterable[tuple[str, int]]) -> None:
        """Watch and list folders, each with its depth, and all below them."""
        waiting = list(paths)
        for path, depth in waiting:
            if path in self._folders:
                continue
            try:
                watch = linux.watch_folder(self._queue, path)
            except OSError as error:
                self._leave(path, depth, error)
                continue
            if watch in self._paths:
                raise _DoubtError("a folder was found in two places")
            self._folders[path] = _Folder(watch, depth)
            self._paths[watch] = path
            if len(self._folders) > _most_watches():
                raise _UnwatchedError("there are more folders than may be watched")
            waiting += ((folder, depth + 1) for folder in self._listed(path))

    def _leave(self, path: str, depth: int, error: OSError) -> None:
        """Note a folder that cannot be watched: it cannot be listed either, or it is no folder any more."""
        if error.errno not in _ABSENT:
            raise _UnwatchedError(f"a folder cannot be watched: {error.strerror}") from error
        if _can_be_listed(path):
            raise _DoubtError("a folder can be listed and not be watched")
        self._unlisted[path] = depth

    def _list(self, path: str) -> None:
        """List a folder of which something changed, and add and drop what lies below it."""
        known, depth = self._folders[path].folders, self._folders[path].depth
        found = self._listed(path)
        for folder in known - found:
            self._drop(folder)
        self._add((folder, depth + 1) for folder in sorted(found))

    def _listed(self, path: str) -> frozenset[str]:
        """List a watched folder, and return the folders in it to look into as well."""
        folder = self._folders[path]
        entries: list[os.DirEntry[str]] = []
        folders: list[str] = []
        try:
            with os.scandir(path) as found:
                entries = list(found)
        except OSError as error:
            # Its own watch tells when it may be listed again, or that it is gone.
            if error.errno not in _ABSENT:
                raise _DoubtError(f"a folder cannot be listed: {error.strerror}") from error
            self._noted.add(path)
        else:
            is_noted, folders = self.scan.surveyed(path, entries)
            (self._noted.add if is_noted else self._noted.discard)(path)
        self._entries += len(entries) - folder.entries
        if is_too_much(self._entries):
            raise _UnwatchedError("the tree is too large to be looked at whole")
        folder.entries, folder.folders = len(entries), frozenset(folders)
        return folder.folders

    def _drop(self, path: str) -> None:
        """Forget a folder and all below it."""
        waiting = [path]
        for one in waiting:
            self._noted.discard(one)
            self._unlisted.pop(one, None)
            folder = self._folders.pop(one, None)
            if folder is not None:
                self._entries -= folder.entries
                del self._paths[folder.watch]
                linux.unwatch(self._queue, folder.watch)
                waiting += folder.folders

    def _forget(self) -> None:
        if self._queue >= 0:
            os.close(self._queue)
        self._queue, self._entries, self._grounds = -1, 0, None
        for kept in (self._folders, self._paths, self._noted, self._unlisted, self._dirty):
            kept.clear()


@lru_cache(maxsize=1)
def _most_watches() -> int:
    return int(Path(_MOST_WATCHES).read_bytes()) // _SHARE


def _can_be_listed(path: str) -> bool:
    try:
        os.scandir(path).close()
    except OSError:
        return False
    return True


def _grounds(tops: tuple[str, ...]) -> object:
    """Return what the watches rest on: with another user, mount or folder at the top they are worth nothing.

    Raises:
        _UnwatchedError: something may change there that the kernel does not tell.
    """
    mounted, below = tuple(mounts("/proc/self/mountinfo")), []
    for top in tops:
        kind = "an unknown file system"
        for mount in mounted:
            _, _, place, its_kind = mount
            if is_inside(top, place):
                around, kind = mount, its_kind
            elif is_inside(place, top):
                raise _UnwatchedError(f"another file system is mounted at {place}")
        if kind not in _TOLD:
            raise _UnwatchedError(f"{kind} does not tell of every change")
        below.append(around)
    return os.geteuid(), os.getegid(), tuple(os.getgroups()), tuple(below), tuple(map(_identity, tops))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 — a text
    except OSError:
        return None
    return found.st_dev, found.st_ino
