"""Look up the facts a call is judged by (links, programs, file hashes), in a thread, before judging.

Links are followed, patterns expanded, and programs searched for along a command's path. Nothing is opened but
what a line may run by name, and everything is bounded: by steps counted over the whole call, and the search
for other names of secret files by its own count of entries (`files/guard.py`). What is too much to look up is
left unknown.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import trio

from leeward.memory.changes import CallChanges, last_numbers
from leeward.security.kinds import CommandFacts, Wanted
from leeward.security.paths import FileState, is_inside, writable
from leeward.security.text import WildcardToken, wildcard_expression, wildcard_tokens

from .code_files import CodeFile, code_files
from .files import Guard, HardLinks, states
from .process import SEARCH_PATH, Programs, system_programs
from .work import CHARACTERS, MOST_STEPS, TooMuch, Work, followed

if TYPE_CHECKING:
    from leeward.memory.database import Row
    from leeward.security.policy import Policy

__all__ = [
    "MOST_STEPS",
    "NamePattern",
    "Surveyor",
    "TooMuch",
    "Work",
    "followed",
    "looked_up",
    "looked_up_with",
    "resolved",
]


# As many comparisons of two characters take about as long as one look at the disk.
_COMPARISONS = 64
# Nobody means a name by a pattern of so many characters, and what it matches is not worked out.
_LONGEST_PART = 4096

_OF_SYSTEM = frozenset(SEARCH_PATH.split(":"))


class NamePattern:
    """A part of a shell's pattern: what it matches, or more.

    `literal` is the one name it can only be, or None. To some shells, and in some languages to all, a
    character beyond ASCII is as many as it has bytes: a name matches that does so in either way of counting.
    """

    def __init__(self, part: str) -> None:
        tokens = wildcard_tokens(part)
        is_open = any(token.wildcard for token in tokens)
        self.literal: str | None = None if is_open else "".join(token.text for token in tokens)
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


MOST_MATCHES = 512
"""Names a pattern may match before it counts as too many to judge."""

MOST_ENTRIES = 20_000
"""Entries of folders that are held against a pattern before it counts as too many."""


def looked_up(
    wanted: Wanted, policy: Policy, programs: Programs | str, work: Work | None = None
) -> CommandFacts:
    """Return the facts a line needs, looked up in this thread, which waits for the disk.

    `programs` are those the command will find, or the PATH alone; `work` is what may be looked at for it.
    Which files calls changed is not asked here.
    """
    return _looked_up(wanted, policy, programs, work)[0]


def looked_up_with(wanted: Wanted, policy: Policy, programs: Programs, rows: Sequence[Row]) -> CommandFacts:
    """Return the same with the changes of calls in rows of the store (`memory/changes.py`)."""
    facts, code = _looked_up(wanted, policy, programs)
    latest = max((number for _, number, is_open in rows if not is_open), default=0)
    return _with_changes(facts, policy, last_numbers(rows, _names_of(code)), latest)


def _with_changes(
    facts: CommandFacts, policy: Policy, numbers: Mapping[str, int], latest: int
) -> CommandFacts:
    if not facts.code and not numbers:
        return facts
    return replace(facts, changed={**numbers, policy.workspace: latest})


def _names_of(code: Mapping[str, CodeFile]) -> dict[str, tuple[str, ...]]:
    return {path: file.names for path, file in code.items()}


def _looked_up(
    wanted: Wanted, policy: Policy, programs: Programs | str, work: Work | None = None
) -> tuple[CommandFacts, Mapping[str, CodeFile]]:
    work = Work() if work is None else work
    known = system_programs(programs) if isinstance(programs, str) else programs
    matches = {pattern: _matches(pattern, work) for pattern in wanted.matches}
    exists = {path: _exists(path, work) for path in wanted.exists}
    found = [path for paths in matches.values() for path in paths or ()]
    found += [path for path, is_there in exists.items() if is_there]
    # Tools of ours refuse to open a FIFO, and say so; a program in a command line would read from it.
    followed_to = resolved((*wanted.real, *found), policy, work)
    real = {path: place for path, place in followed_to.items() if not _is_for_another(place)}
    located = {name: _program(name, known, policy) for name in wanted.programs}
    named = (path if "/" in path else _program(path, known, policy) for path in wanted.code)
    own = (path for path in named if path is not None)
    code = code_files(dict.fromkeys(own), policy, work)
    facts = CommandFacts(
        real=real,
        matches=matches,
        programs=located,
        exists=exists,
        code={path: file.digest for path, file in code.items() if file.digest},
    )
    return facts, code


def _exists(path: str, work: Work) -> bool | None:
    """Return whether anything has this name, None for too much to tell."""
    try:
        # The kernel goes through the path part by part.
        work.spend(1 + len(path) // CHARACTERS)
        return os.path.lexists(path)
    except TooMuch:
        return None
    except ValueError:
        return False


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
    return {path: _judged_name(real, links) for path, real in found.items()}


def _judged_name(path: str, links: HardLinks) -> str:
    try:
        return links.secret_name(os.lstat(path)) or path
    except (OSError, ValueError):
        return path


def _is_for_another(path: str) -> bool:
    """Whether a program that reads there takes what was meant for another: from a FIFO or a socket."""
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _real(path: str, work: Work) -> str | None:
    if path.startswith("~"):
        return os.path.expanduser(path)  # noqa: PTH111 — a text, not a place in the file system
    try:
        return followed(path, work)
    except TooMuch:
        return None


def _matches(pattern: str, work: Work) -> tuple[str, ...] | None:
    """Return what a shell's pattern matches, or more; None for too much to tell.

    `.*` may match the folder above, as it does in an older shell.
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
        work.spend(len(part) // CHARACTERS)
        wanted = NamePattern(part)
        if wanted.literal is not None:
            # Every path is written anew for each of its parts, so a long one costs more.
            work.spend(len(found) + sum(map(len, found)) // CHARACTERS)
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


class Surveyor:
    """Looks at the local disk; the `Surveyor` the pipeline is given.

    `programs` are those that commands find; `policy` tells which files are secret, whatever other names
    they have, `history` the name of one in what git holds of the workspace, and `changes` what calls changed.
    """

    def __init__(
        self,
        programs: Programs | None = None,
        policy: Policy | None = None,
        history: Callable[[], Awaitable[str]] | None = None,
        changes: CallChanges | None = None,
    ) -> None:
        self._programs = Programs() if programs is None else programs
        self._policy = policy
        self._history = history
        self._changes = changes

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return for each absolute path the path with all links followed, in one hop to a thread.

        Parts that do not exist, or have a name no disk can hold, are kept as they are. A path that
        cannot be followed for another reason (a loop, a link that may not be read, a folder that may not
        be entered) has no entry: nobody can tell where it leads. `~name` is returned unchanged if there is no
        user of that name, and else for that user's home. Only links are read, nothing is opened,
        so a FIFO or a device does not block; a dead network mount can be cancelled.
        """
        wanted = tuple(dict.fromkeys(paths))
        if not wanted:
            return {}
        return await trio.to_thread.run_sync(resolved, wanted, self._policy, abandon_on_cancel=True)

    async def look_up(self, wanted: Wanted, policy: Policy) -> CommandFacts:
        """Return what judging a command line asks for, in one hop to a thread.

        Raises:
            RecordError: what calls changed could not be read.
        """
        # What a call changes while files are looked at counts as changed since then.
        changes, workspace = self._changes if wanted.code else None, policy.workspace
        latest = await changes.latest() if changes is not None else 0
        found, code = await trio.to_thread.run_sync(
            _looked_up, wanted, policy, self._programs, abandon_on_cancel=True
        )
        if changes is not None:
            numbers = await changes.numbers(workspace, _names_of(code))
            found = _with_changes(found, policy, numbers, latest)
        if not wanted.history or self._history is None:
            return found
        return replace(found, history=dict.fromkeys(wanted.history, await self._history()))

    async def states(self, paths: Sequence[str], policy: Policy) -> Mapping[str, FileState]:
        """Return the state of paths without links, as `states` does, in one hop to a thread."""
        return await trio.to_thread.run_sync(states, paths, policy, abandon_on_cancel=True)
