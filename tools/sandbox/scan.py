"""Scan the workspace before a program runs, for what it must not reach, and afterwards for what it left.

Both scans look for git's hooks and settings, `.leeward`, protected paths, secrets, the sockets of running
services, and FIFOs where a command may only read. `security/sandbox/tampering.py` decides what may stay.
`quarantine.py` moves the rest aside, and restores what was changed. Folders of installed packages are not
scanned: a program that may write there can change what the packages do anyway.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass, regex
from leeward.security.paths import is_inside, protected_places, secret_places, secret_reason
from leeward.security.sandbox import HOOK_NAMES, Confinement, Mark, MarkKind, Masks, Role, Spot, places_named

from .quarantine import open_up

if TYPE_CHECKING:
    from leeward.security.policy import Policy

__all__ = ["ScanResult", "WorkspaceScan", "is_too_much", "scan_for", "several_names"]

_PACKAGES = frozenset({"node_modules", "site-packages", "dist-packages", "__pycache__"})
# What git takes for a repository; where `commondir` says so, objects and refs lie elsewhere.
_REPOSITORY = frozenset({"head", "objects", "refs"})
_PART = frozenset({"head", "commondir"})
_SETTINGS = ("config", "config.worktree")
_GIT, _OURS = ".git", ".leeward"
_REF_PLACE = regex(r"/\.git/(?:.+/)?(?:refs|logs)/")
_REF = regex(rb"[0-9a-f]{40}")
_SMALL = 256 * 1024  # bytes of a file whose content is kept, so that it can be restored
_DIGESTED = 8 * 1024 * 1024  # bytes of a file that is compared by its hash; a larger one by size and time
_PATH_ALONE = getattr(os, "O_PATH", os.O_RDONLY)
_MOST = 200_000
"""Entries that are looked at; the shallow ones come first."""
_MOST_SECRET = 20_000


@dataclass(slots=True)
class ScanResult:
    """What was found. `is_whole` tells that nothing was too much to look at.

    `closed` is what could not, or was not to, be looked into before, of what is looked at after a command;
    None before one.
    """

    marks: dict[str, Mark] = field(default_factory=dict)
    secrets: list[Spot] = field(default_factory=list)
    repositories: list[str] = field(default_factory=list)
    is_whole: bool = True
    closed: frozenset[str] | None = None

    def masks(
        self, kept: Iterable[str] = (), held: AbstractSet[str] | None = None, *, lasting: bool = False
    ) -> Masks:
        """Return what a program must not reach; `kept` are further paths that stay as they are.

        Args:
            kept: what is not changed wherever it lies.
            held: what all programs that run already are kept from moving; None where none runs. Anything
                else may be another one by the time it is mounted, so it is compared afterwards alone.
            lasting: others will start while this one runs, so it must not move what is hidden from them.
        """
        unwritable = [
            Spot(path, mark.kind is MarkKind.FOLDER)
            for path, mark in self.marks.items()
            if mark.kind in {MarkKind.FILE, MarkKind.FOLDER} and _is_mounted(mark)
        ]
        put_back = frozenset(path for path, mark in self.marks.items() if mark.role is not Role.PROTECTED)
        further = (_spot(path) for path in kept)
        shut = (*unwritable, *(spot for spot in further if spot is not None))
        anchored = (spot.path for spot in self.secrets if lasting)
        return Masks(
            tuple(self.secrets),
            tuple(spot for spot in shut if held is None or spot.path in held),
            put_back,
            frozenset(path for path in anchored if held is None or path in held),
        )


def _is_mounted(mark: Mark) -> bool:
    """Whether a mark is masked for itself: a repository's folder is not, nor what lies in a masked one."""
    is_open = mark.role is Role.REPOSITORY and mark.kind is MarkKind.FOLDER
    return not is_open and not mark.is_inner


