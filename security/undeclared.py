"""Read an undeclared string as a path if something in the workspace has that name.

What exists is a fact: `wanted_names` says what is to be looked up before judging, `named_paths` reads the
answer. Where nothing has the name, words that hold a slash stay words.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from .kinds import CommandFacts, Effect, Kind, Wanted
from .lazy import regex
from .paths import ResolvedPath, could_be_path, locate
from .policy import Policy
from .schema import Leaf
from .url import percent_decoded

__all__ = ["named_paths", "wanted_names"]

_LONGEST_PATH = 4096  # Linux' PATH_MAX: no system call takes a longer one.
_DECODINGS = 4
_MARKS = "'\"`<>"
_PLACE_IN_FILE = regex(r"(?:#.*|(?::[0-9]+){1,2}(?:-[0-9]+)?:?)\Z", re.DOTALL)
# A character of a path takes up to eleven, as in `%2525252541`.
_LONGEST_TEXT = 11 * _LONGEST_PATH
# What all paths of a call may be together: many times what a list of all files of a big project is.
_MOST_CHARACTERS = 1 << 20
# No path has a name of this length, so nobody looked up where it leads.
_UNTOLD = "/" + "?" * _LONGEST_PATH


def wanted_names(strings: Iterable[Leaf], effects: Effect, policy: Policy) -> Wanted:
    """Return what must be looked up to know which strings name something."""
    exists: dict[str, None] = {}
    real: dict[str, None] = {}
    for path in (path for _, paths in _read_as(strings, policy) for path in paths or ()):
        exists |= dict.fromkeys(_forms(path))
        top = _top(path, effects, policy)
        if top is not None:
            exists[top] = real[path] = None
    return Wanted(real=tuple(real), exists=tuple(exists))


def named_paths(
    strings: Iterable[Leaf], effects: Effect, policy: Policy, facts: CommandFacts
) -> Mapping[str, tuple[str, ...]]:
    """Return for each string the absolute paths it names, where these exist.

    A tool that writes may make what does not exist yet: there a path counts as soon as its first part does.
    What there was too much of to tell is a path of which nobody knows where it leads.
    """

    def exists(path: str | None) -> bool:
        return path is not None and facts.exists.get(path, False) is not False

    found: dict[str, dict[str, None]] = {}
    for leaf, paths in _read_as(strings, policy):
        if paths is None:
            found.setdefault(leaf.text, {})[_UNTOLD] = None
        for path in paths or ():
            named = [form for form in _forms(path) if exists(form)]
            if not named and exists(_top(path, effects, policy)):
                named = [path]
            found.setdefault(leaf.text, {}).update(dict.fromkeys(named))
    return {text: tuple(paths) for text, paths in found.items()}


def _read_as(strings: Iterable[Leaf], policy: Policy) -> Iterator[tuple[Leaf, tuple[str, ...] | None]]:
    """Yield each string with the paths it could mean, None where a call has more of them than are read."""
    left = _MOST_CHARACTERS
    for leaf in strings:
        if Kind.UNDECLARED not in leaf.kinds or len(leaf.text) > _LONGEST_TEXT:
            continue
        if left < 0:
            yield leaf, None
            continue
        left -= len(leaf.text)
        paths = _spellings(leaf, policy)
        left -= sum(map(len, paths))
        yield leaf, paths


def _spellings(leaf: Leaf, policy: Policy) -> tuple[str, ...]:
    """Return the absolute paths a string could mean beside the one it is read as anyway.

    That is the text unchanged, with its percent-escapes undone, and without what tools take off a path.
    """
    places = (locate(text, policy) for decoded in _decoded(leaf.text.strip()) for text in _bared(decoded))
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


def _bared(text: str) -> Iterator[str]:
    """Yield a text, and the path in it without marks, the name of a setting, or a place in the file."""
    yield text
    for part in dict.fromkeys((text, text.partition("=")[2].strip())):
        bare = _PLACE_IN_FILE.sub("", part.strip(_MARKS).removeprefix("@").strip(_MARKS))
        yield from (one for one in (bare, bare.replace("\\", "/")) if one)


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
    if not effects & (Effect.CREATE | Effect.WRITE) or not path.startswith(start):
        return None
    first, _, rest = path.removeprefix(start).partition("/")
    return posixpath.join(start, first) if rest else None
