"""What lies in the open that a program must not reach, and what did it leave there nevertheless?

Looked at before and after every command: git's hooks and settings, `.leeward`, protected places, secrets
and the sockets of running services. What may stay is decided by `security/obeyed.py`; what may not is
moved aside here, and what was changed is put back. A folder of packages is not looked into: whoever may
write there can change what the packages do anyway.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from leeward.security import Change, Mark, MarkKind, Masks, Role, Spot, is_inside, visible

__all__ = ["Lookout", "Seen", "undo"]

_PACKAGES = frozenset({"node_modules", "site-packages", "dist-packages", "__pycache__"})
_REPOSITORY = frozenset({"HEAD", "objects", "refs"})
_WORKTREE = frozenset({"HEAD", "commondir", "gitdir"})
_OF_REPOSITORY = frozenset({"objects", "refs", "hooks", "logs", "lfs"})
_SETTINGS = ("config", "config.worktree")
_OURS = ".leeward"
_SMALL = 256 * 1024
_DIGESTED = 8 * 1024 * 1024
_MOST = 200_000
"""Entries that are looked at; the shallow ones come first."""


@dataclass(slots=True)
class Seen:
    """What was found. `is_whole` tells that nothing was too much to look at."""

    marks: dict[str, Mark] = field(default_factory=dict)
    secrets: list[Spot] = field(default_factory=list)
    is_whole: bool = True

    def masks(self, kept: Iterable[str] = ()) -> Masks:
        """Return what a program must not reach; `kept` are further paths that stay as they are."""
        unwritable = [
            Spot(path, mark.kind is MarkKind.FOLDER)
            for path, mark in self.marks.items()
            if mark.kind in {MarkKind.FILE, MarkKind.FOLDER} and _is_mounted(mark)
        ]
        put_back = frozenset(path for path, mark in self.marks.items() if mark.role is not Role.PROTECTED)
        further = (_spot(path) for path in kept)
        shut = (*unwritable, *(spot for spot in further if spot is not None))
        return Masks(tuple(self.secrets), shut, put_back)


def _is_mounted(mark: Mark) -> bool:
    """Whether a mark is masked for itself: a repository's folder is not, nor what lies in a masked one."""
    is_open = mark.role is Role.REPOSITORY and mark.kind is MarkKind.FOLDER
    return not is_open and not mark.is_inner


