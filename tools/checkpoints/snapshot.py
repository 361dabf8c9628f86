"""Take a snapshot of the workspace: its files, folders and links, read beneath handles, following no link.

A file whose size, times, inode and mode are those of the last snapshot is not read again. Secret files are
neither read nor named, protected and generated ones are left out, and oversized ones are compared by their
stamp alone. Contents go in batches to the store that keeps them (`Contents`). Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field
from itertools import islice
from typing import Protocol, TypeAlias

import trio

from leeward.memory.checkpoints import Packed, Revision, Version, packed_content
from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError

from ..files import DirHandle, Guard, HardLinks, open_folder, shown_name
from ..search import SKIPPED_FOLDERS

__all__ = [
    "Contents",
    "Look",
    "Node",
    "Snapshot",
    "SnapshotLimits",
    "Stamp",
    "Uncovered",
    "changed_at",
    "is_left_out",
    "revisions",
    "stamp_of",
]

_BATCH = 1024 * 1024
_BATCH_FILES = 200
_FEW = 3
_LEFT_OUT = SKIPPED_FOLDERS | {".leeward", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache"}

# A file may change twice within one tick of the clock that stamps it; what is that young is read again.
_TICK = 50_000_000
_KINDS = frozenset({stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK})

Stamp: TypeAlias = tuple[int, int, int, int, int, int]
"""What changes when a file does: mode, size, times of change, number and device."""


class Contents(Protocol):
    """Where contents are kept, for calls from a thread."""

    def missing(self, digests: Iterable[str]) -> set[str]:
        """Return which of them are not kept."""
        ...

    def put(self, contents: Sequence[Packed]) -> None:
        """Keep some."""
        ...


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """How many bytes of content, and how many files and folders, one look at a workspace covers."""

    max_bytes: int
    max_entries: int = 50_000


def is_left_out(name: str) -> bool:
    """Whether a folder of this name is left out of a look at all of a workspace."""
    return name in _LEFT_OUT


@dataclass(frozen=True, slots=True)
class Node:
    """Something in the workspace, and what tells that it is still the same (its `stamp`)."""

    version: Version
    stamp: Stamp
    is_settled: bool = True


@dataclass(slots=True)
class Uncovered:
    """What a look does not cover: too big, secret, unreadable, left out, and whether there was too much.

    `outside` is what lies outside of the workspace.
    """

    outside: list[str] = field(default_factory=list)
    big: list[tuple[str, int]] = field(default_factory=list)
    secret: int = 0
    unreadable: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    is_cut: bool = False

    def describe(self) -> str:
        """Say it in words, with the names of the first few; "" where all is covered."""
        largest = sorted(self.big, key=lambda one: -one[1])
        big = (f"{shown_name(path)} ({size} bytes)" for path, size in largest)
        parts = [
            _named("outside of the workspace", map(shown_name, self.outside)),
            _named("too big", big),
            _named("unreadable", map(shown_name, self.unreadable)),
            f"secret files: {self.secret}" if self.secret else "",
            _named("left out", (f"{shown_name(path)}/" for path in sorted(self.left_out))),
            "and there are too many files to look at all of them" if self.is_cut else "",
        ]
        return "; ".join(filter(None, parts))


@dataclass(slots=True)
class Snapshot:
    """What was found, by path from the workspace; `uncovered` is what was not looked into."""

    nodes: dict[str, Node] = field(default_factory=dict)
    uncovered: Uncovered = field(default_factory=Uncovered)


Found: TypeAlias = tuple[str, Stamp, Node | None]
"""A path that a walk came across, its stamp, and what it was found to be the last time if it still is."""


def _named(what: str, names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _FEW} more" if len(listed) > _FEW else ""
    return f"{what}: {', '.join(listed[:_FEW])}{more}" if listed else ""


def stamp_of(of: os.stat_result) -> Stamp:
    """Return what changes when a file does, whatever a program does to hide that."""
    return of.st_mode, of.st_size, of.st_mtime_ns, of.st_ctime_ns, of.st_ino, of.st_dev


def changed_at(stamp: Stamp) -> float:
    """Return when something changed last, in seconds since the epoch; no program can set that time back."""
    return stamp[3] / 1e9


@dataclass(frozen=True, slots=True)
class Look:
    """How a workspace is looked at; `root` is absolute and resolved. Without `contents` no file is read."""

    root: str
    guard: Guard
    limits: SnapshotLimits
    contents: Contents | None = None

    def whole(self, known: Mapping[str, Node]) -> Snapshot:
        """Look at all of it; `known` is what was found the last time."""
        return self._taken(known, [""], is_deep=True)

    def at(self, paths: Iterable[str], *, is_deep: bool) -> Snapshot:
        """Look at some paths, and with `is_deep` at all that lies below."""
        return self._taken({}, sorted(set(paths)), is_deep=is_deep)

    def _taken(self, known: Mapping[str, Node], starts: Iterable[str], *, is_deep: bool) -> Snapshot:
        snapshot = Snapshot()
        with open_folder(self.root) as top:
            found: dict[str, Found] = {}
            for start in starts:
                self._walk(top, start, found, snapshot, known, is_deep=is_deep)
            self._add(top, found.values(), snapshot)
        return snapshot

    def _walk(
        self,
        top: DirHandle,
        start: str,
        found: dict[str, Found],
        snapshot: Snapshot,
        known: Mapping[str, Node],
        *,
        is_deep: bool,
    ) -> None:
        """Find what lies at a path and below it, above before below."""
        waiting = [start]
        if start:
            waiting = []
            one = _at(top, start, known)
            # What is left out of a look at all is not left out where it is asked for by its name.
            if one is not None and self._is_covered(start, one[1][0], snapshot, is_named=not is_deep):
                found[start] = one
                waiting = [start] if is_deep and stat.S_ISDIR(one[1][0]) else []
        left = self.limits.max_entries
        for folder in waiting:
            entries = _entries(top, folder, known, left + 1)
            for one in entries[:left]:
                path, (mode, *_), before = one
                if before is not None or self._is_covered(path, mode, snapshot):
                    found[path] = one
                    if stat.S_ISDIR(mode):
                        waiting.append(path)
            if len(entries) > left:
                snapshot.uncovered.is_cut = True
                return
            left -= len(entries)

    def _is_covered(self, relative: str, mode: int, snapshot: Snapshot, *, is_named: bool = False) -> bool:
        uncovered = snapshot.uncovered
        if not is_named and stat.S_ISDIR(mode) and relative.rpartition("/")[2] in _LEFT_OUT:
            uncovered.left_out.append(relative)
            return False
        path = f"{self.root}/{relative}"
        if self.guard.secret(path) is not None:
            uncovered.secret += 1
            return False
        return self.guard.protected(path) is None and stat.S_IFMT(mode) in _KINDS

    def _add(self, top: DirHandle, found: Iterable[Found], snapshot: Snapshot) -> None:
        nodes, files = snapshot.nodes, []
        for one in found:
            path, stamp, before = one
            if stat.S_ISREG(stamp[0]):
                files.append(one)
            elif before is not None and stat.S_ISDIR(stamp[0]):
                nodes[path] = before
            elif (version := _plain(top, path, stamp)) is not None:
                nodes[path] = Node(version, stamp)
        unread: list[Found] = []
        left = self.limits.max_bytes
        if sum([stamp[1] for _, stamp, _ in files]) > left:
            # The smallest first: so what does not fit is as little as can be.
            files.sort(key=lambda one: (one[1][1], one[0]))
        for one in files:
            path, stamp, before = one
            left -= stamp[1]
            if left < 0:
                snapshot.uncovered.big.append((path, stamp[1]))
            elif before is not None and self._is_settled(before):
                nodes[path] = before
                continue
            else:
                unread.append(one)
            nodes[path] = Node(Version("file", stat.S_IMODE(stamp[0]), stamp[1]), stamp)
        if self.contents is not None:
            self._read(top, unread, snapshot, self.contents)

    def _is_settled(self, before: Node) -> bool:
        return before.is_settled and (before.version.digest is not None or self.contents is None)

    def _read(self, top: DirHandle, files: Sequence[Found], snapshot: Snapshot, contents: Contents) -> None:
        links = HardLinks(self.guard)
        batch: dict[str, bytes] = {}
        size = 0
        for path, stamp, _ in files:
            content = self._content(top, path, stamp, links, snapshot)
            if content is None:
                continue
            digest = hashlib.sha256(content).hexdigest()
            version = Version("file", stat.S_IMODE(stamp[0]), len(content), digest)
            is_settled = max(stamp[2:4]) < time.time_ns() - _TICK
            snapshot.nodes[path] = Node(version, stamp, is_settled=is_settled)
            batch[digest] = content
            size += len(content)
            if size >= _BATCH or len(batch) >= _BATCH_FILES:
                _kept(batch, contents)
                batch, size = {}, 0
        _kept(batch, contents)

    def _content(
        self, top: DirHandle, path: str, stamp: Stamp, links: HardLinks, snapshot: Snapshot
    ) -> bytes | None:
        folder, _, name = path.rpartition("/")
        try:
            with closing(top.descend(folder)) as opened:
                descriptor = opened.open_known_file(name)
            with os.fdopen(descriptor, "rb") as file:
                if not links.is_secret(os.fstat(file.fileno())):
                    # It may have grown since; no more is taken than was seen of it.
                    return file.read(stamp[1])
        except (OSError, ToolError):
            snapshot.uncovered.unreadable.append(path)
            return None
        del snapshot.nodes[path]
        snapshot.uncovered.secret += 1
        return None


def revisions(before: Snapshot, after: Snapshot) -> list[Revision]:
    """Return what is another one than before, by path."""
    paths = before.nodes.keys() | after.nodes.keys()
    # What did not change was not looked at closer, and is the very same.
    others = sorted(path for path in paths if before.nodes.get(path) is not after.nodes.get(path))
    pairs = ((path, before.nodes.get(path), after.nodes.get(path)) for path in others)
    return [
        Revision(os.fsencode(path), _version(was), _version(became))
        for path, was, became in pairs
        if _differ(was, became)
    ]


def _differ(was: Node | None, became: Node | None) -> bool:
    if was is None or became is None:
        return was is not became
    are_files = was.version.kind == became.version.kind == "file"
    if are_files and None in (was.version.digest, became.version.digest):
        return was.stamp != became.stamp
    return was.version != became.version


def _version(node: Node | None) -> Version | None:
    return None if node is None else node.version


def _kept(batch: Mapping[str, bytes], contents: Contents) -> None:
    if batch:
        missing = contents.missing(batch)
        contents.put([packed_content(digest, batch[digest]) for digest in missing])


def _entries(top: DirHandle, folder: str, known: Mapping[str, Node], most: int) -> list[Found]:
    """Return the entries of a folder, as far as they can be listed, and so many at most."""
    prefix = f"{folder}/" if folder else ""
    found: list[Found] = []
    trio.from_thread.check_cancelled()
    with suppress(OSError, ToolError), closing(top.descend(folder)) as opened, opened.entries() as entries:
        for entry in islice(entries, most):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            path, stamp = prefix + entry.name, stamp_of(status)
            before = known.get(path)
            found.append((path, stamp, before if before is not None and before.stamp == stamp else None))
    return found


def _at(top: DirHandle, path: str, known: Mapping[str, Node]) -> Found | None:
    folder, _, name = path.rpartition("/")
    with suppress(OSError, ToolError), closing(top.descend(folder)) as opened:
        if (status := opened.stat(name)) is not None:
            stamp, before = stamp_of(status), known.get(path)
            return path, stamp, before if before is not None and before.stamp == stamp else None
    return None


def _plain(top: DirHandle, path: str, stamp: Stamp) -> Version | None:
    """Return a folder or a link unchanged."""
    if stat.S_ISDIR(stamp[0]):
        return Version("folder", stat.S_IMODE(stamp[0]))
    folder, _, name = path.rpartition("/")
    with suppress(OSError, ToolError), closing(top.descend(folder)) as opened:
        return Version("link", 0, target=os.fsencode(os.readlink(name, dir_fd=opened.handle)))
    return None
