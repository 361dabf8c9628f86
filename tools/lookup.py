"""What must be known of the machine to judge a command line? Looked up here, judged elsewhere.

Links are followed, patterns expanded, programs searched for along the path that a command has, trees
gone through for what is secret or leads out, and git repositories looked at (`repository.py`). Nothing
else is opened, and everything is bounded: what is too much to tell is left unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from leeward.security.command import CommandFacts, Wanted
from leeward.security.paths import is_inside, secret_reason
from leeward.security.policy import Policy

from .bounded import NamePattern, TooMuch, Work, followed
from .files import Guard, HardLinks
from .repository import doubts_of

__all__ = ["looked_up", "resolved"]

MOST_MATCHES = 512
"""Names a pattern may match before it counts as too many to judge."""

MOST_ENTRIES = 20_000
"""Entries of a tree that are looked at before it counts as too big."""


def looked_up(wanted: Wanted, policy: Policy, search_path: str) -> CommandFacts:
    """Return the facts a line needs, looked up in this thread, which waits for the disk.

    `search_path` is the PATH that the command will have.
    """
    work = Work()
    matches = {pattern: _matches(pattern, work) for pattern in wanted.matches}
    found = [path for paths in matches.values() for path in paths or ()]
    real = resolved((*wanted.real, *found), policy, work)
    return CommandFacts(
        real=real,
        matches=matches,
        programs={name: _program(name, search_path) for name in wanted.programs},
        trees=_all_hidden(_trees(wanted, matches), policy, work),
        repositories={path: doubts_of(path) for path in wanted.repositories},
    )


def _trees(wanted: Wanted, matches: Mapping[str, tuple[str, ...] | None]) -> Iterator[str]:
    """Yield the folders to go through; a pattern stands for all it matches."""
    for path in wanted.trees:
        yield from matches.get(path, (path,)) or ()


def resolved(paths: Sequence[str], policy: Policy | None = None, work: Work | None = None) -> dict[str, str]:
    """Return what `Surveyor.resolve` does, looked up in this thread.

    With a policy, another name of a secret file leads to the name by which it is secret.
    """
    work = Work() if work is None else work
    real_paths = ((path, _real(path, work)) for path in dict.fromkeys(paths))
    found = {path: real for path, real in real_paths if real is not None}
    if policy is None:
        return found
    links = HardLinks(Guard(policy))
    return {path: _secret_name(real, links) or real for path, real in found.items()}


def _secret_name(path: str, links: HardLinks) -> str | None:
    try:
        return links.secret_name(os.lstat(path))
    except (OSError, ValueError):
        return None


def _real(path: str, work: Work) -> str | None:
    if path.startswith("~"):
        return os.path.expanduser(path)  # noqa: PTH111 — a text, not a place in the file system
    try:
        return followed(path, work)
    except TooMuch:
        return None


def _matches(pattern: str, work: Work) -> tuple[str, ...] | None:
    """Return what a shell's pattern matches, or more; None for too much to tell.

    `.*` may stand for the folder above, as it does to an older shell.
    """
    try:
        found = _matching(pattern, work)
    except TooMuch:
        return None
    return None if found is None else tuple(sorted(path for path in found if os.path.lexists(path)))


def _matching(pattern: str, work: Work) -> list[str] | None:
    found, looked_at = ["/"], 0
    for part in filter(None, pattern.split("/")):
        wanted = NamePattern(part)
        if wanted.literal is not None:
            found = [f"{folder.rstrip('/')}/{wanted.literal}" for folder in found]
            continue
        below: list[str] = []
        for folder in found:
            names = _names(folder, MOST_ENTRIES - looked_at)
            looked_at += len(names)
            below += [f"{folder.rstrip('/')}/{name}" for name in names if wanted.matches(name, work)]
            if looked_at >= MOST_ENTRIES or len(below) > MOST_MATCHES:
                return None
        found = below
    return found


def _names(folder: str, most: int) -> list[str]:
    """Return names in a folder, at most so many, and the two that every folder has."""
    try:
        with os.scandir(folder) as entries:
            return [".", "..", *(entry.name for entry in islice(entries, max(most, 0)))]
    except (OSError, ValueError):
        return []


def _program(name: str, search_path: str) -> str | None:
    """Return where a program lies with links followed, or None where there is none of that name."""
    if not name or "/" in name or "\0" in name:
        return None
    for folder in search_path.split(":"):
        path = Path(folder, name)
        with suppress(OSError):  # no disk holds a name this long
            if path.is_file() and os.access(path, os.X_OK):
                return os.path.realpath(path)
    return None


def _all_hidden(folders: Iterable[str], policy: Policy, work: Work) -> dict[str, tuple[str, ...] | None]:
    """Return what `_hidden` says of each folder; all of them together are bounded."""
    room = MOST_ENTRIES
    found: dict[str, tuple[str, ...] | None] = {}
    for folder in dict.fromkeys(folders):
        try:
            entries = _below(folder, room, work)
            found[folder] = None if entries is None else _hidden(entries, policy, work)
        except TooMuch:
            entries = found[folder] = None
        room -= MOST_ENTRIES if entries is None else len(entries)
    return found


def _below(folder: str, most: int, work: Work) -> list[os.DirEntry[str]] | None:
    """Return everything below a folder, nothing for a file, None for more than `most` entries."""
    try:
        if not Path(folder).is_dir():
            return []
        real = followed(folder, work)
        if real is None:
            return None
        entries = list(islice(_entries(real), max(most, 0) + 1))
        work.spend(len(entries))
    except (OSError, ValueError):
        return None
    return entries if len(entries) <= most else None


def _hidden(entries: Iterable[os.DirEntry[str]], policy: Policy, work: Work) -> tuple[str, ...]:
    """Return which of them are secret files, or links that lead out of what may be read."""
    allowed = (policy.workspace, *policy.allowed_paths)
    return tuple(entry.path for entry in entries if _is_hidden(entry, policy, allowed, work))


def _is_hidden(entry: os.DirEntry[str], policy: Policy, allowed: tuple[str, ...], work: Work) -> bool:
    if entry.is_symlink():
        real = followed(entry.path, work)
        return real is None or not is_inside(real, *allowed) or secret_reason(real, policy) is not None
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
