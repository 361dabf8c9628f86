"""Decide whether the content, or the name, of each path that a word means may be shown.

Paths are judged by their text and by where they lead. Nothing is looked up here: `facts` hold the
state of the disk, and anything missing from them is unknown.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...paths import is_inside, secret_reason
from ...policy import Policy
from ..expand import Candidate, Folders, Ground, where
from ..programs import PLAIN, found_name
from ..syntax import CommandFacts, PartKind, Word

__all__ = ["STREAMS", "Below", "Objection", "Scene", "content_problem", "names_problem"]

STREAMS = frozenset(
    ("/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/stdin /dev/stdout /dev/stderr").split()
)
_ENDLESS = frozenset("/dev/zero /dev/full /dev/random /dev/urandom".split())
# They say which system and machine this is, the same to every program, and hold nothing of anybody's.
_OF_ANY_SYSTEM = frozenset(
    "/etc/os-release /usr/lib/os-release /etc/debian_version /proc/cpuinfo /proc/meminfo /proc/loadavg "
    "/proc/uptime /proc/version".split()
)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a command is not only reading what may be read. `rule` is "secret" where that is a Deny."""

    rule: str
    reason: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """What judging a path needs: the policy, what was looked up, and the folders a command may start in."""

    policy: Policy
    facts: CommandFacts
    folders: Folders

    @property
    def ground(self) -> Ground:
        """Where the line starts."""
        return self.policy

    def problem_with_content(self, path: str) -> Objection | None:
        """Say why what a path holds may not be read without a question."""
        if path in _ENDLESS:
            return Objection("outside", "a device outside of the workspace is read, which never ends", path)
        if path in STREAMS:
            return None
        real = self.facts.real.get(path)
        if real is None:
            return Objection("unknown", "it was not looked up where a path leads", path)
        for form in (posixpath.normpath(path), real):
            why = secret_reason(form, self.policy)
            if why is not None:
                return Objection("secret", f"a file is secret: {why}", form)
        allowed = (self.policy.workspace, *self.policy.allowed_paths)
        if not is_inside(real, *allowed) and real not in _OF_ANY_SYSTEM:
            return Objection("outside", "a file lies outside of the workspace", real)
        return None


@dataclass(frozen=True, slots=True)
class Below:
    """How a program goes through all of a folder: along links, into hidden names, and to which names only."""

    follows: bool = False
    hidden: bool = True
    names: tuple[str, ...] = ()

    def problem(self, inside: str, folder: str, policy: Policy) -> Objection | None:
        """Say why something below a folder may not be read, if it is read at all."""
        if not self.hidden and "/." in inside[len(folder.rstrip("/")) :]:
            return None
        if self.names and not any(fnmatchcase(posixpath.basename(inside), name) for name in self.names):
            return None
        if secret_reason(inside, policy) is not None:
            return Objection("hides", "a folder holds a file that is secret", inside)
        return (
            Objection("outside", "a folder holds a link that leads out of it", inside)
            if self.follows
            else None
        )


def content_problem(word: Word, scene: Scene, below: Below | None = None) -> Objection | None:
    """Say why what a word means, and what lies `below` it, may not be read, or None."""
    if word.is_literal and word.text == "-":
        return None
    found = where(word, scene.folders, scene.ground)
    if found is None:
        return Objection("unknown", "it cannot be told which file is read", word.text)
    for candidate in found:
        reached = (below, _found_below(candidate)) if candidate.below else (below,)
        for path in _expanded(candidate, word, scene):
            if isinstance(path, Objection):
                return path
            problems = (_below(path, scene, one) for one in reached if one is not None)
            problem = scene.problem_with_content(path) or next(filter(None, problems), None)
            if problem is not None:
                return problem
    return None


def _found_below(candidate: Candidate) -> Below:
    """Return how what a search finds is read: by its name, and so is the target of a link so named."""
    name = found_name(candidate.below)
    return Below(follows=not candidate.below.startswith(PLAIN), names=(name,) if name else ())


def _below(path: str, scene: Scene, below: Below) -> Objection | None:
    """Say why what lies below a folder may not be read."""
    found = scene.facts.trees.get(path)
    if found is None:
        return Objection("unknown", "a folder is too big to tell what lies in it", path)
    folder = scene.facts.real.get(path, path)
    problems = (below.problem(inside, folder, scene.policy) for inside in found)
    return next(filter(None, problems), None)


def names_problem(word: Word, scene: Scene) -> Objection | None:
    """Say why not even names and metadata of what a word means may be shown, or None."""
    if word.is_literal and word.text == "-":
        return None
    found = where(word, scene.folders, scene.ground)
    if found is None:
        return Objection("unknown", "it cannot be told which file is meant", word.text)
    for candidate in found:
        for path in _expanded(candidate, word, scene):
            if isinstance(path, Objection):
                return path
            real = scene.facts.real.get(path)
            forms = (posixpath.normpath(path), *([real] if real is not None else []))
            why = next(filter(None, (secret_reason(form, scene.policy) for form in forms)), None)
            if why is not None and path not in STREAMS:
                return Objection("protected", f"a place is secret: {why}", path)
    return None


def _expanded(candidate: Candidate, word: Word, scene: Scene) -> Iterator[str | Objection]:
    if not candidate.is_glob:
        yield candidate.path
        return
    pattern = posixpath.normpath(candidate.path)
    why = secret_reason(pattern, scene.policy) or secret_reason(posixpath.dirname(pattern), scene.policy)
    if why is not None:
        yield Objection("protected", f"a place is secret: {why}", word.text)
        return
    matches = scene.facts.matches.get(candidate.path)
    if matches is None:
        yield Objection("unknown", "a pattern matches too many files to tell which", word.text)
        return
    opens = bool(word.parts) and word.parts[0].kind is PartKind.GLOB
    for path in matches:
        if opens and posixpath.basename(path).startswith(("-", "+", "@")):
            yield Objection("unknown", "a file is named like an option", path)
        yield path
