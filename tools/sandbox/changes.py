"""Read the changes of a trial run from the upper layer of its overlay.

Every entry of the upper layer is compared with the lower one, which is the workspace. Only the difference
counts, not how it came about: an identical copy or a touched folder is no change. Folders are walked by
handle, and no symlink is followed.

The overlay marks deleted and replaced entries with xattrs (`user.overlay.*`). The kernel escapes marks that a
program sets itself, so these are not mistaken for its own; no such mark is ever kept. What a program made
unreadable is opened by changing its mode in the upper layer, and the mode is restored afterwards. The work is
bounded, and a walk that reaches a bound says so. Everything here blocks.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from leeward.security.outcome import ToolError

from ..checkpoints import Stamp, stamp_of
from ..files import DirHandle

__all__ = ["Change", "ChangeLimits", "Changes", "Entry", "UpperTree", "changes_of"]

_MARKS = "user.overlay."
_OPAQUE = "user.overlay.opaque"
_ORIGIN = "user.overlay.origin"
_PIECE = 1024 * 1024
_UNREADABLE = "what it holds cannot be read, so it could not be put back"
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OWNER = stat.S_IRWXU

# Folders are opened from the top, and paths are held against what lies above them: both take longer, the
# deeper something lies.
_USUAL_DEPTH = 16
_LONGEST_PATH = 4096

FILE_MODE, FOLDER_MODE = 0o777, 0o3777
"""What is kept of a mode: nothing that is kept runs as somebody else."""

_SPECIAL = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    """How many entries are looked at, in upper and lower together, and how many bytes of the upper.

    What lies deep counts for as many entries as it takes steps to get there.
    """

    max_entries: int = 500_000
    max_bytes: int = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry at a path: "file", "folder", "link" or "other"; `mode` is its permissions.

    `digest` is the SHA-256 (hex) of a file that a program wrote, `target` where a link leads. `stamp` is that
    of the path in the workspace; what a program wrote has none.
    """

    kind: str
    mode: int
    size: int = 0
    mtime_ns: int = 0
    digest: str | None = None
    target: bytes | None = None
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One path, relative to the workspace, before and after the run; None is nothing at all.

    `is_mode_only` tells that a file's content is as it was.
    """

    path: str
    before: Entry | None
    after: Entry | None
    is_mode_only: bool = False


@dataclass(frozen=True)
class Changes:
    """What a run changed, sorted by path.

    `conflicts` are paths that somebody else changed in the workspace since the run began. `refused` names
    what is not kept, with the reason: a path that is not among `changes` stays as it is; of one that is, only
    that part is left out. With `is_cut` there was more than the limits let be looked at.
    """

    changes: tuple[Change, ...]
    conflicts: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    is_cut: bool

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over path, kind, mode and content of all changes, before and after."""
        whole = hashlib.sha256()
        for change in self.changes:
            whole.update(_framed(os.fsencode(change.path), *_fields(change.before), *_fields(change.after)))
        return whole.hexdigest()


def _fields(entry: Entry | None) -> tuple[bytes, ...]:
    if entry is None:
        return (b"",)
    held = entry.target if entry.target is not None else (entry.digest or "").encode()
    size = entry.size if entry.kind == "file" else 0
    return entry.kind.encode(), b"%o" % entry.mode, b"%d" % size, held


def _framed(*parts: bytes) -> bytes:
    """Return parts with their lengths, so that no two lists of parts become the same bytes."""
    return b"%d:" % len(parts) + b"".join(b"%d:%s" % (len(part), part) for part in parts)


def changes_of(upper: int, lower: DirHandle, began: int, limits: ChangeLimits | None = None) -> Changes:
    """Return what a run changed, found in its upper while nothing runs in it any more.

    Args:
        upper: a handle on the upper's root; it stays open.
        lower: the workspace's root, opened before the run.
        began: when the run began, on the clock of the workspace's own file system (ns).
        limits: how much work may be done.

    Raises:
        OSError: the upper or the workspace could not be read.
    """
    bounds = limits or ChangeLimits()
    with UpperTree.of(upper) as tree:
        notes, is_cut = _Notes(began, bounds.max_entries), False
        try:
            _Walk(tree, lower, notes, bounds.max_bytes).all()
        except _Cut:
            is_cut = True
    notes.refuse_what_hangs_on_refused()
    return Changes(
        tuple(notes.changes[path] for path in sorted(notes.changes)),
        tuple(sorted(notes.conflicts)),
        tuple(sorted(notes.refused.items())),
        is_cut,
    )