@dataclass(frozen=True, slots=True)
class WorkspaceScan:
    """What to look for: everything below `roots`, secrets alone below `read_only`, and single places.

    `is_secret` says of an absolute path whether its contents are, `linked` are the device and inode of
    secret files elsewhere that have several names.
    """

    roots: tuple[str, ...]
    read_only: tuple[str, ...]
    places: tuple[str, ...]
    secret_places: tuple[str, ...]
    is_secret: Callable[[str], bool]
    linked: frozenset[tuple[int, int]] = frozenset()

    def look(self, before: ScanResult | None = None, folders: Sequence[str] | None = None) -> ScanResult:
        """Return what is there now; this waits for the disk.

        With what there was `before` a command secrets are left alone, and a folder that it closed is opened.
        With `folders` only those are looked into; nothing is to be noted of any other (`surveyed`).
        """
        seen = ScanResult()
        if before is not None:
            seen.closed = frozenset(spot.path for spot in before.secrets)
        for path in self.places:
            if is_inside(path, *self.roots) and Path(path).name not in {_GIT, _OURS}:
                _mark(seen, path, Role.PROTECTED)
        if folders is None:
            self._walk(seen)
        else:
            for folder in folders:
                self.look_into(folder, _entries(folder, seen), seen)
        if before is None:
            seen.secrets += (spot for spot in map(_spot, self.secret_places) if spot is not None)
            linked = self.linked | several_names(spot.path for spot in seen.secrets)
            if linked:
                seen.secrets += self._named(linked)
        return seen

    def _walk(self, seen: ScanResult) -> None:
        waiting, left = [*self.roots, *(self.read_only if seen.closed is None else ())], _MOST
        for folder in waiting:
            entries = _entries(folder, seen)
            left -= len(entries)
            if left < 0:
                seen.is_whole = False
                break
            waiting += self.look_into(folder, entries, seen)

    def _named(self, linked: AbstractSet[tuple[int, int]]) -> Iterator[Spot]:
        """Yield the files in the open that are a secret one by another name (a hard link)."""
        numbers = {inode for _, inode in linked}
        for entry in islice(_below((*self.roots, *self.read_only)), _MOST):
            if entry.inode() in numbers and not entry.is_symlink() and not self.is_secret(entry.path):
                with suppress(OSError):
                    if _identity(os.lstat(entry.path)) in linked:
                        yield Spot(entry.path, is_folder=False)

    def look_into(self, folder: str, entries: Sequence[os.DirEntry[str]], seen: ScanResult) -> list[str]:
        """Note what a folder holds, and return the folders in it to look into as well."""
        is_marked = is_inside(folder, *self.roots)
        if is_marked and _is_repository(folder, entries):
            _mark_repository(seen, folder)
            self._mark_named(seen, folder)
        deeper = []
        for entry in entries:
            if is_marked and entry.name.casefold() == _OURS:
                _mark_all(seen, entry.path, Role.OURS)
                continue
            if is_marked and entry.name.casefold() == _GIT:
                _mark(seen, entry.path, Role.REPOSITORY)
            if seen.closed is None and self._is_hidden(entry, is_writable=is_marked):
                seen.secrets.append(Spot(entry.path, entry.is_dir(follow_symlinks=False)))
            elif _is_looked_into(entry):
                deeper.append(entry.path)
        return deeper

    def surveyed(self, folder: str, entries: Sequence[os.DirEntry[str]]) -> tuple[bool, list[str]]:
        """Return whether anything is to be noted of a folder, and the folders in it to look into as well.

        Of a folder of which this is false nothing is noted as long as it holds the same names, whatever
        becomes of the files in it.
        """
        if _is_repository(folder, entries) or any(map(self._is_noted, entries)):
            return True, self.look_into(folder, entries, ScanResult())
        return False, [entry.path for entry in entries if _is_looked_into(entry)]

    def _is_noted(self, entry: os.DirEntry[str]) -> bool:
        if entry.name.casefold() in {_GIT, _OURS}:
            return True
        if entry.is_symlink():
            return False
        is_plain = entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
        return not is_plain or self.is_secret(entry.path)

    def _mark_named(self, seen: ScanResult, folder: str) -> None:
        """Note what a repository's settings say that git obeys elsewhere in the open."""
        settings = seen.marks.get(f"{folder}/{_SETTINGS[0]}")
        content = settings.content if settings is not None else None
        hooks, files = places_named(content or b"")
        # Git reads the first from the top of the working tree, the others from where the settings lie.
        top = posixpath.dirname(folder) if posixpath.basename(folder).casefold() == _GIT else folder
        named = [f"{one}/{name}" for one in hooks for name in HOOK_NAMES]
        named += (path for path in (f"{folder}/hooks/{name}" for name in HOOK_NAMES) if _is_link(seen, path))
        for base, role, names in ((top, Role.HOOK, named), (folder, Role.SETTINGS, files)):
            for path in (os.path.realpath(posixpath.join(base, name)) for name in names):
                if is_inside(path, *self.roots) and path not in seen.marks:
                    _mark(seen, path, role, folder)

    def _is_hidden(self, entry: os.DirEntry[str], *, is_writable: bool) -> bool:
        if entry.is_symlink():
            return False
        if self.is_secret(entry.path):
            return not _is_ref(entry.path)
        is_plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
        return not is_plain and _leads_outside(entry, is_writable=is_writable)


