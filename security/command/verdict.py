"""What is to be said of a line: nothing, a question, a question only a person present answers, or no?

The parts are elsewhere: `quiet.py` knows what only reads, `destructive.py` what is refused,
`unwrap.py` noted what cannot be told. Here they are weighed: the strictest word of any part decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..call import Effect
from ..policy import Policy
from ..unreadable import Unreadable
from ..workspace import protected_reason, secret_reason
from .destructive import bomb, crude_words, destruction, unsure_destruction
from .nouns import CommandFacts, CommandLine, Word
from .paths import Problem, Scene
from .places import Ground, Placed, placed, variants, where
from .quiet import problem_of, program_of
from .rules import ShellRules, allows, blocked_by, confirmed_by

__all__ = ["Ruling", "Say", "effects_of", "ruling_of"]

_MOST_WORDS = 64
_TEXT_PROGRAMS = frozenset("echo printf".split())


class Say:
    """The words a ruling can say, from the mildest to the strictest."""

    NOTHING, ASK, FORCE, DENY = range(4)


@dataclass(frozen=True, slots=True)
class Ruling:
    """One word about a line, its stable rule and reason, and the value it is about.

    `reasons` are all that speak against running it without a question, as (what, value).
    """

    say: int
    rule: str = ""
    reason: str = ""
    value: str = ""
    reasons: tuple[tuple[str, str], ...] = ()


def ruling_of(canonical: CommandLine | Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Ruling:
    """Return what is to be said of a line; without facts, nothing counts as only reading."""
    if isinstance(canonical, Unreadable):
        return _of_unreadable(canonical, raw, policy, rules)
    facts = canonical.facts or CommandFacts()
    scene = Scene(policy, facts, None)
    found = placed(canonical.root, Ground(policy.workspace, policy.home))
    denial = _denial(canonical, found, scene, rules)
    if denial is not None:
        return denial
    problems = [
        (at, problem) for at in found if (problem := problem_of(at, scene.at(at.folders))) is not None
    ]
    secret = next((problem for _, problem in problems if problem.rule == "secret"), None)
    if secret is not None:
        return Ruling(Say.DENY, "secret", secret.reason, secret.value)
    return _question(canonical, found, problems, scene, rules)


def effects_of(canonical: CommandLine | Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Effect:
    """Return what a line can do: only read, where nothing has to be said of it, else anything."""
    is_quiet = ruling_of(canonical, raw, policy, replace(rules, allowed=())).say == Say.NOTHING
    return Effect.READ if is_quiet else Effect.ALL


def _of_unreadable(canonical: Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Ruling:
    """What cannot be read is asked about by force, unless its words alone are enough for a no."""
    here = frozenset({policy.workspace})
    scene = Scene(policy, CommandFacts(), here)
    for command in crude_words(raw, policy.home):
        found = destruction(Placed(command, (), here), scene)
        if found is not None:
            return Ruling(Say.DENY, "destructive", f"the line could not be read, and {found[1]}", found[0])
        entry = blocked_by(tuple(word.text for word in command.words), rules)
        if entry is not None:
            return Ruling(
                Say.DENY, "blocked", "the configuration forbids a command that seems to be in it", entry
            )
    reason = f"the line could not be read: {canonical.reason}"
    return Ruling(Say.FORCE, "unreadable", reason, reasons=((canonical.reason, ""),))


def _denial(line: CommandLine, found: tuple[Placed, ...], scene: Scene, rules: ShellRules) -> Ruling | None:
    if bomb(line.root):
        return Ruling(Say.DENY, "destructive", "a function calls itself without end")
    for at in found:
        for words in variants(at) or (at.command.words,):
            one = at if words is at.command.words else replace(at, command=replace(at.command, words=words))
            why = destruction(one, scene.at(at.folders))
            if why is not None:
                return Ruling(Say.DENY, "destructive", why[1], why[0])
    for argv in line.actions:
        entry = blocked_by(argv, rules)
        if entry is not None:
            return Ruling(Say.DENY, "blocked", "the configuration forbids a command in it", entry)
    return None


def _question(
    line: CommandLine,
    found: tuple[Placed, ...],
    problems: list[tuple[Placed, Problem]],
    scene: Scene,
    rules: ShellRules,
) -> Ruling:
    forced = list(_forced(line, found, problems, scene))
    open_ones = [problem for at, problem in problems if not _is_allowed(at, problem, rules)]
    confirmed = confirmed_by(line, rules)
    reasons = [(problem.reason, problem.value) for problem in (*forced, *open_ones)]
    if confirmed is not None:
        reasons.append(("the configuration asks about a construct in it", confirmed))
    kept = tuple(dict.fromkeys(reasons))
    if forced:
        return Ruling(Say.FORCE, forced[0].rule, forced[0].reason, forced[0].value, kept)
    if open_ones:
        first = open_ones[0]
        return Ruling(Say.ASK, first.rule, first.reason, first.value, kept)
    if confirmed is not None:
        return Ruling(Say.ASK, "confirm", reasons[-1][0], confirmed, kept)
    return Ruling(Say.NOTHING)


def _is_allowed(at: Placed, problem: Problem, rules: ShellRules) -> bool:
    """Whether `allowed_commands` covers a command: its words, and nothing it redirects or sets."""
    if not rules.allowed or not at.command.words or problem.rule in {"writes", "assigns", "function"}:
        return False
    return allows(tuple(word.text for word in at.command.words), rules)


def _forced(
    line: CommandLine, found: tuple[Placed, ...], problems: list[tuple[Placed, Problem]], scene: Scene
) -> Iterator[Problem]:
    if line.printed is None:
        yield Problem("unprintable", f"the line cannot be written back exactly: {line.unprintable}")
    for at in found:
        for note in at.command.notes:
            yield Problem(note.rule, note.reason, at.command.name)
        unsure = unsure_destruction(at.command)
        if unsure is not None:
            yield Problem("dynamic", unsure, at.command.name)
    for at, problem in problems:
        here = scene.at(at.folders)
        yield from _touched(
            at, here, only_reads=problem.rule == "outside", only_names=problem.rule == "protected"
        )


def _touched(at: Placed, scene: Scene, *, only_reads: bool, only_names: bool) -> Iterator[Problem]:
    """Find secret files among the words of a program that does more than read, and protected ones."""
    known = program_of(at.command.program)
    if at.command.program in _TEXT_PROGRAMS or (
        only_names and known is not None and known.operands == "names"
    ):
        return
    for word in at.command.words[1:_MOST_WORDS]:
        for path in _named(word, scene):
            why = secret_reason(path, scene.policy)
            if why is not None:
                yield Problem("secret", f"it touches a secret file: {why}", path)
                return
            why = protected_reason(path, scene.policy)
            if why is not None and "/" in word.text and not only_reads and not _is_only_named(at, path):
                yield Problem("protected", f"it touches a protected file: {why}", path)
                return


def _is_only_named(at: Placed, path: str) -> bool:
    """Whether a path into the system is likely a program or a header that is used, not changed."""
    return path.startswith(_READABLE) and at.command.program not in _CHANGING


_CHANGING = frozenset(
    "cp mv install ln sed chmod chown chgrp touch rsync tar unzip patch tee dd mkdir rmdir setcap".split()
)
_READABLE = (
    "/usr/bin/",
    "/usr/share/",
    "/usr/lib/",
    "/usr/include/",
    "/bin/",
    "/proc/",
    "/sys/",
    "/dev/",
    "/usr/local/",
)


def _named(word: Word, scene: Scene) -> Iterator[str]:
    """Yield the paths a word may mean, also behind the `=` of an option."""
    if word.is_literal and (len(word.text) > 4096 or "\n" in word.text or not word.text):
        return
    spelled = [word]
    if word.is_literal and "=" in word.text:
        spelled.append(Word(word.text.partition("=")[2]))
    elif word.is_literal and word.text.startswith("@"):
        spelled.append(Word(word.text[1:]))
    for one in spelled:
        if not one.text or one.text.startswith("-"):
            continue
        for candidate in where(one, scene.folders, scene.ground) or ():
            if not candidate.is_glob:
                yield candidate.path
                real = scene.facts.real.get(candidate.path)
                if real is not None:
                    yield real
