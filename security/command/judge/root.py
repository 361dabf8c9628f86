"""Recognise the roots that no command may destroy (`/`, home, the workspace), in any spelling.

Roots are `/`, the system's folders, homes, the workspace itself and what it lies in, and `.git`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase

from ...lazy import regex
from ...paths import is_inside, protected_reason
from ..expand import Candidate, where
from ..syntax import Command, Part, PartKind, Word, marked
from .paths import Scene

__all__ = ["HISTORY", "SYSTEM_ROOTS", "TEMPORARY", "forms", "plainer", "root_of", "spellings", "why_root"]

HISTORY = "a repository's history (.git)"
TEMPORARY = frozenset({"/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp"})  # noqa: S108 — named, not used
SYSTEM_ROOTS = TEMPORARY | frozenset(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /media /mnt /nix /opt /proc /root /run /sbin "
    "/snap /srv /sys /usr /var /Applications /Library /System /Users /Volumes /cores /private".split()
)
_EVERYTHING = regex(r"(?:[*?]|\.(?=[*?\[])|\[!?\^?\.?\])+/*")
_HOMES = regex(r"/(?:home|Users)/[^/]+|/root|/var/root")
_STATE = regex(r"/var/(?!tmp$|folders$)[^/]+")
_KNOWN = regex(r"\$\{(?P<name>HOME|PWD)\b[^}]*\}")
_DEFAULT = regex(r"\$\{\w+:?[-=](?P<word>[A-Za-z0-9_./-]+)\}")


def root_of(word: Word, scene: Scene, *, spares_workspace: bool) -> str | None:
    """Say which root a word means, or None."""
    if word.parts and word.parts[0].kind is PartKind.TILDE and word.parts[0].text not in {"~", "~+", "~-"}:
        return "somebody's home"
    word = plainer(word)
    found = where(word, scene.folders, scene.policy)
    if found is None:
        climbs = word.is_literal and posixpath.normpath(word.text).startswith("..")
        return "a folder above this one" if climbs else None
    for candidate in found:
        for path in spellings(candidate, scene):
            why = why_root(path, scene, spares_workspace=spares_workspace)
            if why is not None:
                return why
    return None


def plainer(word: Word) -> Word:
    """Return a word with other spellings of `$HOME` and `$PWD` replaced by these."""
    parts = tuple(map(_plainer_part, word.parts))
    return word if parts == word.parts else Word(marked(parts), parts)


def _plainer_part(part: Part) -> Part:
    if part.kind is PartKind.EXPANSION and (found := _KNOWN.fullmatch(part.text)) is not None:
        return Part(PartKind.VARIABLE, found["name"], quoted=True)
    if part.kind is PartKind.EXPANSION and (default := _DEFAULT.fullmatch(part.text)) is not None:
        return Part(PartKind.LITERAL, default["word"], quoted=True)
    if isinstance(part.body, Command) and part.body.name == "pwd":
        return Part(PartKind.VARIABLE, "PWD", quoted=True)
    return part


def spellings(candidate: Candidate, scene: Scene) -> Iterator[str]:
    """Yield a candidate's path normalised and resolved; a pattern that matches everything is its folder."""
    path = candidate.path
    if candidate.is_glob:
        folder, _, last = path.rstrip("/").rpartition("/")
        if _EVERYTHING.fullmatch(last):
            path = folder or "/"
        elif last.startswith(".") and fnmatchcase(".git", last):
            path = f"{folder}/.git"
    yield from forms(path, scene)


def forms(path: str, scene: Scene) -> tuple[str, ...]:
    """Return a path normalised and, where that is another one, resolved."""
    plain, real = "/" + posixpath.normpath(path).lstrip("/"), scene.facts.real.get(path)
    return (plain,) if real is None or real == plain else (plain, real)


def why_root(path: str, scene: Scene, *, spares_workspace: bool) -> str | None:
    """Say which root a path is or lies above, or None."""
    workspace, home = scene.policy.workspace, scene.policy.home
    if path == workspace:
        return None if spares_workspace else "the workspace, or what it lies in"
    if path == "/":
        return "the root of the file system"
    if path == home or _HOMES.fullmatch(path):
        return "a home"
    if path in SYSTEM_ROOTS:
        return "a folder of the system"
    if workspace.startswith(f"{path}/"):
        return "the workspace, or what it lies in"
    if home.startswith(f"{path}/"):
        return "what a home lies in"
    if path.endswith("/.git"):
        return HISTORY
    if is_inside(path, workspace):
        return None
    is_systems = protected_reason(path, scene.policy) is not None or _STATE.fullmatch(path) is not None
    return "a part of the system" if is_systems else None
