"""What must be known of the machine to judge a command line? Looked up here, judged elsewhere.

Links are followed, patterns expanded, programs searched for along the path that a command has, trees
gone through for what is secret or leads out, and git repositories looked at (`repository.py`). Nothing
else is opened, and everything is bounded: what is too much to tell is left unknown.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from leeward.security import CommandFacts, Policy, Wanted, is_inside, secret_reason

from .guard import Guard, HardLinks
from .repository import doubts_of

__all__ = ["looked_up", "resolved"]

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

MOST_MATCHES = 512
"""Names a pattern may match before it counts as too many to judge."""

MOST_ENTRIES = 20_000
"""Entries of a tree that are looked at before it counts as too big."""


def looked_up(wanted: Wanted, policy: Policy, search_path: str) -> CommandFacts:
    """Return the facts a line needs, looked up in this thread, which waits for the disk.

    `search_path` is the PATH that the command will have.
    """
    matches = {pattern: _matches(pattern) for pattern in wanted.matches}
    found = [path for paths in matches.values() for path in paths or ()]
    real = resolved((*wanted.real, *found), policy)
    return CommandFacts(
        real=real,
        matches=matches,
        programs={name: _program(name, search_path) for name in wanted.programs},
        trees=_all_hidden(_trees(wanted, matches), policy),
        repositories={path: doubts_of(path) for path in wanted.repositories},
    )


def _trees(wanted: Wanted, matches: Mapping[str, tuple[str, ...] | None]) -> Iterator[str]:
    """Yield the folders to go through; a pattern stands for all it matches."""
    for path in wanted.trees:
        yield from matches.get(path, (path,)) or ()


def resolved(paths: Sequence[str], policy: Policy | None = None) -> dict[str, str]:
    """Return what `Surveyor.resolve` does, looked up in this thread.

    With a policy, another name of a secret file leads to the name by which it is secret.
    """
    followed = ((path, _real(path)) for path in paths)
    found = {path: real for path, real in followed if real is not None}
    if policy is None:
        return found
    links = HardLinks(Guard(policy))
    return {path: _secret_name(real, links) or real for path, real in found.items()}


def _secret_name(path: str, links: HardLinks) -> str | None:
    try:
        return links.secret_name(os.lstat(path))
    except (OSError, ValueError):
        return None


def _real(path: str) -> str | None:
    if path.startswith("~"):
        return os.path.expanduser(path)  # noqa: PTH111 — a text, not a place in the file system
    # What does not exist yet fails the strict way; only then may parts of the path be taken as they are.
    for is_strict in (True, False):
        try:
            return os.path.realpath(path, strict=is_strict)
        except OSError as error:
            if error.errno not in _MISSING:
                return None
        except (ValueError, RecursionError):
            return None
    return None


def _matches(pattern: str) -> tuple[str, ...] | None:
    """Return what a shell's pattern matches, or more; None for too much to tell.

    A set of characters stands for any character, for what is in it depends on the language; and `.*` may
    stand for the folder above, as it does to an older shell.
    """
    found, looked_at = ["/"], 0
    for part in filter(None, pattern.split("/")):
        wanted = _part_pattern(part)
        if isinstance(wanted, str):
            found = [f"{folder.rstrip('/')}/{wanted}" for folder in found]
            continue
        below: list[str] = []
        for folder in found:
            names = _names(folder, MOST_ENTRIES - looked_at)
            looked_at += len(names)
            below += [f"{folder.rstrip('/')}/{name}" for name in names if wanted.fullmatch(name)]
        if looked_at >= MOST_ENTRIES or len(below) > MOST_MATCHES:
            return None
        found = below
    return tuple(sorted(path for path in found if os.path.lexists(path)))


def _names(folder: str, most: int) -> list[str]:
    """Return names in a folder, at most so many, and the two that every folder has."""
    try:
        with os.scandir(folder) as entries:
            return [".", "..", *(entry.name for entry in islice(entries, max(most, 0)))]
    except (OSError, ValueError):
        return []


_PIECE = re.compile(r"\[[*?\[]\]|\*+|\?|\[[!^]?\]?(?:\[[:.=].*?[:.=]\]|[^\]])*\]|\\.|.", re.DOTALL)


def _part_pattern(part: str) -> str | re.Pattern[str]:
    """Return the name that a part of a pattern is, or what it matches."""
    tokens = _PIECE.findall(part)
    if not any(map(_is_open, tokens)):
        return "".join(map(_plain, tokens))
    said = "".join(_regex(token) for token in tokens)
    hidden = "" if tokens[0] == "." else r"(?!\.)"
    return re.compile(hidden + said, re.DOTALL)


def _is_open(token: str) -> bool:
    """Whether a token stands for more than one character; `[*]` is a star, and a lone `[` itself."""
    return token[0] in "*?" or (token[0] == "[" and len(token) > 1 and token[1:-1] not in set("*?["))


def _regex(token: str) -> str:
    if not _is_open(token):
        return re.escape(_plain(token))
    return ".*" if token[0] == "*" else "."


def _plain(token: str) -> str:
    return token[1] if len(token) > 1 else token


def _program(name: str, search_path: str) -> str | None:
    """Return where a program lies with links followed, or None where there is none of that name."""
    if not name or "/" in name or "\0" in name:
        return None
    for folder in search_path.split(":"):
        path = Path(folder, name)
        if path.is_file() and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return None


def _all_hidden(folders: Iterable[str], policy: Policy) -> dict[str, tuple[str, ...] | None]:
    """Return what `_hidden` says of each folder; all of them together are bounded."""
    room = MOST_ENTRIES
    found: dict[str, tuple[str, ...] | None] = {}
    for folder in dict.fromkeys(folders):
        entries = _below(folder, room)
        room -= MOST_ENTRIES if entries is None else len(entries)
        found[folder] = None if entries is None else _hidden(entries, policy)
    return found


def _below(folder: str, most: int) -> list[os.DirEntry[str]] | None:
    """Return everything below a folder, nothing for a file, None for more than `most` entries."""
    try:
        if not Path(folder).is_dir():
            return []
        entries = list(islice(_entries(os.path.realpath(folder)), max(most, 0) + 1))
    except (OSError, ValueError):
        return None
    return entries if len(entries) <= most else None


def _hidden(entries: Iterable[os.DirEntry[str]], policy: Policy) -> tuple[str, ...]:
    """Return which of them are secret files, or links that lead out of what may be read."""
    allowed = (policy.workspace, *policy.allowed_paths)
    return tuple(entry.path for entry in entries if _is_hidden(entry, policy, allowed))


def _is_hidden(entry: os.DirEntry[str], policy: Policy, allowed: tuple[str, ...]) -> bool:
    if entry.is_symlink():
        real = os.path.realpath(entry.path)
        return not is_inside(real, *allowed) or secret_reason(real, policy) is not None
    return secret_reason(entry.path, policy) is not None


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder; one that cannot be entered cannot be read either."""
    waiting = [folder]
    while waiting:
        with suppress(PermissionError), os.scandir(waiting.pop()) as found:
            for entry in found:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
