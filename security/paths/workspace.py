"""Read the text of a path: absolute and normalised, inside the workspace or elsewhere.

Nothing here reads a disk: where links lead is for the Surveyor to find. `gates/paths.py` applies the answers,
and the file tools open only the path that was judged.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from ..kinds import Unreadable
from ..lazy import regex
from ..policy import Policy
from .pattern import as_one_name
from .place import ResolvedPath

__all__ = [
    "DEVICES",
    "at_home",
    "could_be_path",
    "is_below",
    "is_inside",
    "is_user_or_file",
    "locate",
    "writable",
]

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/shm")  # noqa: S108 — named, not used
"""Devices that hold nothing and do no harm."""

_DOT_COMPONENT = regex(r"(?:^|[/\\])\.\.(?:[/\\]|$)")
_ENCODED = regex(r"%(?:25)*(?:2e|2f|5c)", re.IGNORECASE)


def is_inside(path: str, *roots: str) -> bool:
    """Whether an absolute, normalised path is one of the roots or lies below one."""
    exactly, below = _bounds(roots)
    return path in exactly or path.startswith(below)


@lru_cache(maxsize=256)
def _bounds(roots: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    bare = tuple(root.rstrip("/") for root in roots if root)
    return frozenset(bare), tuple(f"{root}/" for root in bare)


@lru_cache(maxsize=256)
def at_home(home: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of a home as absolute paths."""
    return tuple(f"{home.rstrip('/')}/{name}" for name in names)


def is_below(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a path in its one spelling is one of the roots or lies below one, however these are spelled."""
    exactly, below = _one_spelling(roots)
    return path in exactly or path.startswith(below)


@lru_cache(maxsize=256)
def _one_spelling(roots: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    return _bounds(tuple(map(as_one_name, roots)))


def locate(raw: str, policy: Policy) -> ResolvedPath | Unreadable:
    """Return the absolute, normalised path a text means; `real` is still the same text.

    `~` and `~/…` are the home; `~name` is another user's, which is not known here.
    """
    if not raw:
        return Unreadable("the path is empty")
    if "\0" in raw:
        return Unreadable("the path contains NUL", "control_character")
    if re.match(r"~[A-Za-z_][A-Za-z0-9_-]*(?:/|$)", raw):
        return Unreadable("the path names another user's home")
    expanded = policy.home + raw[1:] if raw == "~" or raw.startswith("~/") else raw
    text = posixpath.normpath(posixpath.join(policy.workspace, expanded))
    text = "/" + text.lstrip("/")
    relative = not raw.startswith(("/", "~"))
    return ResolvedPath(text, text, escaped=relative and not is_inside(text, policy.workspace))


def is_user_or_file(raw: str) -> bool:
    """Whether a path is `~name`: that user's home, or a file of this name where there is no such user."""
    return re.fullmatch(r"~[A-Za-z_][A-Za-z0-9_-]*", raw) is not None


def could_be_path(text: str) -> bool:
    """Whether a string nobody declared must be confined as a path (DESIGN: `/ ~ .` first, or a `..` part)."""
    if text.startswith(("/", "~", ".")) and "\0" not in text:
        return not re.match(r"~[^A-Za-z_/]", text)
    return bool(_DOT_COMPONENT.search(_decoded(text)))


def _decoded(text: str) -> str:
    """Undo percent-encoding of dots and separators, however often it was applied."""
    return _ENCODED.sub(lambda found: {"2e": ".", "2f": "/", "5c": "\\"}[found[0][-2:].lower()], text)


def writable(policy: Policy) -> tuple[str, ...]:
    """Return the folders that tools or programs may be allowed to change."""
    return tuple(dict.fromkeys((policy.workspace, *policy.sandbox.extra_write, *policy.allowed_paths)))
