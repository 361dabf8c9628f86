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
from functools import lru_cache, partial

from .call import Action, Atom, Kind, Place
from .command import CommandLine
from .policy import Policy, Rule
from .url import Url

__all__ = ["covers", "exact_patterns", "matched", "pattern_problem"]

_DEFAULT_PORTS = {"https": 443, "http": 80}
_JUDGED = (Kind.PATH, Kind.URL, Kind.COMMAND, Kind.DESTINATION, Kind.RESOURCE_ID)


def matched(rule: Rule, action: Action, policy: Policy) -> tuple[Atom, ...] | None:
    """Return what of the action a rule speaks of (all of it without a pattern), or None for nothing."""
    if not fnmatchcase(action.call.tool, rule.tool):
        return None
    judged = action.of_kind(*_JUDGED)
    if rule.match is None:
        return judged
    return tuple(atom for atom in judged if _speaks_of(rule.match, atom, policy)) or None


def _speaks_of(pattern: str, atom: Atom, policy: Policy) -> bool:
    """Whether a pattern matches any part of an atom: any sub-command, a path by either of its names."""
    match atom.canonical:
        case CommandLine(actions):
            return any(_matches_words(argv, pattern) for argv in actions)
        case Place(text, real):
            return any(_matches_path(path, policy, pattern) for path in (text, real))
        case Url() as url:
            return _matches_url(url, pattern)
        case str() as text:
            return fnmatchcase(text, pattern)
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
        case str() as text:
            units = [partial(fnmatchcase, text)]
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
            return (_literal(url.text),)
        case Place() as place:
            return (_literal(place.real),) if place.real == place.text else ()
        case str() as text:
            return (_literal(text),)
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
    host = pattern.split("://")[-1].split("/")[0]
    if "*" in host and "://" in pattern and not host.startswith("*."):
        return "a host may only begin with `*.`"
    return None if words else "the pattern is empty"


def _literal(text: str) -> str:
    """Escape what a glob would read as a wildcard."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def _matches_words(argv: tuple[str, ...], pattern: str) -> bool:
    """Whether each word matches its glob; a last `*` word takes any number of words, even none."""
    words = shlex.split(pattern)
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
    return re.fullmatch(_path_regex(pattern), path) is not None


@lru_cache(maxsize=1024)
def _path_regex(pattern: str) -> str:
    """Translate a path glob: `**` crosses folders, `*` and `?` do not."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^]]*\])", pattern)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(words.get(part) or _bracket(part) for part in parts)


def _bracket(part: str) -> str:
    if part.startswith("[") and part.endswith("]") and len(part) > 2:
        inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(part)


def _matches_url(url: Url, pattern: str) -> bool:
    """Whether scheme, host, port and path match; a pattern without a path speaks of the whole host."""
    scheme, _, rest = pattern.rpartition("://")
    if scheme and scheme != url.scheme:
        return False
    authority, slash, path = rest.partition("/")
    host, port = _host_and_port(authority, url.scheme)
    if port != url.port or not _matches_host(url.host, host.lower()):
        return False
    sent = "/" + "/".join(url.segments).lstrip("/")
    return not slash or fnmatchcase(f"{sent}?{url.query}" if url.query is not None else sent, f"/{path}")


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?P<host>.*?)(?::(?P<port>\d+))?", authority)
    if found is None:
        return authority, _DEFAULT_PORTS.get(scheme, 0)
    return found["host"].strip("[]"), int(found["port"] or _DEFAULT_PORTS.get(scheme, 0))


def _matches_host(host: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _words_appear(pattern: str, raw: str) -> bool:
    """Whether the plain words a pattern begins with all stand somewhere in a text that was not read."""
    words = [word for word in shlex.split(pattern) if not set(word) & set("*?[")]
    return bool(words) and all(word in raw for word in words)
