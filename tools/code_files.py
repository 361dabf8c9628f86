"""Hash the workspace files a command line may execute by name, and the names by which calls may change them.

A file counts as changed with every link that leads to it and every folder above: who lets a link lead
elsewhere changes what runs. A file outside of where commands may write is represented by its place alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from leeward.memory.changes import ALL_BELOW, LEFT_OUT
from leeward.security import command
from leeward.security.kinds import UNKNOWN
from leeward.security.lazy import dataclass
from leeward.security.paths import is_inside, secret_reason, writable
from leeward.security.policy import Policy

from .checkpoints import is_left_out
from .work import TooMuch, Work, followed

__all__ = ["CodeFile", "code_files"]

_MOST_BYTES = 64 * 1024 * 1024
_PIECE = 1024 * 1024
_BYTES_A_STEP = 4096
_MOST_NAMED = 32
_MOST_ENTRIES = 20_000
# What an interpreter runs of a folder that it is given.
_IN_FOLDER = ("__main__.py", "index.js", "package.json")
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True)
class CodeFile:
    """The hash of what a file holds, "" where there is none, and by which names it may change."""

    digest: str
    names: tuple[str, ...]


def code_files(keys: Iterable[str], policy: Policy, work: Work) -> Mapping[str, CodeFile]:
    """Return what was found for each key; a key for any folder represents all that it finds."""
    reader = _Reader(policy, work)
    found: dict[str, CodeFile] = {}
    for key in keys:
        folder, is_anywhere, name = key.partition(command.ANYWHERE)
        if not is_anywhere:
            found[key] = reader.file(key)
            continue
        paths = reader.below(folder, name)
        if paths is None:
            found[key] = CodeFile(UNKNOWN, (ALL_BELOW,))
        elif len(paths) > _MOST_NAMED:
            found[key] = _as_one(paths, [reader.file(path) for path in paths])
        else:
            found |= {path: reader.file(path) for path in paths}
    return {key: one for key, one in found.items() if one.names}


def _as_one(paths: list[str], files: list[CodeFile]) -> CodeFile:
    held = "\0".join(f"{path}\0{file.digest}" for path, file in zip(paths, files, strict=True))
    digest = hashlib.sha256(os.fsencode(held)).hexdigest()
    names = dict.fromkeys(name for file in files for name in file.names)
    return CodeFile(UNKNOWN if any(file.digest == UNKNOWN for file in files) else digest, tuple(names))


@dataclass(slots=True)
class _Reader:
    policy: Policy
    work: Work
    left: int = field(default_factory=lambda: _MOST_BYTES)
    known: dict[str, CodeFile] = field(default_factory=dict)

    def file(self, path: str) -> CodeFile:
        """Return what a path holds, by whatever links it leads there."""
        if path not in self.known:
            self.known[path] = self._file(path)
        return self.known[path]

    def _file(self, path: str) -> CodeFile:
        links: list[str] = []
        try:
            real = followed(path, self.work, links)
        except TooMuch:
            real = None
        names = self._all_names((path, *links, *([] if real is None else [real])))
        if real is None:
            return CodeFile(UNKNOWN, names or (ALL_BELOW,))
        if not names:
            return CodeFile("", ())
        if not is_inside(real, *writable(self.policy)):
            return CodeFile(hashlib.sha256(os.fsencode(real)).hexdigest(), names)
        if os.path.isdir(real):  # noqa: PTH112 — texts, as they are judged
            inside = [f"{real}/{name}" for name in _IN_FOLDER]
            found = _as_one(inside, [CodeFile(self._digest(one), self._all_names((one,))) for one in inside])
            return CodeFile(found.digest, (*names, *found.names))
        return CodeFile(self._digest(real), names)

    def _all_names(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for path in paths for name in self.names(path)))

    def names(self, path: str) -> tuple[str, ...]:
        """Return by which names of the workspace a path may change."""
        path = posixpath.normpath(path)
        if not is_inside(path, self.policy.workspace):
            return ()
        relative = posixpath.relpath(path, self.policy.workspace)
        parts = relative.split("/")
        names = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
        if any(map(is_left_out, parts[:-1])):
            names.append(LEFT_OUT)
        return tuple(names)

    def below(self, folder: str, name: str) -> list[str] | None:
        """Return the files of a name in a folder and below it, but for what is left out; None: too many."""
        found: list[str] = []
        left = _MOST_ENTRIES
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            for entry in _entries(here):
                left -= 1
                if left < 0:
                    return None
                if entry.name == name:
                    found.append(entry.path)
                elif entry.is_dir(follow_symlinks=False) and not is_left_out(entry.name):
                    waiting.append(entry.path)
        try:
            self.work.spend(_MOST_ENTRIES - left)
        except TooMuch:
            return None
        return sorted(found)

    def _digest(self, path: str) -> str:
        if secret_reason(path, self.policy) is not None:
            return UNKNOWN
        try:
            # What waits for somebody (a FIFO, a device) is not waited for.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return "" if error.errno in _ABSENT else UNKNOWN
        except ValueError:
            return ""
        with os.fdopen(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            self.left -= status.st_size
            if not stat.S_ISREG(status.st_mode) or self.left < 0:
                return UNKNOWN
            try:
                self.work.spend(1 + status.st_size // _BYTES_A_STEP)
                return _hash_of(iter(lambda: file.read(_PIECE), b""), status.st_size)
            except (TooMuch, OSError):
                return UNKNOWN


def _hash_of(pieces: Iterator[bytes], most: int) -> str:
    """Return the hash of a file; one that grows meanwhile has no hash."""
    found, size = hashlib.sha256(), 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            return UNKNOWN
        found.update(piece)
    return found.hexdigest()


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (OSError, ValueError):
        return []
