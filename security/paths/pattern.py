"""Match paths against the glob patterns a person wrote.

Patterns and paths are compared part by part, so that no path makes matching slow. The consequence of a
match is decided by the caller: `permissions/matching.py` for rules, `workspace.py` for `[tools.file]`.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from ..text import INVISIBLE

__all__ = ["as_one_name", "literally", "matches_parts", "means_path"]

_LONGEST_PATH = 4096


def matches_parts(parts: Sequence[str], wanted: Sequence[str], *, below: bool = False) -> bool:
    """Hold the parts of a path against those of a glob; `**` is any number, as the last one at least one.

    With `below`, a folder that matches has everything in it match. Walked once, with all places of the
    glob that may have been reached: no path can make it slow.
    """
    reached = _behind({0}, wanted)
    for part in parts:
        if below and len(wanted) in reached:
            return True
        reached.discard(len(wanted))
        stays = {place for place in reached if wanted[place] == "**"}
        goes_on = {place + 1 for place in reached if fnmatchcase(part, wanted[place])}
        reached = _behind(stays | goes_on, wanted)
        if not reached:
            return False
    return len(wanted) in reached


def _behind(reached: set[int], wanted: Sequence[str]) -> set[int]:
    """Add the places behind each `**` that may match nothing, which the last one may not."""
    for place, part in enumerate(wanted[:-1]):
        if part == "**" and place in reached:
            reached.add(place + 1)
    return reached


def means_path(patterns: tuple[str, ...], path: str, workspace: str, home: str, *, folds: bool) -> bool:
    """Whether one of the patterns means a path (absolute, normalised) or a folder above it.

    A pattern without a slash means that name anywhere, another relative one starts at the workspace.
    With `folds`, spellings that some file system takes for the same name are the same.
    """
    if not patterns:
        return False
    parts = (as_one_name(path) if folds else path).lstrip("/").split("/")
    name, places = _wanted(patterns, workspace, home, folds=folds)
    if name is not None and any(map(name.match, parts)):
        return True
    return any(matches_parts(parts, place, below=True) for place in places)


@lru_cache(maxsize=64)
def _wanted(
    patterns: tuple[str, ...], workspace: str, home: str, *, folds: bool
) -> tuple[re.Pattern[str] | None, list[tuple[str, ...]]]:
    """Return the names that are meant anywhere, as one expression, and the parts of all other patterns."""
    found = [_parts_of(pattern, workspace, home) for pattern in patterns]
    if folds:
        found = [tuple(map(as_one_name, parts)) for parts in found]
    names = [parts[1] for parts in found if len(parts) == 2 and parts[0] == "**"]
    places = [parts for parts in found if not (len(parts) == 2 and parts[0] == "**")]
    return re.compile("|".join(map(translate, names))) if names else None, places


def _parts_of(pattern: str, workspace: str, home: str) -> tuple[str, ...]:
    """Return the parts of an absolute glob; a pattern for all in a folder means the folder, too."""
    if pattern == "~" or pattern.startswith("~/"):
        pattern = literally(home) + pattern[1:]
    elif "/" not in pattern.rstrip("/"):
        pattern = f"**/{pattern}"
    elif not pattern.startswith(("/", "**")):
        pattern = posixpath.join(literally(workspace), pattern)
    parts = posixpath.normpath(pattern).lstrip("/").split("/")
    while len(parts) > 1 and parts[-1] == "**":
        parts.pop()
    return tuple(parts)


def literally(text: str) -> str:
    """Escape what a glob would read as a wildcard."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def as_one_name(path: str) -> str:
    """Return a path as one of all its spellings that some file system takes for the same name.

    They ignore case (macOS, Windows, ext4 where it is asked for), the way an accent is composed, and some
    of them characters that draw nothing.
    """
    if path.isascii():
        return path.lower()
    if len(path) > _LONGEST_PATH:
        # No disk holds it, and putting a long run of accents in order takes quadratic time.
        return path.casefold()
    plain = INVISIBLE.sub("", path)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", plain).casefold())
