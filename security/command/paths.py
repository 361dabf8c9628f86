"""May the content, or only the name, of what a word means be shown? Judged by text and by where it leads.

Nothing is looked up here: `facts` say what is on the disk, and what they do not say is unknown.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from ..policy import Policy
from ..workspace import is_inside, secret_reason
from .nouns import CommandFacts, PartKind, Word
from .places import Candidate, Folders, Ground, where

__all__ = ["Problem", "Scene", "content_problem", "names_problem"]

_STREAMS = frozenset(
    (
        "/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/stdin /dev/stdout /dev/stderr /dev/tty"
    ).split()
)


@dataclass(frozen=True, slots=True)
class Problem:
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
        return Ground(self.policy.workspace, self.policy.home)

    def at(self, folders: Folders) -> Scene:
        """Return the scene in other folders."""
        return Scene(self.policy, self.facts, folders)

    def problem_with_content(self, path: str) -> Problem | None:
        """Say why what a path holds may not be read without a question."""
        if path in _STREAMS:
            return None
        real = self.facts.real.get(path)
        if real is None:
            return Problem("unknown", "it was not looked up where a path leads", path)
        for form in (posixpath.normpath(path), real):
            why = secret_reason(form, self.policy)
            if why is not None:
                return Problem("secret", f"a file is secret: {why}", form)
        allowed = (self.policy.workspace, *self.policy.allowed_paths)
        if not is_inside(real, *allowed):
            return Problem("outside", "a file lies outside of the workspace", real)
        return None


def content_problem(word: Word, scene: Scene, *, recursive: bool = False) -> Problem | None:
    """Say why the content of what a word means may not be read, or None."""
    if word.is_literal and word.text == "-":
        return None
    found = where(word, scene.folders, scene.ground)
    if found is None:
        return Problem("unknown", "it cannot be told which file is read", word.text)
    for candidate in found:
        for path in _expanded(candidate, word, scene):
            if isinstance(path, Problem):
                return path
            problem = scene.problem_with_content(path) or _below(path, candidate, scene, recursive=recursive)
            if problem is not None:
                return problem
    return None


def _below(path: str, candidate: Candidate, scene: Scene, *, recursive: bool) -> Problem | None:
    """Say why what lies below a folder may not be read."""
    if not recursive and not candidate.below:
        return None
    secret = scene.facts.trees.get(path)
    if secret is None:
        return Problem("unknown", "a folder is too big to tell what lies in it", path)
    if candidate.below and candidate.below != _PLAIN:
        return Problem("unknown", "what is found may be links", path)
    for inside in secret:
        if secret_reason(inside, scene.policy) is not None:
            return Problem("hides", "a folder holds a file that is secret", inside)
        return Problem("outside", "a folder holds a link that leads out of it", inside)
    return None


_PLAIN = "each plain file found"


def names_problem(word: Word, scene: Scene) -> Problem | None:
    """Say why not even names and metadata of what a word means may be shown, or None."""
    if word.is_literal and word.text == "-":
        return None
    found = where(word, scene.folders, scene.ground)
    if found is None:
        return Problem("unknown", "it cannot be told which file is meant", word.text)
    for candidate in found:
        for path in _expanded(candidate, word, scene):
            if isinstance(path, Problem):
                return path
            real = scene.facts.real.get(path)
            forms = (posixpath.normpath(path), *([real] if real is not None else []))
            why = next(filter(None, (secret_reason(form, scene.policy) for form in forms)), None)
            if why is not None and path not in _STREAMS:
                return Problem("protected", f"a place is secret: {why}", path)
    return None


def _expanded(candidate: Candidate, word: Word, scene: Scene) -> Iterator[str | Problem]:
    if not candidate.is_glob:
        yield candidate.path
        return
    pattern = posixpath.normpath(candidate.path)
    why = secret_reason(pattern, scene.policy) or secret_reason(posixpath.dirname(pattern), scene.policy)
    if why is not None:
        yield Problem("protected", f"a place is secret: {why}", word.text)
        return
    matches = scene.facts.matches.get(candidate.path)
    if matches is None:
        yield Problem("unknown", "a pattern matches too many files to tell which", word.text)
        return
    opens = bool(word.parts) and word.parts[0].kind is PartKind.GLOB
    for path in matches:
        if opens and posixpath.basename(path).startswith("-"):
            yield Problem("unknown", "a file is named like an option", path)
        yield path