class UpperTree:
    """The upper, readable whatever its modes say; leaving it gives folders the modes back that they had."""

    def __init__(self, root: DirHandle) -> None:
        self._root = root
        self._opened: list[tuple[str, int]] = []

    @classmethod
    @contextmanager
    def of(cls, handle: int) -> Iterator[UpperTree]:
        """Open the upper that a handle leads to; the handle stays open."""
        tree = cls(DirHandle(handle))
        try:
            yield tree
        finally:
            tree._close()

    @contextmanager
    def folder(self, path: str) -> Iterator[DirHandle]:
        """Open a folder for listing."""
        with closing(self._descended(path)) as found:
            mode = stat.S_IMODE(os.fstat(found.handle).st_mode)
            if mode & _OWNER != _OWNER:
                self._opened.append((path, mode))
                _set_mode(found.handle, mode | _OWNER)
            with closing(DirHandle(found.listing())) as listed:
                yield listed

    def open_file(self, folder: DirHandle, name: str) -> int:
        """Open a file for reading and return its descriptor."""
        try:
            return os.open(name, READ, dir_fd=folder.handle)
        except PermissionError:
            handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.handle)
        try:
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
            _set_mode(handle, mode | stat.S_IRUSR)
            try:
                return os.open(name, READ, dir_fd=folder.handle)
            finally:
                _set_mode(handle, mode)
        finally:
            os.close(handle)

    def _descended(self, path: str) -> DirHandle:
        try:
            return self._root.descend(path)
        except PermissionError:
            for end in (at for at, c in enumerate(path) if c == "/"):
                with self.folder(path[:end]):
                    pass
            return self._root.descend(path)

    def _close(self) -> None:
        # Those below first: what lies above has to be open for that.
        while self._opened:
            path, mode = self._opened.pop()
            with suppress(OSError, ToolError), closing(self._root.descend(path)) as found:
                _set_mode(found.handle, mode)


def _set_mode(handle: int, mode: int) -> None:
    # A handle that only names something cannot be changed itself, but the way through it can.
    os.chmod(f"/proc/self/fd/{handle}", mode)  # noqa: PTH101 — no path of ours