def _is_repository(folder: str, entries: Iterable[os.DirEntry[str]]) -> bool:
    """Whether git may take a folder for a repository.

    One that is called so is looked into even if it is none yet: a part of it may be put there later.
    """
    if posixpath.basename(folder).casefold() == _GIT:
        return True
    names = {entry.name.casefold() for entry in entries}
    return names >= _REPOSITORY or names >= _PART


def _is_looked_into(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.name not in _PACKAGES


def is_too_much(entries: int) -> bool:
    """Whether so many entries are more than is looked at."""
    return entries > _MOST


def several_names(paths: Iterable[str]) -> frozenset[tuple[int, int]]:
    """Return the device and inode of the files at some paths, or below, that have several names."""
    found: set[tuple[int, int]] = set()
    for path in paths:
        for one in (path, *(entry.path for entry in islice(_below((path,)), _MOST_SECRET))):
            with suppress(OSError):
                status = os.lstat(one)
                if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                    found.add(_identity(status))
    return frozenset(found)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _below(folders: Iterable[str]) -> Iterator[os.DirEntry[str]]:
    waiting = list(folders)
    for folder in waiting:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _is_link(seen: ScanResult, hook: str) -> bool:
    """Whether a hook, or the folder of hooks, was noted as a link."""
    either = (seen.marks.get(path) for path in (hook, posixpath.dirname(hook)))
    return any(mark is not None and mark.kind is MarkKind.LINK for mark in either)


def _is_ref(path: str) -> bool:
    """Whether a file is one by which git remembers where a branch is, whatever the branch is called."""
    if not _REF_PLACE.search(path):
        return False
    try:
        with Path(path).open("rb") as file:
            return _REF.fullmatch(file.read(40)) is not None
    except OSError:
        return False


def _entries(folder: str, seen: ScanResult) -> list[os.DirEntry[str]]:
    """Return what a folder holds; one that may not be listed hides what is in it, which is no way out."""
    try:
        return _listed(folder)
    except PermissionError:
        if seen.closed is None:
            seen.secrets += [Spot(folder, is_folder=True)] if _is_in_reach(folder) else []
        elif not is_inside(folder, *seen.closed) and _opened_up(folder):
            with suppress(OSError):
                return _listed(folder)
    except OSError:
        pass
    return []


def _is_in_reach(folder: str) -> bool:
    """Whether what lies in a folder that may not be listed can be come by: opened, or known by its name."""
    try:
        is_ours = os.lstat(folder).st_uid == os.geteuid()
    except OSError:
        return True
    return is_ours or os.access(folder, os.X_OK, effective_ids=True)


def _listed(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


def _opened_up(folder: str) -> bool:
    try:
        handle = os.open(folder, _PATH_ALONE | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return open_up(handle)
    finally:
        os.close(handle)


def _leads_outside(entry: os.DirEntry[str], *, is_writable: bool) -> bool:
    """Whether it is a socket, or a FIFO in what is only read: it can be written to on a read-only mount."""
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISSOCK(mode) or (stat.S_ISFIFO(mode) and not is_writable)


def _spot(path: str) -> Spot | None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    return None if stat.S_ISLNK(mode) else Spot(path, stat.S_ISDIR(mode))


def scan_for(policy: Policy, confinement: Confinement) -> WorkspaceScan:
    """Return what has to be watched and hidden; this waits for the disk."""

    def is_secret(path: str) -> bool:
        return secret_reason(path, policy) is not None

    places = (os.path.realpath(path) for path in protected_places(policy))
    of_secrets = (*secret_places(policy), *_secrets_below("/etc", is_secret))
    hidden = tuple(dict.fromkeys(map(os.path.realpath, of_secrets)))
    reached = (*confinement.readable, *confinement.writable)
    return WorkspaceScan(
        roots=confinement.writable,
        read_only=tuple(path for path in policy.sandbox.extra_read if path in confinement.readable),
        places=tuple(dict.fromkeys(places)),
        secret_places=tuple(path for path in hidden if is_inside(path, *reached)),
        is_secret=is_secret,
        linked=several_names(path for path in hidden if not is_inside(path, *confinement.writable)),
    )


def _secrets_below(folder: str, is_secret: Callable[[str], bool]) -> list[str]:
    return [spot.path for spot in WorkspaceScan((), (folder,), (), (), is_secret).look().secrets]


# ------------------------------------------------------------------ marks


def _mark_repository(seen: ScanResult, folder: str) -> None:
    """Note what git obeys of a repository: its settings, its hooks, and where it says that these lie."""
    if folder not in seen.marks:
        _mark(seen, folder, Role.REPOSITORY)
    seen.repositories.append(folder)
    for name in _SETTINGS:
        _mark(seen, f"{folder}/{name}", Role.SETTINGS, folder)
    _mark(seen, f"{folder}/commondir", Role.COMMON_FOLDER, folder)
    _mark_all(seen, f"{folder}/hooks", Role.HOOK, folder)


def _mark_all(seen: ScanResult, path: str, role: Role, owner: str = "") -> None:
    """Note a path and everything below it. Git leaves samples of hooks, which nothing runs."""
    _mark(seen, path, role, owner)
    waiting = [path]
    for folder in waiting:
        for entry in _entries(folder, seen) if not os.path.islink(folder) else ():  # noqa: PTH114 — many of them
            if role is Role.HOOK and entry.name.endswith(".sample"):
                continue
            _mark(seen, entry.path, role, owner, is_inner=True)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _mark(seen: ScanResult, path: str, role: Role, owner: str = "", *, is_inner: bool = False) -> None:
    try:
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode):
            digest, content = _contents(path, found)
            mark = Mark(role, MarkKind.FILE, digest, stat.S_IMODE(found.st_mode), content, owner, is_inner)
        elif stat.S_ISLNK(found.st_mode):
            mark = Mark(role, MarkKind.LINK, os.readlink(path), owner=owner, is_inner=is_inner)  # noqa: PTH115 — a text
        else:
            kind = MarkKind.FOLDER if stat.S_ISDIR(found.st_mode) else MarkKind.OTHER
            mark = Mark(role, kind, owner=owner, is_inner=is_inner)
    except OSError:
        return
    seen.marks[path] = mark


def _contents(path: str, found: os.stat_result) -> tuple[str, bytes | None]:
    """Return what tells a file's contents apart, and them if they are small."""
    outside = f"{found.st_size} bytes at {found.st_mtime_ns}"
    if found.st_size > _DIGESTED:
        return outside, None
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        # What may not be read can still be run: it is there, whatever is in it.
        return outside, None
    with os.fdopen(opened, "rb") as file:
        content = file.read(_DIGESTED)
    return hashlib.sha256(content).hexdigest(), content if len(content) <= _SMALL else None
