"""Propose the rules that "always" may grant, and validate those a person made of them.

Proposed is the narrowest rule that covers the question, and a wider one only for files of one folder in
the workspace. A granted rule is validated like a rule of the configuration, must be about what was
asked, and must not be so wide that it answers nearly everything. It is replayed against the call before
it counts, since a rule that leaves the question open is not what the person meant. A rule about commands
holds in the folders where this call runs the commands it covers. All of it is pure.
"""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

from ..call import Action, Atom
from ..kinds import CommandLine, Kind
from ..lazy import dataclass, regex
from ..paths import ResolvedPath, is_inside
from ..policy import HISTORY, LEND, NETWORK, NOT_YOURS, Policy
from ..question import is_taken_in, too_long
from ..session import ENDORSEMENT, Grant, Scope, Session, effect_words
from ..text import redact_text, visible
from ..url import reach_rule, url_pattern
from ..verdict import Ask
from .answers import Asks, is_about_values, resolve_asks
from .matching import covers_action, exact_patterns, exact_words, path_glob, pattern_problem, starts

__all__ = ["LONGEST", "Always", "Patterns", "granted_by", "problem_with", "proposed_grants", "wider_grants"]

Patterns: TypeAlias = tuple[tuple[str, str | None], ...]
"""Rules to grant, each a tool and a pattern; None is every call of the tool."""

LONGEST = 366 * 86_400.0
"""Seconds that an expiry may lie ahead, at most."""

_MOST_RULES = 8  # that a person looks at one by one
_WILDCARD = regex(r"[*?\[]")
_WILDCARDS = regex(r"\[[^]]*\]|[*?]+")
_LITERAL_WILDCARD = regex(r"\[([*?\[])\]")


@dataclass(frozen=True, slots=True)
class Always:
    """A yes that lasts: the rules it grants, where they hold, and for how many seconds (None: for good)."""

    rules: Patterns
    scope: Scope = Scope.SESSION
    seconds: float | None = None


def proposed_grants(asks: Asks, action: Action, session: Session) -> Patterns | None:
    """Return the narrowest rules that "always" would grant; None where it is not on offer.

    It is none where a person has to look each time, where no rule can say exactly what was asked about,
    and where the call is more than a person takes in at once: an answer that lasts is given at a glance.
    """
    every, values = asks, _endorsements(asks)
    asks = tuple(one for one in asks if not is_about_values(*one) and not _is_each_time(*one))
    if not asks and not values:
        return None
    about = _about(asks)
    # A yes to that lasts for the session, and is no leave to run anything.
    if (
        any(ask.rule in {HISTORY, LEND} for _, ask in asks)
        or too_long(action)
        or not all(map(is_taken_in, about))
    ):
        return None
    patterns = [exact_patterns(atom) for atom in about]
    rules: Patterns = ((action.call.tool, None),) if asks else ()
    if about:
        named = zip(about, patterns, strict=True)
        rules = tuple((_tool(atom, action), pattern) for atom, group in named for pattern in group)
    rules = tuple(dict.fromkeys((*values, *rules)))
    if not all(patterns) or len(rules) > _MOST_RULES:
        return None
    return rules if problem_with(Always(rules), every, action, session) is None else None


def _is_each_time(gate: str, ask: Ask) -> bool:
    """Whether a person is asked anew in any case: what a call says may be somebody else's words."""
    return gate == "flow" and ask.force and ask.rule == NOT_YOURS


def _endorsements(asks: Asks) -> Patterns:
    """Return trust in each value that was not given: its kind and its canonical form, no more."""
    values = (atom for gate, ask in asks if is_about_values(gate, ask) for atom in ask.about)
    return tuple(dict.fromkeys((f"{ENDORSEMENT}{atom.kind}", atom.shown) for atom in values))