class _Cut(Exception):
    """A limit is reached."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A name in a folder of the upper, and what has the same name in the workspace.

    `lower` is None where the folder is not one of the workspace's, `found` where nothing has the name.
    """

    path: str
    name: str
    upper: DirHandle
    lower: DirHandle | None
    status: os.stat_result
    found: os.stat_result | None

    @property
    def kind(self) -> int:
        """What a program left there, as the format bits of a mode."""
        return stat.S_IFMT(self.status.st_mode)

    @property
    def is_whiteout(self) -> bool:
        """Whether the name was removed; nobody but the overlay can make such a device."""
        return self.kind == stat.S_IFCHR and self.status.st_rdev == 0

    @property
    def is_merged(self) -> bool:
        """Whether it is a folder in both."""
        return self.kind == stat.S_IFDIR and self.found is not None and stat.S_ISDIR(self.found.st_mode)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of the upper: whether it is one of the workspace, too, or lies in one, or was made anew."""

    path: str
    is_in_both: bool
    is_among_both: bool = False
    is_anew: bool = False


@dataclass(slots=True)
class _Notes:
    """What a walk found so far, and how many entries it may still look at."""

    began: int
    entries: int
    changes: dict[str, Change] = field(default_factory=dict)
    conflicts: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    unchanged: set[str] = field(default_factory=set)
    """Paths that are refused as a whole."""

    def gone(self, lower: DirHandle, name: str, path: str, found: os.stat_result) -> None:
        """Note that a path of the workspace was removed, with all that lies below."""
        self.count(path)
        self.touch(path, found)
        if (special := _SPECIAL.get(stat.S_IFMT(found.st_mode))) is not None:
            self.refuse(path, f"{special} could not be put back, so it is not removed", unchanged=True)
            return
        self.changes[path] = Change(path, _standing(lower, name, found), None)
        if stat.S_ISDIR(found.st_mode):
            self.gone_below(lower, name, path)

    def gone_below(self, lower: DirHandle, name: str, path: str) -> None:
        """Note that all below a folder of the workspace was removed, or is hidden by what took its place."""
        # Each is opened from the same folder: a path of any depth takes one handle.
        waiting = [name]
        for inner in waiting:
            outer = path + inner[len(name) :]
            try:
                with closing(lower.descend(inner)) as folder, folder.entries() as entries:
                    names = (self._gone_in(folder, entry, outer) for entry in entries)
                    waiting += [f"{inner}/{name}" for name in names if name]
            except PermissionError:
                self.changes.pop(outer, None)
                self.refuse(outer, _UNREADABLE, unchanged=True)

    def _gone_in(self, folder: DirHandle, entry: os.DirEntry[str], outer: str) -> str:
        """Note one entry of a folder that is gone, and return its name where it is a folder itself."""
        found, path = entry.stat(follow_symlinks=False), f"{outer}/{entry.name}"
        if not stat.S_ISDIR(found.st_mode):
            self.gone(folder, entry.name, path, found)
            return ""
        self.count(path)
        self.touch(path, found)
        self.changes[path] = Change(path, _standing(folder, entry.name, found), None)
        return entry.name

    def touch(self, path: str, found: os.stat_result) -> None:
        """Note a conflict where somebody else changed a path that the program changed."""
        if found.st_ctime_ns >= self.began:
            self.conflicts.add(path)

    def count(self, path: str) -> None:
        """Count one entry, and the steps to it where it lies deep.

        Raises:
            _Cut: it is one too many, or its path is longer than the kernel takes one.
        """
        self.entries -= 1 + max(0, path.count("/") - _USUAL_DEPTH)
        if self.entries < 0 or len(path) > _LONGEST_PATH:
            raise _Cut

    def refuse(self, path: str, why: str, *, unchanged: bool = False) -> None:
        """Name what is not kept; with `unchanged` nothing of that path is."""
        self.refused[path] = f"{self.refused[path]}; {why}" if path in self.refused else why
        if unchanged:
            self.unchanged.add(path)

    def refuse_what_hangs_on_refused(self) -> None:
        """Refuse what cannot be done without what is refused: folders stay filled, names stay taken."""
        for above in {above for path in self.unchanged for above in _above(path)}:
            change = self.changes.get(above)
            if change is not None and _is_folder(change.before) and not _is_folder(change.after):
                del self.changes[above]
                self.refuse(above, "it holds what is not removed", unchanged=True)
        for path in [path for path in self.changes if not self.unchanged.isdisjoint(_above(path))]:
            if self.changes[path].after is not None:
                del self.changes[path]
                self.refuse(path, "what it lies in is not kept", unchanged=True)


@dataclass(slots=True)
class _Walk:
    """One walk through an upper, and how many bytes of it may still be read."""

    tree: UpperTree
    lower: DirHandle
    notes: _Notes
    bytes: int

    def all(self) -> None:
        """Walk the whole upper."""
        waiting = [_Folder("", is_in_both=True)]
        while waiting:
            folder = waiting.pop()
            with self.tree.folder(folder.path) as upper:
                if folder.is_in_both:
                    with closing(self.lower.descend(folder.path)) as lower:
                        waiting += self._merged(folder, upper, lower)
                else:
                    self._look_at_attributes(upper.handle, None, folder.path, is_new=folder.is_among_both)
                    waiting += self._children(folder, upper, None, set())

    def _merged(self, folder: _Folder, upper: DirHandle, lower: DirHandle) -> list[_Folder]:
        """Compare a folder that is in both; return the folders in it."""
        self._look_at_folder(folder.path, upper, lower)
        # What lies in a folder that was made anew hides the lower as well, and has no mark of its own.
        is_anew = folder.is_anew or _mark(upper.handle, _OPAQUE) == b"y"
        names: set[str] = set()
        below = self._children(folder, upper, lower, names)
        if is_anew:
            self._hidden(folder.path, lower, names)
        return [replace(one, is_anew=is_anew) for one in below]

    def _children(
        self, folder: _Folder, upper: DirHandle, lower: DirHandle | None, names: set[str]
    ) -> list[_Folder]:
        """Compare what lies in one folder, gather the names, and return the folders in it."""
        folders: list[_Folder] = []
        with upper.entries() as entries:
            for entry in entries:
                path = _joined(folder.path, entry.name)
                self.notes.count(path)
                names.add(entry.name)
                found = None if lower is None else _stat(lower, entry.name)
                status = entry.stat(follow_symlinks=False)
                place = _Place(path, entry.name, upper, lower, status, found)
                if not place.is_whiteout:
                    self._compare(place)
                elif lower is not None and found is not None:
                    self.notes.gone(lower, entry.name, place.path, found)
                if place.kind == stat.S_IFDIR:
                    below = _Folder(place.path, is_in_both=place.is_merged, is_among_both=lower is not None)
                    folders.append(below)
        return folders

    def _hidden(self, path: str, lower: DirHandle, names: set[str]) -> None:
        """Note what a folder held that was removed and made anew."""
        with lower.entries() as entries:
            for entry in entries:
                if entry.name not in names:
                    found = entry.stat(follow_symlinks=False)
                    self.notes.gone(lower, entry.name, _joined(path, entry.name), found)

    def _look_at_folder(self, path: str, upper: DirHandle, lower: DirHandle) -> None:
        """See what the times and the marks of a folder say that is in both."""
        found = os.fstat(lower.handle)
        if not path:
            if stat.S_IMODE(os.fstat(upper.handle).st_mode) != stat.S_IMODE(found.st_mode):
                self.notes.refuse(".", "the mode of the workspace's own folder is not changed")
        elif found.st_ctime_ns >= self.notes.began > found.st_mtime_ns:
            # It was put in the place of the one that the program saw: a rename sets the time of change
            # alone. An entry that comes or goes sets both, and is no conflict.
            self.notes.conflicts.add(path)
        self._look_at_attributes(upper.handle, f"/proc/self/fd/{lower.handle}/.", path or ".")

    def _compare(self, place: _Place) -> None:
        """Compare what a program left at a path with the workspace."""
        standing = _SPECIAL.get(stat.S_IFMT(place.found.st_mode)) if place.found is not None else None
        if place.kind in _SPECIAL:
            self.notes.refuse(place.path, f"{_SPECIAL[place.kind]} is never kept", unchanged=True)
        elif standing is not None:
            self.notes.refuse(place.path, f"{standing} is there and could not be put back", unchanged=True)
        elif place.kind == stat.S_IFREG:
            self._compare_file(place)
        elif place.kind == stat.S_IFDIR:
            self._changed(place, Entry("folder", self._kept_mode(place, FOLDER_MODE)))
        else:
            target = os.fsencode(os.readlink(place.name, dir_fd=place.upper.handle))
            self._changed(place, Entry("link", 0, target=target))

    def _compare_file(self, place: _Place) -> None:
        found = place.found if place.found is not None and stat.S_ISREG(place.found.st_mode) else None
        descriptor = self.tree.open_file(place.upper, place.name)
        try:
            digest, is_same = self._read(descriptor, place, found)
            below = None if place.lower is None else f"/proc/self/fd/{place.lower.handle}/{place.name}"
            is_new = place.found is None and self._is_busy(place.lower)
            old = None if found is None else below
            self._look_at_attributes(descriptor, old, place.path, is_new=is_new)
        except _Unreadable:
            self.notes.refuse(place.path, _UNREADABLE, unchanged=True)
            return
        finally:
            os.close(descriptor)
        before = None if found is None else stat.S_IMODE(found.st_mode)
        if is_same and before == stat.S_IMODE(place.status.st_mode):
            return
        mode = self._kept_mode(place, FILE_MODE)
        if is_same and before == mode:
            return
        is_linked = found is not None and found.st_nlink > 1
        if found is not None and is_linked:
            many = found.st_nlink - 1
            self.notes.refuse(place.path, f"hard link: {many} other name(s) of this file keep what they held")
        status = place.status
        after = Entry("file", mode, status.st_size, status.st_mtime_ns, digest)
        self._changed(place, after, is_mode_only=is_same and not is_linked)

    def _changed(self, place: _Place, after: Entry, *, is_mode_only: bool = False) -> None:
        if place.lower is None or place.found is None:
            self.notes.changes[place.path] = Change(place.path, None, after)
            return
        before = _standing(place.lower, place.name, place.found)
        is_like = (before.kind, before.mode, before.target) == (after.kind, after.mode, after.target)
        if is_like and after.kind != "file":
            return
        self.notes.touch(place.path, place.found)
        self.notes.changes[place.path] = Change(place.path, before, after, is_mode_only)
        if before.kind == "folder" != after.kind:
            self.notes.gone_below(place.lower, place.name, place.path)

    def _read(self, written: int, place: _Place, found: os.stat_result | None) -> tuple[str, bool]:
        """Return the digest of what a program wrote, and whether the workspace already has it."""
        self.bytes -= place.status.st_size
        if self.bytes < 0:
            raise _Cut
        if place.lower is None or found is None or found.st_size != place.status.st_size:
            return _digest(written, None)
        try:
            standing = os.open(place.name, READ, dir_fd=place.lower.handle)
        except PermissionError:
            raise _Unreadable from None
        try:
            return _digest(written, standing)
        finally:
            os.close(standing)

    def _kept_mode(self, place: _Place, mask: int) -> int:
        mode = stat.S_IMODE(place.status.st_mode)
        if mode & ~mask:
            self.notes.refuse(
                place.path, f"what runs as somebody else: of its mode {mode:o}, {mode & mask:o} is kept"
            )
        return mode & mask

    def _look_at_attributes(self, written: int, old: str | None, path: str, *, is_new: bool = False) -> None:
        """Name attributes that are not kept, and find what was copied from a path that is gone by now."""
        names = os.listxattr(written)
        if is_new and _ORIGIN in names:
            self.notes.conflicts.add(path)
        foreign = sorted(name for name in names if not name.startswith(_MARKS))
        if foreign and old is not None:
            had = _attributes(old)
            foreign = [name for name in foreign if had.get(name) != os.getxattr(written, name)]
        if foreign:
            self.notes.refuse(path, f"extended attributes are not kept: {', '.join(foreign)}")

    def _is_busy(self, lower: DirHandle | None) -> bool:
        """Whether something came to a folder of the workspace, or went, since the run began.

        A file that was copied from one that is gone was moved by a program, or somebody else removed it.
        """
        return lower is not None and os.fstat(lower.handle).st_mtime_ns >= self.notes.began


class _Unreadable(Exception):
    """The workspace's own entry may not be read."""


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _above(path: str) -> Iterator[str]:
    return (path[:at] for at, c in enumerate(path) if c == "/")


