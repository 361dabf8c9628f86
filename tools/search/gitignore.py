"""Read `.gitignore` files as git does, for searches that leave out what a project ignores.

Only the `.gitignore` files themselves are read, none that git's settings name. Patterns run in linear time,
since anybody may have written them; a file that is too large or has too many patterns counts as empty.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import field

from leeward.memory.patterns import BadPattern, PatternSet
from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import ToolError

from ..files import DirHandle, open_folder
from .glob import glob_expression

__all__ = ["IGNORE_FILE", "Ignored", "IgnoredFolders", "ignore_files_above"]

IGNORE_FILE = ".gitignore"
"""The name of the file in which a project says so."""

_LONGEST = 256 * 1024
_MOST_PATTERNS = 5_000
_TRAILING = regex(r"(?<!\\) +\Z")


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The patterns of one file, in order; the last that matches decides. `base` is its folder."""

    base: str
    patterns: PatternSet
    is_negated: tuple[bool, ...]
    only_folders: tuple[bool, ...]

    @classmethod
    def of(cls, text: str, base: str) -> IgnoreFile | None:
        """Read the text of a file, a character for a byte; None where it says nothing that can be used."""
        lines = [line for line in map(_line, text.split("\n")) if line is not None]
        if not lines or len(lines) > _MOST_PATTERNS:
            return None
        try:
            patterns = PatternSet(expression for expression, _, _ in lines)
        except BadPattern:
            return None
        return cls(base, patterns, tuple(line[1] for line in lines), tuple(line[2] for line in lines))

    def decides(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether a path below the folder is ignored, or None if no pattern matches it."""
        for number in self.patterns.matching(_bytewise(os.fsencode(path[len(self.base) :]))):
            if is_folder or not self.only_folders[number]:
                return not self.is_negated[number]
        return None


@dataclass(frozen=True, slots=True)
class Ignored:
    """The files that hold in one folder of a tree, the one nearest to it last."""

    files: tuple[IgnoreFile, ...] = ()

    def below(self, folder: DirHandle, relative: str) -> Ignored:
        """Return what holds in a folder, whose path in the repository is `relative`."""
        own = _read(folder, f"{relative}/" if relative else "")
        return self if own is None else Ignored((*self.files, own))

    def covers(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path in the repository is ignored."""
        for file in reversed(self.files):
            decided = file.decides(path, is_folder=is_folder)
            if decided is not None:
                return decided
        return False


@dataclass(slots=True)
class IgnoredFolders:
    """Which folders below one git ignores, by the `.gitignore` files in them."""

    top: DirHandle
    _rules: dict[str, Ignored | None] = field(default_factory=dict)

    def folder_of(self, path: str, *, is_folder: bool) -> str | None:
        """Return the outermost ignored folder that a path is or lies in."""
        folders = (*_folders_above(path), path) if is_folder else (*_folders_above(path),)
        return next((folder for folder in folders if self._is_ignored(folder)), None)

    def covers(self, path: str) -> bool:
        """Whether a path is ignored, or lies in a folder that is."""
        if self.folder_of(path, is_folder=True) is not None:
            return True
        return self._of(path.rpartition("/")[0]).covers(path, is_folder=False)

    def _is_ignored(self, folder: str) -> bool:
        rules = self._of(folder.rpartition("/")[0])
        return rules.covers(folder, is_folder=True)

    def _of(self, folder: str) -> Ignored:
        """Return the rules that hold in a folder."""
        if folder not in self._rules:
            above = self._of(folder.rpartition("/")[0]) if folder else Ignored()
            with suppress(OSError, ToolError), closing(self.top.descend(folder)) as opened:
                above = above.below(opened, folder)
            self._rules[folder] = above
        return self._rules[folder] or Ignored()


def _folders_above(path: str) -> Iterator[str]:
    yield from (path[:at] for at, char in enumerate(path) if char == "/")


def ignore_files_above(root: str, top: str) -> tuple[str, Ignored]:
    """Return the path from the repository a folder lies in to it ("" or ending in /), and what holds there.

    Nothing above `top` is looked at, nor above a folder that is a repository.
    """
    parts: list[str] = []
    for folder in _upwards(root, top):
        parts.append(folder)
        if os.path.lexists(f"{folder}/.git"):
            break
    base = parts[-1]
    found = Ignored()
    # The folder itself is read when the walk comes there.
    for folder in reversed(parts[1:]):
        try:
            with open_folder(folder) as opened:
                found = found.below(opened, _relative(folder, base))
        except (ToolError, OSError):
            continue
    prefix = _relative(root, base)
    return f"{prefix}/" if prefix else "", found


def _relative(folder: str, base: str) -> str:
    return folder[len(base.rstrip("/")) :].strip("/")


def _upwards(root: str, top: str) -> Iterator[str]:
    yield root
    while root not in (top, "/"):
        root = root.rpartition("/")[0] or "/"
        yield root


def _read(folder: DirHandle, base: str) -> IgnoreFile | None:
    try:
        descriptor = folder.open_known_file(IGNORE_FILE)
    except (ToolError, OSError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_LONGEST + 1)
    return None if len(data) > _LONGEST else IgnoreFile.of(_bytewise(data.removeprefix(BOM_UTF8)), base)


def _bytewise(data: bytes) -> str:
    """Return bytes as a text of as many characters, because git's `?` matches one byte."""
    return data.decode("latin-1")


def _line(line: str) -> tuple[str, bool, bool] | None:
    """Return expression, negation and "only folders" of a line, or None for one that is no pattern."""
    pattern = _TRAILING.sub("", line.removesuffix("\r"))
    if not pattern or pattern.startswith("#"):
        return None
    is_negated = pattern.startswith("!")
    pattern = pattern[is_negated:]
    only_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    if not pattern:
        return None
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not anchored:
        pattern = f"**/{pattern}"
    return glob_expression(pattern, braces=False), is_negated, only_folders
