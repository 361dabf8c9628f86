"""Match permission rules against the parts of an action.

A pattern is compared with canonical forms only; its syntax depends on the kind of value:

    command   words, each a glob; a last `*` matches any further words         git status   pytest *
    URL       [scheme://]host[:port][/path glob]; a host may begin with `*.`   docs.rs/*    *.example.com
    path      glob on the absolute path; `*` stays in a folder, `**` does not  src/**       ~/notes/*.md

A deny or ask rule applies to an action if it matches any part of it, and to a command that begins with
its words or names its path; an allow rule must cover every part, word by word. URL patterns are read by
`url/pattern.py`.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeAlias

from .. import command
from ..call import Action, Atom
from ..kinds import CommandLine, Kind
from ..lazy import regex
from ..paths import ResolvedPath, literally, locate, matches_parts
from ..policy import KEEP, NETWORK, Autonomy, Policy, Rule, RuleAction
from ..url import Destination, Url, is_reached, parse_url, url_pattern, url_problem

__all__ = [
    "JUDGED",
    "covers",
    "covers_change",
    "exact_patterns",
    "exact_words",
    "holding_back",
    "matched",
    "opening",
    "path_glob",
    "pattern_problem",
    "starts",
]

_RANGE = regex(r"\[!?(.)-(.)[^]]*\]")
_WILDCARDS = regex(r"\[[^]]*\]|[*?]+")
_QUOTES = str.maketrans("", "", "\"'\\")
_ANY_TOOL = regex(r"[*?\[]")
# What a shell puts in the place of such a piece of a word is only known when it runs; a glob was looked up.
_OPEN = regex(r"⟨(?![*?\[~])")
_MARKS = str.maketrans("", "", "⟨⟩")
_OPERATOR = regex(r"[;|&]+|[<>]+")
_GIT = "git"

Actions: TypeAlias = tuple[tuple[str, ...], ...]
"""Commands and redirections of a line, each as its words."""

JUDGED = (Kind.PATH, Kind.URL, Kind.COMMAND, Kind.DESTINATION, Kind.RESOURCE_ID)
"""The kinds a rule can speak of: what a call is about, not what it says."""


def matched(rule: Rule, action: Action, policy: Policy) -> tuple[Atom, ...] | None:
    """Return what of the action a rule speaks of (all of it without a pattern), or None for nothing."""
    judged = action.of_kind(*JUDGED)
    if not fnmatchcase(action.call.tool, rule.tool) and not (
        action.of is not None and rule.match is not None
    ):
        # A rule about the paths of any tool is one about changing them in a trial run, too.
        return None
    if rule.match is None:
        return judged
    return tuple(atom for atom in judged if _speaks_of(rule.match, atom, policy)) or None


def _speaks_of(pattern: str, atom: Atom, policy: Policy) -> bool:
    """Whether a pattern matches any part of an atom: any sub-command, a path by either of its names."""
    match atom.canonical:
        case CommandLine(actions):
            begins = any(_begins_with(argv, pattern) for argv in _called(actions))
            return begins or _names_path(actions, pattern, policy)
        case ResolvedPath(text, real):
            return _is_among((text, real), pattern, policy)
        case Url() as url:
            wanted = url_pattern(pattern)
            return wanted is not None and wanted.matches(url, widely=True)
        case (str() | Destination()) as other:
            return fnmatchcase(str(other), pattern)
    # What could not be read is spoken of by every rule for its kind of thing: a Deny must not be evaded.
    return _words_appear(pattern, atom.raw)


def _called(actions: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    """Yield every spelling of what a line does, so that a deny rule matches any of them.

    A program called by its path, or in other letters where a disk folds them, is the same program, an open
    word its text, and a file it is given as input one that it reads.
    """
    inputs = [target for operator, target in (argv for argv in actions if len(argv) == 2) if operator == "<"]
    for argv in actions:
        plain = tuple(word.translate(_MARKS) for word in argv)
        name = posixpath.basename(plain[0])
        for called in dict.fromkeys((argv, plain, (name, *plain[1:]), (name.lower(), *plain[1:]))):
            yield called
            yield from ((*called, given) for given in inputs)


def _begins_with(argv: tuple[str, ...], pattern: str) -> bool:
    words = _words(pattern)
    return command.matches_words(argv[: len(words)], words)


def _names_path(actions: tuple[tuple[str, ...], ...], pattern: str, policy: Policy) -> bool:
    """Whether a pattern that can only be a path is that of an argument."""
    if "/" not in pattern or "://" in pattern or len(_words(pattern)) != 1:
        return False
    arguments = {word.rpartition("=")[2] for argv in actions for word in argv[1:]}
    places = (locate(argument, policy) for argument in arguments if argument)
    return any(
        _is_among((place.text,), pattern, policy) for place in places if isinstance(place, ResolvedPath)
    )


def _is_among(names: tuple[str, ...], pattern: str, policy: Policy) -> bool:
    """Whether a deny or ask rule speaks of a path; `folder/**` means the folder, too."""
    patterns = {pattern, re.sub(r"(?<=[^/*])/(?:\*\*/?)?$", "", pattern)}
    return any(_matches_path(name, policy, wanted) for name in names for wanted in patterns)


def holding_back(tool: str, place: ResolvedPath, below: ResolvedPath, policy: Policy) -> Rule | None:
    """Return a rule for which a file must be left out where a tool goes through all of a folder, or None.

    `place` is what the call was judged by, `below` a file in it. A rule that spoke of the call itself
    has had its answer; any other that forbids, or would have asked, holds for the file alone.
    """
    for rule in policy.rules:
        if rule.match is None or rule.action is RuleAction.ALLOW or not fnmatchcase(tool, rule.tool):
            continue
        if rule.action is RuleAction.ASK and policy.autonomy is Autonomy.FULL and not rule.force:
            continue
        is_meant, is_answered = (
            _is_among((one.text, one.real), rule.match, policy) for one in (below, place)
        )
        if is_meant and not is_answered:
            return rule
    return None


def covers(rules: tuple[Rule, ...], tool: str, atom: Atom, policy: Policy) -> tuple[Rule, ...]:
    """Return the rules that together answer for an atom, one for each sub-command, or none.

    Only a rule that names its tool answers for what runs: `*` with a path was not meant as a program. A rule
    for a folder answers for nothing but commands that start in it.
    """
    named = [rule for rule in rules if rule.match is not None and fnmatchcase(tool, rule.tool)]
    if isinstance(atom.canonical, CommandLine):
        named = [rule for rule in named if not _ANY_TOOL.search(rule.tool)]
        return _covering_line(named, atom.canonical, policy)
    match = _covering_match(atom, policy)
    return tuple(rule for rule in named if rule.folder is None and rule.match and match(rule.match))[:1]


def covers_change(rules: tuple[Rule, ...], of: Action, atom: Atom, policy: Policy) -> tuple[Rule, ...]:
    """Return the rules that together answer for a path that a trial run changed, or none.

    Each speaks of the path, and together they speak of every command that ran; one that names no command
    speaks of all.
    """
    match = _covering_match(atom, policy)
    about = [
        (rule, rule.match)
        for rule in rules
        if rule.tool == KEEP and rule.match is not None and _speaks_alike(rule.match, atom)
    ]
    # A folder that represents all in it is covered by what covers all in it.
    named = [rule for rule, pattern in about if match(pattern) or match(pattern.removesuffix("/**"))]
    anything = [rule for rule in named if rule.command is None and rule.folder is None]
    if anything:
        return tuple(anything[:1])
    found: list[Rule] = []
    for line in (one.canonical for one in of.of_kind(Kind.COMMAND)):
        behind = [(rule, replace(rule, match=rule.command)) for rule in named]
        ran = [one for _, one in behind]
        used = _covering_line(ran, line, policy, line.written) if isinstance(line, CommandLine) else ()
        if not used:
            return ()
        found += [rule for rule, one in behind if one in used]
    return tuple(dict.fromkeys(found))


def opening(rules: tuple[Rule, ...], atom: Atom) -> tuple[Rule, ...]:
    """Return a rule that opens the host of an atom to commands, or none."""
    url = parse_url(f"https://{atom.shown}/")
    about = [rule for rule in rules if rule.tool == NETWORK and rule.match is not None]
    reached = (rule for rule in about if isinstance(url, Url) and is_reached(url, (str(rule.match),)))
    return tuple(reached)[:1]


def _speaks_alike(pattern: str, atom: Atom) -> bool:
    """Whether a pattern matches a repository if the atom is one: `**` is about paths only."""
    return not isinstance(atom.canonical, str) or pattern.startswith(_GIT)


def _covering_line(
    named: list[Rule], line: CommandLine, policy: Policy, actions: Actions | None = None
) -> tuple[Rule, ...]:
    """Return the rules that cover each command of a line in each folder it may start in, or none."""
    found: list[Rule] = []
    for argv, folder in starts(line, policy, actions):
        here = (rule for rule in named if _holds_in(rule.folder, folder, policy))
        rule = next(
            (rule for rule in here if rule.match and covers_action(line, policy, argv, rule.match)), None
        )
        if rule is None:
            return ()
        found.append(rule)
    return tuple(found)


def starts(
    line: CommandLine, policy: Policy, actions: Actions | None = None
) -> tuple[tuple[tuple[str, ...], str | None], ...]:
    """Return each action with each folder it may start in; None is an unknown one.

    Without `actions` it is those that an answer in advance must cover before they run.
    """
    grounds = command.assess(line, line.facts, policy).grounds
    wanted = line.open_actions if actions is None else actions
    return tuple((argv, folder) for argv in wanted for folder in sorted(grounds.get(argv) or ()) or (None,))


def _holds_in(wanted: str | None, folder: str | None, policy: Policy) -> bool:
    """Whether a rule for a folder, or for the workspace's root, answers for what starts in one."""
    if folder is None or wanted is None:
        return folder == policy.workspace
    # With a dot behind it no pattern ends in a slash, which would mean all below and not the folder.
    parts = path_glob(f"{wanted}/.", policy)
    below = parts[-1] == "**"
    return matches_parts(folder.lstrip("/").split("/"), parts[:-1] if below else parts, below=below)


