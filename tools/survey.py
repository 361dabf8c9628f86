"""Look up what judging needs to know of the machine, in a thread, before a call is judged.

Links are followed, patterns expanded, programs searched for along a command's path, trees walked for secret
names and for what leads out, and the settings of git repositories read. Nothing else is opened, and
everything is bounded: by steps counted over the whole call, and the search for other names of secret files by
its own count of entries (`files/guard.py`). What is too much to look up is left unknown.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import trio

from leeward.security.command import CommandFacts, Wanted
from leeward.security.paths import FileState, is_inside, secret_reason, writable
from leeward.security.policy import Policy
from leeward.security.text import WildcardToken, wildcard_expression, wildcard_tokens

from .files import Guard, HardLinks, states
from .process import SEARCH_PATH, Programs, system_programs
from .repository import doubts_of

__all__ = ["NamePattern", "Surveyor", "TooMuch", "Work", "followed", "looked_up", "resolved"]


MOST_STEPS = 1_000_000
"""Steps for one call: an entry listed, a name held against a pattern, a part of a path followed."""

# Linux gives up behind so many links, so nobody gets further than this.
_MOST_LINKS = 40
# As many comparisons of two characters take about as long as one look at the disk.
_COMPARISONS = 64
_CHARACTERS = 256
# Nobody means a name by a pattern of so many characters, and what it matches is not worked out.
_LONGEST_PART = 4096

_OF_SYSTEM = frozenset(SEARCH_PATH.split(":"))

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class TooMuch(Exception):
    """Too much was looked up for one call; what was asked for last is unknown."""


@dataclass(slots=True)
class Work:
    """What may still be looked at for one call."""

    left: int = MOST_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count some steps.

        Raises:
            TooMuch: there are none left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooMuch


class NamePattern:
    """A part of a shell's pattern: what it matches, or more.

    `literal` is the one name it can only be, or None. To some shells, and in some languages to all, a
    character beyond ASCII is as many as it has bytes: a name matches that does so in either way of counting.
    """

    def __init__(self, part: str) -> None:
        tokens = wildcard_tokens(part)
        is_open = any(token.wildcard for token in tokens)
        self.literal = None if is_open else "".join(token.text for token in tokens)
        self._expression = wildcard_expression(tokens) if is_open else None
        self._part = part
        self._takes_hidden = tokens[:1] == [WildcardToken("", ".")]
        self._length = len(tokens)

    def matches(self, name: str, work: Work) -> bool:
        """Whether a name fits.

        Raises:
            TooMuch: the work for this call is done.
        """
        work.spend(1 + len(name) * self._length // _COMPARISONS)
        if self._expression is None:
            return name == self.literal
        if name.startswith(".") and not self._takes_hidden:
            return False
        if self._expression.match(name) is not None:
            return True
        return not name.isascii() and self._by_bytes.match(_bytewise(name)) is not None

    @cached_property
    def _by_bytes(self) -> re.Pattern[str]:
        return wildcard_expression(wildcard_tokens(_bytewise(self._part)))


def _bytewise(text: str) -> str:
    """Return a text with a character for each of its bytes."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def followed(path: str, work: Work) -> str | None:
    """Return an absolute path with all links followed; None where one cannot be, or too many are.

    Parts that do not exist are kept as they stand, and `..` behind them takes one away.

    Raises:
        TooMuch: the work for this call is done.
    """
    here, waiting, links = "/", path.split("/")[::-1], 0
    while waiting:
        # The path is written anew for each of its parts, so a long one costs more.
        work.spend(1 + len(here) // _CHARACTERS)
        part = waiting.pop()
        if part == "..":
            here = here.rpartition("/")[0] or "/"
        elif part not in {"", "."}:
            try:
                target = os.readlink(f"{here.rstrip('/')}/{part}")  # noqa: PTH115 — texts, as they are judged
            except OSError as error:
                # EINVAL says that it is no link.
                if error.errno != errno.EINVAL and error.errno not in _MISSING:
                    return None
                here = f"{here.rstrip('/')}/{part}"
                continue
            except ValueError:
                return None
            links += 1
            if links > _MOST_LINKS:
                return None
            here = "/" if target.startswith("/") else here
            waiting += target.split("/")[::-1]
    return here


MOST_MATCHES = 512
"""Names a pattern may match before it counts as too many to judge."""

MOST_ENTRIES = 20_000
"""Entries of a tree that are looked at before it counts as too big."""


def looked_up(
    wanted: Wanted, policy: Policy, programs: Programs | str, work: Work | None = None
) -> CommandFacts:
    """Return the facts a line needs, looked up in this thread, which waits for the disk.

    `programs` are those the command will find, or the PATH alone; `work` is what may be looked at for it.
    """
    work = Work() if work is None else work
    known = system_programs(programs) if isinstance(programs, str) else programs
    matches = {pattern: _matches(pattern, work) for pattern in wanted.matches}
    exists = {path: _exists(path, work) for path in wanted.exists}
    found = [path for paths in matches.values() for path in paths or ()]
    found += [path for path, is_there in exists.items() if is_there]
    real = resolved((*wanted.real, *found), policy, work)
    return CommandFacts(
        real=real,
        matches=matches,
        programs={name: _program(name, known, policy) for name in wanted.programs},
        trees=_all_hidden(_trees(wanted, matches), policy, work),
        repositories={path: _doubts(path, work) for path in wanted.repositories},
        exists=exists,
    )


def _exists(path: str, work: Work) -> bool | None:
    """Return whether anything has this name, None for too much to tell."""
    try:
        # The kernel goes through the path part by part.
        work.spend(1 + len(path) // _CHARACTERS)
        return os.path.lexists(path)
    except TooMuch:
        return None
    except ValueError:
        return False


def _doubts(folder: str, work: Work) -> tuple[str, ...]:
    try:
        return doubts_of(folder, work.spend)
    except TooMuch:
        return (".git is too big to tell",)


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
        if len(part) > _LONGEST_PART:
            return None
        work.spend(len(part) // _CHARACTERS)
        wanted = NamePattern(part)
        if wanted.literal is not None:
            # Every path is written anew for each of its parts, so a long one costs more.
            work.spend(len(found) + sum(map(len, found)) // _CHARACTERS)
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


def _program(name: str, programs: Programs, policy: Policy) -> str | None:
    """Return where a program of the workspace or of the system lies, the latter's links followed, or None.

    A link in the workspace to a program of the system runs that by a name which says something else. What a
    person installs may ask the workspace what to run, as the programs of rustup, pyenv and asdf do.
    """
    if not name or "/" in name or "\0" in name:
        return None
    found = programs.find(name)
    if found is None or is_inside(found, *writable(policy)):
        return found
    real = os.path.realpath(found)
    return real if {posixpath.dirname(found), posixpath.dirname(real)} & _OF_SYSTEM else None


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


class Surveyor:
    """Looks at the local disk; the `Surveyor` the pipeline is given.

    `programs` are those that commands find; `policy` tells which files are secret, whatever other names
    they have, and `history` the name of one in what git holds of the workspace.
    """

    def __init__(
        self,
        programs: Programs | None = None,
        policy: Policy | None = None,
        history: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._programs = Programs() if programs is None else programs
        self._policy = policy
        self._history = history

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return for each absolute path the path with all links followed, in one hop to a thread.

        Parts that do not exist, or have a name no disk can hold, are kept as they are. A path that
        cannot be followed for another reason (a loop, a link that may not be read, a folder that may not
        be entered) has no entry: nobody can tell where it leads. `~name` stands for itself if there is no
        user of that name, and else for that user's home. Only links are read, nothing is opened,
        so a FIFO or a device does not block; a dead network mount can be cancelled.
        """
        wanted = tuple(dict.fromkeys(paths))
        if not wanted:
            return {}
        return await trio.to_thread.run_sync(resolved, wanted, self._policy, abandon_on_cancel=True)

    async def look_up(self, wanted: Wanted, policy: Policy) -> CommandFacts:
        """Return what judging a command line asks for, in one hop to a thread."""
        found = await trio.to_thread.run_sync(
            looked_up, wanted, policy, self._programs, abandon_on_cancel=True
        )
        if not wanted.history or self._history is None:
            return found
        return replace(found, history=dict.fromkeys(wanted.history, await self._history()))

    async def states(self, paths: Sequence[str], policy: Policy) -> Mapping[str, FileState]:
        """Return what stands at paths without links, as `states` does, in one hop to a thread."""
        return await trio.to_thread.run_sync(states, paths, policy, abandon_on_cancel=True)