def _is_folder(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "folder"


def _stat(folder: DirHandle, name: str) -> os.stat_result | None:
    """Return what has a name in the workspace; a name that its file system cannot hold is nothing there."""
    try:
        return folder.stat(name)
    except OSError as error:
        if error.errno in {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL}:
            return None
        raise


def _standing(folder: DirHandle, name: str, found: os.stat_result) -> Entry:
    """Return the entry at a path of the workspace."""
    mode, stamp = stat.S_IMODE(found.st_mode), stamp_of(found)
    if stat.S_ISDIR(found.st_mode):
        return Entry("folder", mode, stamp=stamp)
    if stat.S_ISLNK(found.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder.handle))
        return Entry("link", 0, target=target, stamp=stamp)
    return Entry("file", mode, found.st_size, found.st_mtime_ns, stamp=stamp)


def _mark(handle: int, name: str) -> bytes | None:
    try:
        return os.getxattr(handle, name)
    except OSError as error:
        if error.errno in {errno.ENODATA, errno.ENOTSUP}:
            return None
        raise


def _attributes(path: str) -> dict[str, bytes]:
    """Return the attributes of what a path leads to; what may not be read has none."""
    found: dict[str, bytes] = {}
    with suppress(OSError):
        for name in os.listxattr(path, follow_symlinks=False):
            found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


def _digest(written: int, standing: int | None) -> tuple[str, bool]:
    """Return the digest of a file, and whether another one holds the same."""
    whole, is_same = hashlib.sha256(), standing is not None
    while piece := os.read(written, _PIECE):
        whole.update(piece)
        is_same = is_same and standing is not None and _holds(standing, piece)
    return whole.hexdigest(), is_same


def _holds(standing: int, piece: bytes) -> bool:
    """Whether the rest of a file begins with these bytes."""
    left = memoryview(piece)
    while left:
        read = os.read(standing, len(left))
        if not read or left[: len(read)] != read:
            return False
        left = left[len(read) :]
    return True
