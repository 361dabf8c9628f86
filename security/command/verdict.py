"""What is to be said of a line: nothing, a question, a question only a person present answers, or no?

The parts are elsewhere: `quiet.py` knows what only reads, `destructive.py` what is refused,
`unwrap.py` noted what cannot be told. Here they are weighed: the strictest word of any part decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ..call import Effect
from ..policy import Policy
from ..unreadable import Unreadable
from ..workspace import is_inside, protected_reason, secret_reason
from .actions import vectors
from .bombs import bomb, functions, looks_like_bomb
from .crude import crude_words
from .destructive import behind_unknown, destruction, piped_removals, unsure_destruction
from .later import changed_later
from .loops import Bound, bound, guessed
from .nouns import Command, CommandFacts, CommandLine, Word
from .paths import STREAMS, Problem, Scene
from .places import MOVES, Folders, Ground, Placed, placed, where
from .programs import program_of
from .quiet import problem_of
from .read import LATE
from .rules import ShellRules, allows, blocked_by, confirmed_by
from .targets import open_target, unsettled

__all__ = ["Ruling", "Say", "effects_of", "quiet_actions", "ruling_of"]

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
    every = bound(placed(canonical.root, Ground(policy.workspace, policy.home)))
    denial = _denial(canonical, every, scene, rules)
    if denial is not None:
        return denial
    problems = [(one.at, problem) for one in every if (problem := problem_of(one, scene.at(one.at.folders)))]
    secret = next((problem for problem in _likely(every, problems, scene) if problem.rule == "secret"), None)
    if secret is not None:
        return Ruling(Say.DENY, "secret", secret.reason, secret.value)
    return _question(canonical, every, problems, scene, rules)


def _likely(
    every: tuple[Bound, ...], problems: list[tuple[Placed, Problem]], scene: Scene
) -> Iterator[Problem]:
    """Yield the problems of a line, and those it has if its variables are what they are thought to be."""
    yield from (problem for _, problem in problems)
    if any(one.at.guesses for one in every):
        for at in guessed(every, scene.ground):
            problem = problem_of(Bound(at, (at,)), scene.at(at.folders))
            if problem is not None:
                yield problem


def effects_of(canonical: CommandLine | Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Effect:
    """Return what a line can do: only read, where nothing has to be said of it, else anything."""
    is_quiet = ruling_of(canonical, raw, policy, replace(rules, allowed=())).say == Say.NOTHING
    return Effect.READ if is_quiet else Effect.ALL


def quiet_actions(line: CommandLine, policy: Policy) -> frozenset[tuple[str, ...]]:
    """Return the actions of commands that only read, wherever in the line they stand."""
    scene = Scene(policy, line.facts or CommandFacts(), None)
    open_ones: set[tuple[str, ...]] = set()
    quiet: set[tuple[str, ...]] = set()
    moved = False
    for one in bound(placed(line.root, Ground(policy.workspace, policy.home))):
        at = one.at
        is_quiet = problem_of(one, scene.at(at.folders)) is None
        (quiet if is_quiet else open_ones).update(vectors(at.command))
        moved = moved or not (is_quiet or _is_within(at.folders, scene))
    if moved:
        # Whoever answered for `make` meant one in here: what is run elsewhere takes a word on going there.
        open_ones |= {argv for argv in quiet if argv[0] in MOVES}
    return frozenset(quiet - open_ones)


def _is_within(folders: Folders, scene: Scene) -> bool:
    """Whether every folder a command may start in is known to lie in the workspace."""
    real = scene.facts.real
    known = [real.get(folder, "") for folder in folders or () if folder != scene.policy.workspace]
    return folders is not None and all(is_inside(folder, scene.policy.workspace) for folder in known)


def _of_unreadable(canonical: Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Ruling:
    """What cannot be read is asked about by force, unless its words alone are enough for a no."""
    here = frozenset({policy.workspace})
    scene = Scene(policy, CommandFacts(), here)
    if looks_like_bomb(raw):
        return Ruling(Say.DENY, "destructive", "the line could not be read; a function in it calls itself")
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
    rule = "parse_deadline" if canonical.reason == LATE else "unreadable"
    return Ruling(Say.FORCE, rule, reason, reasons=((canonical.reason, ""),))


def _denial(line: CommandLine, every: tuple[Bound, ...], scene: Scene, rules: ShellRules) -> Ruling | None:
    if bomb(line.root):
        return Ruling(Say.DENY, "destructive", "a function calls itself without end")
    likely = list(guessed(every, scene.ground))
    here = frozenset({scene.policy.workspace})
    likely += [Placed(command, (), here) for command in piped_removals(line.root)]
    for at in likely:
        why = destruction(at, scene.at(at.folders)) or behind_unknown(at, scene.at(at.folders))
        if why is not None:
            return Ruling(Say.DENY, "destructive", why[1], why[0])
    argvs = (*line.actions, *(argv for at in likely for argv in vectors(at.command)))
    for argv in dict.fromkeys(argvs) if rules.blocked else ():
        entry = blocked_by(argv, rules)
        if entry is not None:
            return Ruling(Say.DENY, "blocked", "the configuration forbids a command in it", entry)
    return None


def _question(
    line: CommandLine,
    every: tuple[Bound, ...],
    problems: list[tuple[Placed, Problem]],
    scene: Scene,
    rules: ShellRules,
) -> Ruling:
    forced = list(_forced(line, every, problems, scene))
    open_ones = [problem for at, problem in problems if not _is_allowed(at, problem, rules)]
    if next(functions(line.root), None) is not None:
        open_ones.append(Problem("function", "the line defines a function"))
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
    line: CommandLine, every: tuple[Bound, ...], problems: list[tuple[Placed, Problem]], scene: Scene
) -> Iterator[Problem]:
    if line.printed is None:
        yield Problem("unprintable", f"the line cannot be written back exactly: {line.unprintable}")
    unsure_names = unsettled(line.root)
    for one in every:
        for command in dict.fromkeys(at.command for at in (one.at, *(one.each or ()))):
            for note in command.notes:
                yield Problem(note.rule, note.reason, command.name)
        target = open_target(one.at, scene.ground, unsure_names)
        if target is not None:
            yield Problem("dynamic", "where it writes is only known when it runs", target)
        unsure = unsure_destruction(one.at.command)
        if unsure is not None:
            yield Problem("dynamic", unsure, one.at.command.name)
    for at in guessed(every, scene.ground) if problems else ():
        yield from changed_later(at, partial(_named, scene=scene.at(at.folders)))
    for at, problem in problems:
        here = scene.at(at.folders)
        yield from _touched(
            at, here, only_reads=problem.rule == "outside", only_names=problem.rule == "protected"
        )


def _touched(at: Placed, scene: Scene, *, only_reads: bool, only_names: bool) -> Iterator[Problem]:
    """Find secret files among the words of a program that does more than read, and protected ones."""
    known = program_of(at.command.program)
    shows_names = at.command.program == "git" or (known is not None and known.operands == "names")
    if at.command.program in _TEXT_PROGRAMS or (only_names and shows_names):
        return
    # What it runs in turn is a command of its own, with words of its own.
    inner = {word.text for one in at.command.inner if isinstance(one, Command) for word in one.words}
    for word in dict.fromkeys(word for word in at.command.words[1:] if word.text not in inner):
        for path in _named(word, scene):
            if path in STREAMS:
                continue
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