def wider_grants(asks: Asks, action: Action, session: Session) -> Patterns | None:
    """Return rules one step wider than the narrowest, where that is safe: for all files of a folder.

    What a command does with a wider word, or a page with a longer path, nobody can tell.
    """
    about, workspace = _about(asks), session.policy.workspace
    places = [atom.canonical for atom in about if isinstance(atom.canonical, ResolvedPath)]
    if not about or len(places) < len(about) or not all(is_inside(one.real, workspace) for one in places):
        return None
    exact = (pattern for atom in about for pattern in exact_patterns(atom))
    folders = dict.fromkeys(pattern.rpartition("/")[0] for pattern in exact)
    rules = tuple((action.call.tool, f"{folder}/*") for folder in folders)
    return rules if problem_with(Always(rules), asks, action, session) is None else None


def _tool(atom: Atom, action: Action) -> str:
    """Return what a rule about an atom is called for: its tool, or that commands may reach hosts."""
    return NETWORK if atom.kind is Kind.HOST else action.call.tool


def _about(asks: Asks) -> list[Atom]:
    """Return what a rule has to speak of, in the order of the arguments; a text is nothing of that kind."""
    found = {atom for _, ask in asks for atom in ask.about if atom.kind is not Kind.TEXT}
    return sorted(found, key=lambda atom: (atom.pointer, atom.kind))


def problem_with(always: Always, asks: Asks, action: Action, session: Session) -> str | None:
    """Say why an "always" cannot be granted in answer to these questions, or None where it can."""
    if always.seconds is not None and not (math.isfinite(always.seconds) and 0 < always.seconds <= LONGEST):
        return f"an expiry must be in the future, at most {LONGEST / 86_400:.0f} days ahead"
    if not always.rules:
        return "there is no rule to grant"
    about, values = _about(asks), _endorsements(asks)
    tools = {_tool(atom, action) for atom in about} or {action.call.tool}
    for tool, match in always.rules:
        if (tool, match) in values:
            if problem := _cannot_be_kept("the value", match or "", session):
                return problem
            continue
        if tool not in tools:
            return f"only rules for {' and '.join(sorted(tools))} can be granted here"
        if problem := _pattern_problem(
            match, [atom for atom in about if _tool(atom, action) == tool], session
        ):
            return problem
    given = granted_by(always, asks, action, session.policy)
    problem = next(filter(None, (_folder_problem(grant.folder, session) for grant in given)), None)
    if problem is not None:
        return problem
    left, _ = resolve_asks(asks, action, replace(session, grants=(*session.grants, *given)))
    left = tuple(one for one in left if not _is_each_time(*one))
    gates = ", ".join(dict.fromkeys(gate for gate, _ in left))
    return f"this call would still be asked about, by {gates}" if gates else None


def granted_by(always: Always, asks: Asks, action: Action, policy: Policy) -> tuple[Grant, ...]:
    """Return what an "always" grants for these questions: each rule for each folder it is meant in.

    What a trial run changed is kept for the commands that changed it, exactly as they ran. What answers for
    commands is bound to the files that they run by name, as these were when they were looked at.
    """
    lines = [atom.canonical for atom in _about(asks) if isinstance(atom.canonical, CommandLine)]
    looked_at = action.bound
    is_bound = lines or action.of is not None
    bound = Grant(
        "",
        action.call.tool,
        None,
        always.scope,
        files=tuple(sorted(looked_at.code.items())) if is_bound else None,
        mark=looked_at.changed.get(policy.workspace, 0) if is_bound else 0,
    )
    found: dict[Grant, None] = {}
    for tool, match in always.rules:
        if tool.startswith(ENDORSEMENT):
            trusted = Grant("", tool, match, always.scope, effect=effect_words(action.effects))
            found[trusted] = None
            continue
        if tool == NETWORK:
            found[Grant("", tool, match, always.scope)] = None
            continue
        for command, folder in _ran(action.of, policy) if action.of is not None else ():
            found[replace(bound, tool=tool, match=match, folder=folder, command=command)] = None
        if action.of is not None:
            continue
        folders = [
            folder
            for line in lines
            for argv, folder in starts(line, policy)
            if match is not None and folder is not None and covers_action(line, policy, argv, match)
        ]
        for folder in folders or [policy.workspace]:
            elsewhere = None if folder == policy.workspace else folder
            found[replace(bound, tool=tool, match=match, folder=elsewhere)] = None
    return tuple(found)


