"""Which parts of an action does a permission rule speak of?

A pattern is held against canonical forms only, in the manner of what it is held against:

    command   words, each a glob; a last `*` stands for any further words      git status   pytest *
    URL       [scheme://]host[:port][/path glob]; a host may begin with `*.`   docs.rs/*    *.example.com
    path      glob on the absolute path; `*` stays in a folder, `**` does not  src/**       ~/notes/*.md

A deny or ask rule speaks of an action if it matches any part of it; an allow rule must cover all.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial

from .call import Action, Atom, Kind, Place
from .command import CommandLine
from .destination import Destination
from .policy import Policy, Rule
from .url import DEFAULT_PORTS, Url

__all__ = ["JUDGED", "covers", "exact_patterns", "matched", "pattern_problem"]

_URL_PATTERN = re.compile(
    r"(?:(?P<scheme>[A-Za-z]+)://)?(?P<host>[^/]*?)(?::(?P<port>\d{1,5}))?(?P<path>/.*)?", re.DOTALL
)
_RANGE = re.compile(r"\[!?(.)-(.)[^]]*\]")
_WILDCARDS = re.compile(r"\[[^]]*\]|[*?]+")
_QUOTES = str.maketrans("", "", "\"'\\")
JUDGED = (Kind.PATH, Kind.URL, Kind.COMMAND, Kind.DESTINATION, Kind.RESOURCE_ID)
"""The kinds a rule can speak of: what a call is about, not what it says."""


def matched(rule: Rule, action: Action, policy: Policy) -> tuple[Atom, ...] | None:
    """Return what of the action a rule speaks of (all of it without a pattern), or None for nothing."""
    if not fnmatchcase(action.call.tool, rule.tool):
        return None
    judged = action.of_kind(*JUDGED)
    if rule.match is None:
        return judged
    return tuple(atom for atom in judged if _speaks_of(rule.match, atom, policy)) or None


def _speaks_of(pattern: str, atom: Atom, policy: Policy) -> bool:
    """Whether a pattern matches any part of an atom: any sub-command, a path by either of its names."""
    match atom.canonical:
        case CommandLine(actions):
            # A program called by its path is the same program; no denial is lost by that.
            called = (*actions, *((posixpath.basename(argv[0]), *argv[1:]) for argv in actions))
            return any(_matches_words(argv, pattern) for argv in called)
        case Place(text, real):
            return any(_matches_path(path, policy, pattern) for path in (text, real))
        case Url() as url:
            return _matches_url(url, pattern, widely=True)
        case (str() | Destination()) as other:
            return fnmatchcase(str(other), pattern)
    # What could not be read is spoken of by every rule for its kind of thing: a Deny must not be evaded.
    return _words_appear(pattern, atom.raw)


def covers(rules: tuple[Rule, ...], tool: str, atom: Atom, policy: Policy) -> Rule | None:
    """Return a rule that answers for an atom, or None; each sub-command must be covered by one of them."""
    named = [rule for rule in rules if rule.match is not None and fnmatchcase(tool, rule.tool)]
    units: list[Callable[[str], bool]]
    match atom.canonical:
        case CommandLine(actions):
            units = [partial(_matches_words, argv) for argv in actions]
        case Place() as place:
            units = [partial(_matches_place, place, policy)]
        case Url() as url:
            units = [partial(_matches_url, url)]
        case (str() | Destination()) as other:
            units = [partial(fnmatchcase, str(other))]
        case _:
            return None
    found = [next((rule for rule in named if rule.match and unit(rule.match)), None) for unit in units]
    return found[0] if found and all(found) else None


def exact_patterns(atom: Atom) -> tuple[str, ...]:
    """Return the narrowest patterns that cover an atom: one for each sub-command, else one."""
    match atom.canonical:
        case CommandLine(actions):
            return tuple(shlex.join(map(_literal, argv)) for argv in actions)
        case Url() as url:
            return (_literal(url.text.partition("#")[0]),)
        case Place() as place:
            return (_literal(place.real),) if place.real == place.text else ()
        case (str() | Destination()) as other:
            return (_literal(str(other)),)
    return ()


def pattern_problem(pattern: str) -> str | None:
    """Say why a pattern can match nothing as it stands, or None; used where rules are read."""
    if not pattern.strip():
        return "the pattern is empty"
    try:
        words = shlex.split(pattern)
    except ValueError:
        return "a quotation in the pattern is not closed"
    if pattern.count("[") != pattern.count("]"):
        return "a bracket in the pattern is not closed"
    if any(first > last for first, last in _RANGE.findall(pattern)):
        return "a range in the pattern runs backwards"
    host = pattern.partition("://")[2].split("/")[0]
    if "*" in host and "://" in pattern and not host.startswith("*."):
        return "a host may only begin with `*.`"
    return None if words else "the pattern is empty"


def _literal(text: str) -> str:
    """Escape what a glob would read as a wildcard."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def _matches_words(argv: tuple[str, ...], pattern: str) -> bool:
    """Whether each word matches its glob; a last `*` word takes any number of words, even none."""
    words = _words(pattern)
    if words and words[-1] == "*":
        words = words[:-1]
        argv = argv[: len(words)] if len(argv) >= len(words) else argv
    return len(argv) == len(words) and all(map(fnmatchcase, argv, words))


