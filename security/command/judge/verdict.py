"""Rule on a command line: nothing to ask, an Ask, a forced Ask, or a Deny.

The strictest ruling of any part decides. The parts are judged elsewhere: `readonly.py` knows commands
that only read, `destructive.py` what is denied, and `command/expand/unwrap.py` marks what cannot be
resolved.
"""

from __future__ import annotations

from dataclasses import replace

from ...kinds import CommandFacts, CommandLine, Effect, Runs, Unreadable
from ...lazy import dataclass
from ...paths import is_inside
from ...policy import HISTORY, Policy, ShellRules, blocked_by, confirmed_by, entry_words
from ..expand import Placed
from ..syntax import crude_words
from .assessment import Assessment, assess, folders_of
from .destructive import destruction
from .matching import covers_words
from .paths import Objection, Scene

__all__ = ["Ruling", "Say", "effects_of", "ruled", "ruling_of"]


class Say:
    """The words a ruling can say, from the mildest to the strictest."""

    NOTHING, ASK, FORCE, DENY = range(4)


@dataclass(frozen=True, slots=True)
class Ruling:
    """One word about a line, its stable rule and reason, and the value it is about.

    `reasons` are all that speak against running it without a question, as (what, value), and `rules` the
    rules these come from.
    """

    say: int
    rule: str = ""
    reason: str = ""
    value: str = ""
    reasons: tuple[tuple[str, str], ...] = ()
    rules: frozenset[str] = frozenset()

    @property
    def may_be_tried(self) -> bool:
        """Whether a run that changes a copy of the workspace, and reaches nothing else, shows what it is for.

        It could be read, then, and needs no further rights, no network and no other folder.
        """
        return self.say < Say.DENY and not self.rules & _NOT_TRIED

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Every reason with what it is about; the one in the question is not repeated."""
        shown = dict.fromkeys(
            ("namely" if reason == self.reason else reason, value) for reason, value in self.reasons if value
        )
        return tuple(shown)[:_MOST_REASONS]


_MOST_REASONS = 8
# Nothing of these happens in a trial, or what the person forbids could not be looked for in the line.
_NOT_TRIED = frozenset("privilege outside elsewhere unreadable confirm connects loopback destination".split())


def ruling_of(canonical: CommandLine | Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Ruling:
    """Return the ruling on a line; without facts, nothing counts as only reading."""
    if isinstance(canonical, Unreadable):
        return _of_unreadable(canonical, raw, policy, rules)
    return ruled(canonical, canonical.facts, policy, rules)


def ruled(line: CommandLine, facts: CommandFacts | None, policy: Policy, rules: ShellRules) -> Ruling:
    """Return the ruling on a line if these were its facts."""
    found = assess(line, facts, policy)
    return line.once.of(_ruled, found, rules, line.actions, line.constructs)


def _ruled(
    found: Assessment,
    rules: ShellRules,
    actions: tuple[tuple[str, ...], ...],
    constructs: frozenset[str],
) -> Ruling:
    if found.is_bomb:
        return Ruling(Say.DENY, "destructive", "a function calls itself without end")
    if found.destroyed is not None:
        return Ruling(Say.DENY, "destructive", found.destroyed[1], found.destroyed[0])
    blocking = next(filter(None, (blocked_by(argv, rules) for argv in actions)), None)
    if blocking is not None:
        return Ruling(Say.DENY, "blocked", "the configuration forbids a command in it", blocking)
    secret = next((problem for _, problem in found.problems if problem.rule == "secret"), None)
    if secret is not None:
        return Ruling(Say.DENY, "secret", secret.reason, secret.value)
    history = _history(found, actions)
    return _question(found.forced, found, rules, confirmed_by(actions, constructs, rules), history)


def effects_of(canonical: CommandLine | Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Effect:
    """Return what a line can do: only read, if there is no objection to it, else anything."""
    if isinstance(canonical, Unreadable):
        return Effect.ALL
    strict = replace(rules, allowed=()) if rules.allowed else rules
    is_quiet = ruling_of(canonical, raw, policy, strict).say == Say.NOTHING
    return Effect.READ if is_quiet else Effect.ALL


def _of_unreadable(canonical: Unreadable, raw: str, policy: Policy, rules: ShellRules) -> Ruling:
    """Ask about an unreadable line by force, unless its words alone are enough to deny it."""
    here = frozenset({policy.workspace})
    scene = Scene(policy, CommandFacts(), here)
    for command in crude_words(raw, policy.home):
        found = destruction(Placed(command, here), scene)
        if found is not None:
            return Ruling(Say.DENY, "destructive", f"the line could not be read, and {found[1]}", found[0])
        entry = blocked_by(tuple(word.text for word in command.words), rules)
        if entry is not None:
            return Ruling(
                Say.DENY, "blocked", "the configuration forbids a command that seems to be in it", entry
            )
    reason = f"the line could not be read: {canonical.reason}"
    return Ruling(
        Say.FORCE, "unreadable", reason, reasons=((canonical.reason, ""),), rules=frozenset({"unreadable"})
    )


def _question(
    forced: tuple[Objection, ...],
    found: Assessment,
    rules: ShellRules,
    confirmed: str | None,
    history: Objection | None,
) -> Ruling:
    open_ones = [problem for at, problem in found.problems if not _is_allowed(at, problem, found, rules)]
    if found.functions:
        open_ones.insert(0, Objection("function", "the line defines a function"))
    if history is not None and (open_ones or not found.problems):
        open_ones.insert(0, history)
    reasons = [(problem.reason, problem.value) for problem in (*forced, *open_ones)]
    if confirmed is not None:
        reasons.append(("the configuration asks about a construct in it", confirmed))
    kept = tuple(dict.fromkeys(reasons))
    rules_of = frozenset(problem.rule for problem in (*forced, *open_ones))
    if confirmed is not None:
        rules_of |= {"confirm"}
    if any(
        not is_inside(folder, found.policy.workspace) for at in found.grounds.values() for folder in at or ()
    ):
        rules_of |= {"elsewhere"}
    if forced:
        return Ruling(Say.FORCE, forced[0].rule, forced[0].reason, forced[0].value, kept, rules_of)
    if open_ones:
        first = open_ones[0]
        return Ruling(Say.ASK, first.rule, first.reason, first.value, kept, rules_of)
    if confirmed is not None:
        return Ruling(Say.ASK, "confirm", reasons[-1][0], confirmed, kept, rules_of)
    return Ruling(Say.NOTHING)


def _history(found: Assessment, actions: tuple[tuple[str, ...], ...]) -> Objection | None:
    """Return the objection to reading, unasked, what the repositories of the workspace hold.

    That a line does so is a guess; where it is not seen, what they hold is closed to its run.
    """
    policy = found.policy
    if policy.sandbox.rung is Runs.REAL or not any(map(_reads_git, actions)):
        return None
    secret = found.facts.history.get(policy.workspace)
    if not secret:
        return None
    why = "git can read secret files from the project's history; a yes allows that for this session"
    return Objection(HISTORY, why, secret)


def _reads_git(argv: tuple[str, ...]) -> bool:
    """Whether a command starts git or names something in a repository."""
    program = argv[0].rpartition("/")[2]
    is_git = program == "git" or program.startswith("git-")
    return is_git or any(".git" in word.split("/") for word in argv)


def _is_allowed(at: Placed, problem: Objection, found: Assessment, rules: ShellRules) -> bool:
    """Whether `allowed_commands` covers a command: its words at the root, nothing it redirects or sets."""
    if not rules.allowed or not at.command.words or problem.rule in {"writes", "assigns"}:
        return False
    argv = tuple(word.text for word in at.command.words)
    entries = (entry_words(entry) for entry in rules.allowed)
    return folders_of(at, found.policy, found.facts) == frozenset({found.policy.workspace}) and any(
        covers_words(argv, words, found.facts, found.policy) for words in entries
    )