@dataclass(frozen=True, slots=True)
class Lookout:
    """What to look for: everything below `roots`, secrets alone below `read_only`, and single places.

    `is_secret` says of an absolute path whether its contents are.
    """

    roots: tuple[str, ...]
    read_only: tuple[str, ...]
    places: tuple[str, ...]
    secret_places: tuple[str, ...]
    is_secret: Callable[[str], bool]

    def look(self, *, for_secrets: bool = True) -> Seen:
        """Return what is there now, secrets too if they are looked for; this waits for the disk."""
        if not for_secrets:
            return replace(self, read_only=(), secret_places=(), is_secret=lambda _: False).look()
        seen = Seen()
        for path in self.places:
            if is_inside(path, *self.roots) and Path(path).name not in {".git", _OURS}:
                _mark(seen, path, Role.PROTECTED)
        seen.secrets += (spot for spot in map(_spot, self.secret_places) if spot is not None)
        waiting, left = [*self.roots, *self.read_only], _MOST
        for folder in waiting:
            entries = _entries(folder)
            left -= len(entries)
            if left < 0:
                seen.is_whole = False
                break
            is_marked = is_inside(folder, *self.roots)
            waiting += self._look_into(folder, entries, seen, is_marked=is_marked)
        return seen

    def _look_into(
        self, folder: str, entries: Sequence[os.DirEntry[str]], seen: Seen, *, is_marked: bool
    ) -> Iterator[str]:
        """Note what a folder holds, and yield the folders in it to look into as well."""
        names = {entry.name for entry in entries}
        is_repository = names >= _REPOSITORY or names >= _WORKTREE
        if is_repository and is_marked:
            _mark_repository(seen, folder)
        passed_by = _PACKAGES | _OF_REPOSITORY if is_repository else _PACKAGES
        for entry in entries:
            if is_marked and entry.name.casefold() == _OURS:
                _mark_all(seen, entry.path, Role.OURS)
                continue
            if is_marked and entry.name.casefold() == ".git":
                _mark(seen, entry.path, Role.REPOSITORY)
            is_folder = entry.is_dir(follow_symlinks=False)
            if self.is_secret(entry.path) and not entry.is_symlink():
                seen.secrets.append(Spot(entry.path, is_folder))
            elif is_folder and entry.name not in passed_by:
                yield entry.path
            elif not entry.is_file(follow_symlinks=False) and _is_socket(entry):
                seen.secrets.append(Spot(entry.path, is_folder=False))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _is_socket(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False


def _spot(path: str) -> Spot | None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    return None if stat.S_ISLNK(mode) else Spot(path, stat.S_ISDIR(mode))


# ------------------------------------------------------------------ marks


def _mark_repository(seen: Seen, folder: str) -> None:
    """Note what git obeys of a repository: its settings, its hooks, and where it says that these lie."""
    if folder not in seen.marks:
        _mark(seen, folder, Role.REPOSITORY)
    for name in _SETTINGS:
        _mark(seen, f"{folder}/{name}", Role.SETTINGS, folder)
    _mark(seen, f"{folder}/commondir", Role.COMMON_FOLDER, folder)
    _mark_all(seen, f"{folder}/hooks", Role.HOOK, folder)


def _mark_all(seen: Seen, path: str, role: Role, owner: str = "") -> None:
    """Note a path and everything below it. Git leaves samples of hooks, which nothing runs."""
    _mark(seen, path, role, owner)
    waiting = [path]
    for folder in waiting:
        for entry in _entries(folder) if not os.path.islink(folder) else ():  # noqa: PTH114 — many of them
            if role is Role.HOOK and entry.name.endswith(".sample"):
                continue
            _mark(seen, entry.path, role, owner, is_inner=True)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _mark(seen: Seen, path: str, role: Role, owner: str = "", *, is_inner: bool = False) -> None:
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
    if found.st_size > _DIGESTED:
        return f"{found.st_size} bytes at {found.st_mtime_ns}", None
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        content = file.read(_DIGESTED)
    return hashlib.sha256(content).hexdigest(), content if len(content) <= _SMALL else None


# ------------------------------------------------------------------ afterwards


def undo(changes: Iterable[Change], aside: str) -> list[str]:
    """Move aside what must not stay, put back what was there, and say so, a sentence for each."""
    told: list[str] = []
    moved: list[str] = []
    for change in changes:
        shown, is_gone = visible(change.path), change.after is None or is_inside(change.path, *moved)
        if is_gone and change.before is None:
            continue
        try:
            kept = None if is_gone else _moved_aside(change.path, aside)
            is_back = change.before is not None and _put_back(change.path, change.before)
        except OSError as error:
            told.append(f"{shown} was changed, and that could not be undone: {error.strerror}")
            continue
        moved += () if is_gone else (change.path,)
        told.append(_sentence(shown, change, kept, is_back=is_back))
    return told


def _sentence(shown: str, change: Change, kept: str | None, *, is_back: bool) -> str:
    if change.before is None:
        return f"{shown} appeared and was moved to {visible(kept or '')}"
    what = "was changed" if change.after is not None else "was removed"
    where = f" (the changed one is {visible(kept)})" if kept is not None else ""
    return f"{shown} {what} and {'was put back' if is_back else 'could not be put back'}{where}"


def _moved_aside(path: str, aside: str) -> str:
    """Rename something to where nothing obeys it: our own folder or, on another disk, a name beside it."""
    Path(aside).mkdir(parents=True, exist_ok=True, mode=0o700)
    flat = path.strip("/").replace("/", "%")[-120:]
    folder = tempfile.mkdtemp(prefix="blocked-", dir=aside)
    target = f"{folder}/{flat}"
    try:
        os.rename(path, target)  # noqa: PTH104 — bytes of a hostile name stay as they are
    except OSError:
        Path(folder).rmdir()
        target = tempfile.mktemp(prefix="leeward-blocked-", dir=_harmless_folder(path))  # noqa: S306 — all have ended
        os.rename(path, target)  # noqa: PTH104 — the same
    return target


def _harmless_folder(path: str) -> str:
    """Return the nearest folder around a path in which nothing is obeyed for its place."""
    folder = Path(path).parent
    while {part.casefold() for part in folder.parts} & {".git", _OURS, "hooks"}:
        folder = folder.parent
    return str(folder)


def _put_back(path: str, mark: Mark) -> bool:
    if mark.kind is MarkKind.LINK:
        os.symlink(mark.digest, path)  # noqa: PTH211 — the target is a text
        return True
    if mark.kind is MarkKind.FOLDER:
        Path(path).mkdir(exist_ok=True)
        return True
    if mark.kind is not MarkKind.FILE or mark.content is None:
        return False
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mark.mode)
    with os.fdopen(opened, "wb") as file:
        file.write(mark.content)
        with suppress(OSError):
            os.fchmod(file.fileno(), mark.mode)
    return True