def _matches_place(place: Place, policy: Policy, pattern: str) -> bool:
    """Whether a pattern covers a path by both of its names: a link must not widen what was allowed."""
    return all(_matches_path(path, policy, pattern) for path in (place.text, place.real))


def _matches_path(path: str, policy: Policy, pattern: str) -> bool:
    if pattern == "~" or pattern.startswith("~/"):
        pattern = policy.home + pattern[1:]
    elif not pattern.startswith(("/", "**")):
        pattern = posixpath.join(_literal(policy.workspace), pattern)
    # A pattern is normalised like the paths are; one that ends in a slash is a folder with all in it.
    below = ["**"] if pattern.endswith("/") else []
    wanted = posixpath.normpath(pattern).lstrip("/").split("/") + below
    return _matches_parts(path.lstrip("/").split("/"), wanted)


def _matches_parts(parts: list[str], wanted: list[str]) -> bool:
    """Hold the parts of a path against those of a glob; `**` is any number, as the last one at least one.

    Walked once, with all places of the glob that may have been reached: no path can make it slow.
    """
    reached = _behind({0}, wanted)
    for part in parts:
        reached.discard(len(wanted))
        stays = {place for place in reached if wanted[place] == "**"}
        goes_on = {place + 1 for place in reached if fnmatchcase(part, wanted[place])}
        reached = _behind(stays | goes_on, wanted)
    return len(wanted) in reached


def _behind(reached: set[int], wanted: list[str]) -> set[int]:
    """Add the places behind each `**` that may stand for nothing, which the last one may not."""
    for place, part in enumerate(wanted[:-1]):
        if part == "**" and place in reached:
            reached.add(place + 1)
    return reached


def _matches_url(url: Url, pattern: str, *, widely: bool = False) -> bool:
    """Whether scheme, host, port and path match; a pattern without a path speaks of the whole host.

    Without a port it means the scheme's own, and without a query none; `widely` it means any.
    """
    found = _URL_PATTERN.fullmatch(pattern)
    if found is None or (found["scheme"] or url.scheme).lower() != url.scheme:
        return False
    usual = url.port if widely else DEFAULT_PORTS[url.scheme]
    if int(found["port"] or usual) != url.port or not _matches_host(url.host, found["host"].lower()):
        return False
    path, mark, query = url.target.partition("?")
    paths = {path, path.rstrip("/") or "/"}
    sent = {f"{path}{mark}{query}" for path in paths} | (paths if widely else set())
    return found["path"] is None or any(fnmatchcase(target, found["path"]) for target in sent)


def _matches_host(host: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern.strip("[]")


def _words_appear(pattern: str, raw: str) -> bool:
    """Whether all that a pattern says plainly stands somewhere in a text that was not read, quoted or not."""
    plain = [part for word in _words(pattern) for part in _WILDCARDS.split(word)]
    readings = (raw.lower(), raw.translate(_QUOTES).lower())
    return all(any(part.lower() in reading for reading in readings) for part in plain)


def _words(pattern: str) -> list[str]:
    """Split a pattern as a shell would; one that is no list of words, such as a path, is one word."""
    try:
        return shlex.split(pattern)
    except ValueError:
        return [pattern]
