"""Reads a string that nobody declared as a path where something in the workspace has that name.

What exists is a fact: `wanted_names` says what is to be looked up before judging, `named_paths` reads the
answer. Where nothing has the name, words that hold a slash stay words.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from .command import CommandFacts, Wanted
from .kinds import Effect, Kind
from .paths import ResolvedPath, could_be_path, locate
from .policy import Policy
from .schema import Leaf
from .url import percent_decoded

__all__ = ["named_paths", "wanted_names"]

_LONGEST_PATH = 4096  # Linux' PATH_MAX: no system call takes a longer one.
_DECODINGS = 4
_SPECIAL = re.compile(r"[*?\[]")


def wanted_names(strings: Iterable[Leaf], effects: Effect, policy: Policy) -> Wanted:
    """Return what must be looked up to know which strings name something."""
    matches: dict[str, None] = {}
    real: dict[str, None] = {}
    for path in (path for leaf in strings for path in _spellings(leaf, policy)):
        matches |= dict.fromkeys(map(_pattern, _forms(path)))
        top = _top(path, effects, policy)
        if top is not None:
            matches[_pattern(top)] = real[path] = None
    return Wanted(real=tuple(real), matches=tuple(matches))


def named_paths(
    strings: Iterable[Leaf], effects: Effect, policy: Policy, facts: CommandFacts
) -> Mapping[str, tuple[str, ...]]:
    """Return for each string the absolute paths it names, where these exist.

    A tool that writes may make what does not exist yet: there a path counts as soon as its first part does.
    """

    def exists(path: str | None) -> bool:
        return path is not None and bool(facts.matches.get(_pattern(path)))

    found: dict[str, dict[str, None]] = {}
    for leaf in strings:
        for path in _spellings(leaf, policy):
            named = [form for form in _forms(path) if exists(form)]
            if not named and exists(_top(path, effects, policy)):
                named = [path]
            found.setdefault(leaf.text, {}).update(dict.fromkeys(named))
    return {text: tuple(paths) for text, paths in found.items()}


def _spellings(leaf: Leaf, policy: Policy) -> tuple[str, ...]:
    """Return the absolute paths a string could mean beside the one it is read as anyway.

    That is as it stands and with its percent-escapes undone, as a tool may do.
    """
    if Kind.UNDECLARED not in leaf.kinds:
        return ()
    places = (locate(text, policy) for text in _decoded(leaf.text.strip()))
    found = dict.fromkeys(place.text for place in places if isinstance(place, ResolvedPath))
    as_it_stands = locate(leaf.text, policy)
    if could_be_path(leaf.text) and isinstance(as_it_stands, ResolvedPath):
        found.pop(as_it_stands.text, None)
    return tuple(path for path in found if path != policy.workspace and len(path) <= _LONGEST_PATH)


def _forms(path: str) -> tuple[str, ...]:
    """Return a path with its accents as they are and composed either way: some disks know no difference."""
    if path.isascii():
        return (path,)
    return tuple(dict.fromkeys((path, *(unicodedata.normalize(form, path) for form in ("NFC", "NFD")))))


def _decoded(text: str) -> Iterator[str]:
    """Yield a text, and what it is with its percent-escapes undone, however often they were applied."""
    yield text
    for _ in range(_DECODINGS):
        text, before = percent_decoded(text), text
        if text == before:
            return
        yield text


def _top(path: str, effects: Effect, policy: Policy) -> str | None:
    """Return the first part of a path below the workspace, if the path goes on and the tool may write it."""
    start = policy.workspace.rstrip("/") + "/"
    if Effect.WRITE not in effects or not path.startswith(start):
        return None
    first, _, rest = path.removeprefix(start).partition("/")
    return posixpath.join(start, first) if rest else None


def _pattern(path: str) -> str:
    """Return the pattern that matches a path and nothing else."""
    return _SPECIAL.sub(r"[\g<0>]", path.replace("\\", "\\\\"))