def _ran(of: Action, policy: Policy) -> Iterator[tuple[str, str | None]]:
    """Yield a pattern of each command that ran, and the folder it started in (None: the workspace's root)."""
    for line in (atom.canonical for atom in of.of_kind(Kind.COMMAND)):
        for argv, folder in starts(line, policy, line.written) if isinstance(line, CommandLine) else ():
            yield exact_words(argv), None if folder == policy.workspace else folder


def _pattern_problem(match: str | None, about: list[Atom], session: Session) -> str | None:
    """Say why a pattern is none, or too wide for what it is to answer for, or None where it is neither."""
    if match is None:
        return "too wide: it would allow every call; give a pattern" if about else None
    problem = _cannot_be_kept("the pattern", match, session) or pattern_problem(match)
    if problem is not None:
        return problem
    return next(filter(None, (_too_wide(match, atom.kind, session.policy) for atom in about)), None)


def _folder_problem(folder: str | None, session: Session) -> str | None:
    return None if folder is None else _cannot_be_kept("the folder", folder, session)


def _cannot_be_kept(what: str, text: str, session: Session) -> str | None:
    """Return why a text cannot be part of a grant, which is kept and shown, or None if it can."""
    if visible(text) != text or not text.isprintable():
        return f"{what} contains unprintable characters"
    if redact_text(text, session.secrets) != text:
        return f"{what} contains a secret; grants are stored and shown, so they must not"
    return None


def _too_wide(pattern: str, kind: Kind, policy: Policy) -> str | None:
    match kind:
        case Kind.COMMAND:
            return _too_wide_command(pattern, policy)
        case Kind.PATH:
            return _too_wide_path(pattern, policy)
        case Kind.URL:
            return _too_wide_url(pattern)
        case Kind.HOST:
            return _host_problem(pattern)
    is_open = re.search(r"\w", _WILDCARDS.sub("", pattern)) is None
    return "too wide: it would cover anything" if is_open else None


def _too_wide_command(pattern: str, policy: Policy) -> str | None:
    """Refuse an open program, and an open file behind a redirection, where a glob stays in no folder."""
    try:
        program, *words = shlex.split(pattern)
    except ValueError:
        return "the pattern is not words of a command"
    if _has_wildcard(program):
        return "too wide: name the program; wildcards may follow it"
    if not set(program) <= set("<>") or not any(map(_has_wildcard, words)):
        return None
    if "/" not in _WILDCARD.split(words[0])[0]:
        return "too wide: name the folder of the file"
    return _too_wide_path(words[0], policy)


def _too_wide_path(pattern: str, policy: Policy) -> str | None:
    """Refuse a pattern whose part before the first wildcard holds the home, or more than the workspace."""
    parts = path_glob(pattern, policy)
    fixed = list(takewhile(lambda part: not _has_wildcard(part), parts))
    if len(fixed) == len(parts):
        return None
    base = "/" + "/".join(_LITERAL_WILDCARD.sub(r"\1", part) for part in fixed)
    above = (policy.home, posixpath.dirname(policy.workspace))
    if any(is_inside(one, base) for one in above):
        return "too wide: it would cover your home, or folders above the workspace; name a folder in them"
    return None


def _too_wide_url(pattern: str) -> str | None:
    """Refuse a host of which not even two labels are fixed."""
    read = url_pattern(pattern)
    if read is not None and read.host.startswith("*") and "." not in read.host.removeprefix("*."):
        return "too wide: name the host"
    return None


def _host_problem(pattern: str) -> str | None:
    """Refuse what is no rule about hosts in this form, and one of which not even two labels are fixed."""
    try:
        is_canonical = reach_rule(pattern) == pattern
    except ValueError as error:
        return str(error)
    if not is_canonical:
        return f"write it as it is looked up: {reach_rule(pattern)}"
    return "too wide: name the host" if "." not in pattern.removeprefix("*.") else None


def _has_wildcard(text: str) -> bool:
    """Whether a glob holds a wildcard; `[*]` is how a literal one is written."""
    return _WILDCARD.search(_LITERAL_WILDCARD.sub("", text)) is not None