def _covering_match(atom: Atom, policy: Policy) -> Callable[[str], bool]:
    """Return what tells whether a pattern covers an atom that is no command line."""
    match atom.canonical:
        case ResolvedPath() as place:
            return partial(_matches_place, place, policy)
        case Url() as url:
            return partial(_covers_url, url)
        case (str() | Destination()) as other:
            return partial(fnmatchcase, str(other))
    return lambda _: False


def exact_patterns(atom: Atom) -> tuple[str, ...]:
    """Return the narrowest patterns that cover an atom: one for each sub-command, else one."""
    match atom.canonical:
        case CommandLine() as line:
            if any(_OPEN.search(word) for argv in line.open_actions for word in argv):
                return ()
            return tuple(map(exact_words, line.open_actions))
        case Url() as url:
            return (literally(url.text.partition("#")[0]),)
        case ResolvedPath() as place:
            return (literally(place.real),) if place.real == place.text else ()
        case (str() | Destination()) as other:
            return (literally(str(other)),)
    return ()


def exact_words(argv: tuple[str, ...]) -> str:
    """Return a pattern of these words alone; an operator is written as such."""
    first = argv[0] if _OPERATOR.fullmatch(argv[0]) else shlex.quote(literally(argv[0]))
    return " ".join((first, *(shlex.quote(literally(word)) for word in argv[1:])))


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern can match nothing, or None; used where rules are read."""
    if not pattern.strip():
        return "the pattern is empty"
    if pattern.count("[") != pattern.count("]"):
        return "a bracket in the pattern is not closed"
    if any(first > last for first, last in _RANGE.findall(pattern)):
        return "a range in the pattern runs backwards"
    return url_problem(pattern) or (None if _looks_like_path(pattern) else _words_problem(pattern))


def _looks_like_path(pattern: str) -> bool:
    """Whether a pattern is a path rather than words of a command, which quote what is no plain word."""
    if pattern.startswith(("/", "~", "./", "../", "**")):
        return True
    return not re.search(r"\s", pattern) and re.search(r"[./]", pattern) is not None


def _words_problem(pattern: str) -> str | None:
    try:
        words = list(shlex.shlex(pattern, posix=True, punctuation_chars=True))
    except ValueError:
        return "a quotation in the pattern is not closed"
    # `> file` as a whole is what a redirection is matched by.
    behind = words[1:] if words[:1] in ([">"], [">>"], ["<"]) else words
    joined = next(filter(_OPERATOR.fullmatch, behind), "")
    if joined:
        return f"each command of a line is matched alone, so a pattern holds no {joined}"
    return None if words else "the pattern is empty"


def covers_action(line: CommandLine, policy: Policy, argv: tuple[str, ...], pattern: str) -> bool:
    """Whether a pattern covers one command of a line, wherever it starts."""
    return command.covers_words(argv, _words(pattern), line.facts, policy)


def _covers_url(url: Url, pattern: str) -> bool:
    wanted = url_pattern(pattern)
    return wanted is not None and wanted.matches(url)


def _matches_place(place: ResolvedPath, policy: Policy, pattern: str) -> bool:
    """Whether a pattern covers a path by both of its names: a link must not widen what was allowed."""
    return all(_matches_path(path, policy, pattern) for path in (place.text, place.real))


def _matches_path(path: str, policy: Policy, pattern: str) -> bool:
    return matches_parts(path.lstrip("/").split("/"), path_glob(pattern, policy))


def path_glob(pattern: str, policy: Policy) -> list[str]:
    """Return the parts of a path pattern as it is held against absolute paths, each a glob."""
    if pattern == "~" or pattern.startswith("~/"):
        pattern = policy.home + pattern[1:]
    elif not pattern.startswith(("/", "**")):
        pattern = posixpath.join(literally(policy.workspace), pattern)
    # A pattern is normalised like the paths are; one that ends in a slash is a folder with all in it.
    below = ["**"] if pattern.endswith("/") else []
    return posixpath.normpath(pattern).lstrip("/").split("/") + below


def _words_appear(pattern: str, raw: str) -> bool:
    """Whether all literal words of a pattern occur somewhere in a text that was not read, quoted or not."""
    plain = [part for word in _words(pattern) for part in _WILDCARDS.split(word)]
    readings = (raw.lower(), raw.translate(_QUOTES).lower())
    return all(any(part.lower() in reading for reading in readings) for part in plain)


def _words(pattern: str) -> list[str]:
    """Split a pattern as a shell would; one that is no list of words, such as a path, is one word."""
    try:
        return shlex.split(pattern)
    except ValueError:
        return [pattern]
