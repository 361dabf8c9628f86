"""Decide whether the content, or the name, of each path that a word means may be shown.

Paths are judged by their text and by where they lead. Nothing is looked up here: `facts` hold the
state of the disk, and anything missing from them is unknown.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from functools import partial

from ...kinds import CommandFacts
from ...lazy import dataclass
from ...paths import is_inside, secret_reason
from ...policy import Policy
from ..expand import Folders, where
from ..syntax import Word

__all__ = ["STREAMS", "Objection", "Scene", "content_problem", "names_problem"]

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
    def allowed(self) -> tuple[str, ...]:
        """The folders that may be read without a question."""
        return (self.policy.workspace, *self.policy.allowed_paths)

    def problem_with_content(self, path: str) -> Objection | None:
        """Say why what a path holds may not be read without a question."""
        if path in _ENDLESS:
            return Objection("outside", "it reads a device outside the workspace, which never ends", path)
        if path in STREAMS:
            return None
        real = self.facts.real.get(path)
        if real is None:
            return Objection("unknown", "the target of a path was not looked up", path)
        for form in (posixpath.normpath(path), real):
            why = secret_reason(form, self.policy)
            if why is not None:
                return Objection("secret", f"a file is secret: {why}", form)
        if not is_inside(real, *self.allowed) and real not in _OF_ANY_SYSTEM:
            return Objection("outside", "a file lies outside of the workspace", real)
        return None

    def problem_with_name(self, path: str, *, inside: bool) -> Objection | None:
        """Say why not even the name and metadata of a path may be shown without a question."""
        real = self.facts.real.get(path)
        forms = (posixpath.normpath(path), *([real] if real is not None else []))
        why = next(filter(None, (secret_reason(form, self.policy) for form in forms)), None)
        if why is not None and path not in STREAMS:
            return Objection("protected", f"a place is secret: {why}", path)
        if inside and (real is None or not is_inside(real, *self.allowed)):
            return Objection("search", "a search looks outside of the workspace", path)
        return None


def content_problem(word: Word, scene: Scene) -> Objection | None:
    """Say why what a word means may not be read, or None."""
    return _problem(word, scene, "reads", scene.problem_with_content)


def names_problem(word: Word, scene: Scene, *, inside: bool = False) -> Objection | None:
    """Say why not even names and metadata of what a word means may be shown, or None.

    With `inside` these may be shown of the workspace and what else may be read alone.
    """
    return _problem(word, scene, "names", partial(scene.problem_with_name, inside=inside))


def _problem(
    word: Word, scene: Scene, does: str, problem_with: Callable[[str], Objection | None]
) -> Objection | None:
    """Return the first problem with a path that a word means; a pattern could mean any file."""
    if word.text == "-":
        return None
    found = where(word, scene.folders, scene.policy)
    if found is None or any(one.is_glob for one in found):
        return Objection("unknown", f"the file it {does} cannot be determined", word.text)
    return next(filter(None, (problem_with(one.path) for one in found)), None)
