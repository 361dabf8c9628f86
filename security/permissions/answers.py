"""Match Asks with the answers a person gave in advance: allow rules, grants, `full` autonomy, the sandbox.

Such an answer never overrides a Deny, nor an Ask marked `force`, and it must cover everything the Ask
names. A rule without a pattern is about the tool as such: it answers whether the tool may be used, not
which paths outside the workspace or which URLs it may use.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TypeAlias

from ..call import BUILT_IN, Action, Asker, Atom
from ..kinds import Kind, Runs
from ..paths import ResolvedPath, is_inside, is_meant_to_run_later
from ..policy import HISTORY, Autonomy, Rule, RuleAction
from ..session import Grant, Session
from ..verdict import Ask, Decision, Deny, GateWord
from .matching import covers, covers_change

__all__ = [
    "APPROVAL",
    "Asks",
    "answer_in_advance",
    "grants_behind",
    "recheck",
    "resolve_asks",
    "who_lets_it_run",
]

Asks: TypeAlias = tuple[tuple[str, Ask], ...]
"""Gates and what they asked."""

APPROVAL = "approval"
"""Who refuses in the place of a gate what changed between a question and its answer."""

_ABOUT_THE_TOOL = frozenset({"permissions", "trust", "commands"})


def answer_in_advance(gate: str, ask: Ask, action: Action, session: Session) -> str | None:
    """Return who answered an Ask beforehand (a rule with its place, a grant, a level), or None.

    What a person typed is their answer to every question wholly about it, forced ones included.
    """
    if action.call.asker is Asker.PERSON and not any(map(_leads_elsewhere, ask.about)):
        return "the person, by typing it"
    if ask.force:
        return None
    if answer := _by_rule(gate, ask, action, session):
        return answer
    if session.policy.autonomy is Autonomy.FULL and _within_full(gate, ask, session):
        return "autonomy full"
    return "sandbox" if _within_sandbox(gate, ask, action, session) else None


def _by_rule(gate: str, ask: Ask, action: Action, session: Session) -> str:
    """Return the allow rules or grants that cover everything an Ask is about, "" where none do."""
    allowing = tuple(rule for rule in session.policy.rules if rule.action is RuleAction.ALLOW)
    if not ask.own_rule and (found := _covering(allowing, gate, ask, action, session)):
        return "; ".join(f"{rule} at {rule.where}" if rule.where else str(rule) for rule in found)
    granted = tuple(grant.rule for grant in _active(action, session))
    found = _covering(granted, gate, ask, action, session)
    return "; ".join(f"grant: {rule} for {rule.where}" for rule in found)


def who_lets_it_run(action: Action, session: Session) -> str:
    """Return who said beforehand that the command lines of a call may run for real, "" where nobody did.

    No level of autonomy does, where what they would change can be shown first.
    """
    if session.policy.autonomy is Autonomy.READONLY:
        return ""
    if action.call.asker is Asker.PERSON:
        return "the person, by typing it"
    return _by_rule(*_of_lines(action), action, session)


def _of_lines(action: Action) -> tuple[str, Ask]:
    """Return what a rule has to answer so that the command lines of a call run for real."""
    return "commands", Ask("runs", "Run it?", about=action.of_kind(Kind.COMMAND))


def resolve_asks(asks: Asks, action: Action, session: Session) -> tuple[Asks, str]:
    """Return the Asks that nobody answered beforehand, and who answered the others."""
    answers = {asked: answer_in_advance(*asked, action, session) for asked in asks}
    left = tuple(asked for asked, answer in answers.items() if answer is None)
    return left, "; ".join(dict.fromkeys(filter(None, answers.values())))


def _leads_elsewhere(atom: Atom) -> bool:
    """Whether a path is a link: where it leads is not what was typed."""
    return isinstance(atom.canonical, ResolvedPath) and atom.canonical.real != atom.canonical.text


def _covering(
    rules: tuple[Rule, ...], gate: str, ask: Ask, action: Action, session: Session
) -> tuple[Rule, ...]:
    """Return the rules that together cover everything an Ask is about, or none."""
    tool = action.call.tool
    if ask.by_name:
        rules = tuple(rule for rule in rules if rule.match is not None and is_meant_to_run_later(rule.match))
    if action.of is not None:
        found = [covers_change(rules, action.of, atom, session.policy) for atom in ask.about]
        return tuple(dict.fromkeys(rule for group in found for rule in group)) if all(found) else ()
    if gate in _ABOUT_THE_TOOL:
        for rule in rules:
            if rule.match is None and rule.folder is None and fnmatchcase(tool, rule.tool):
                return (rule,)
    found = [covers(rules, tool, atom, session.policy) for atom in ask.about]
    return tuple(dict.fromkeys(rule for group in found for rule in group)) if all(found) else ()


def _within_full(gate: str, ask: Ask, session: Session) -> bool:
    if ask.by_name or ask.rule == HISTORY:
        return False
    if gate in _ABOUT_THE_TOOL:
        return True
    return gate == "paths" and all(
        isinstance(atom.canonical, ResolvedPath)
        and is_inside(atom.canonical.text, *session.policy.allowed_paths)
        and is_inside(atom.canonical.real, *session.policy.allowed_paths)
        for atom in ask.about
    )


def _within_sandbox(gate: str, ask: Ask, action: Action, session: Session) -> bool:
    """Whether what `commands` asks about runs where it can do no harm but to the workspace.

    Only the built-in tools start their programs there, and no sandbox knows what a person meant by a rule.
    """
    if (
        gate != "commands"
        or ask.own_rule
        or ask.by_name
        or ask.rule == HISTORY
        or not session.policy.sandbox.answers
    ):
        return False
    return action.is_command and action.spec is not None and action.spec.source == BUILT_IN


def grants_behind(decision: Decision, action: Action, session: Session) -> tuple[str, ...]:
    """Return the ids of the grants that answer questions about an action, or let its lines run for real."""
    active = _active(action, session)
    rules = tuple(grant.rule for grant in active)
    asks = decision.asks if decision.runs is Runs.REAL else (*decision.asks, _of_lines(action))
    answered = (_covering(rules, gate, ask, action, session) for gate, ask in asks if not ask.force and rules)
    used = {rule for group in answered for rule in group}
    return tuple(grant.id for grant, rule in zip(active, rules, strict=True) if rule in used)


def _active(action: Action, session: Session) -> tuple[Grant, ...]:
    """Return the grants about a tool that have not expired."""
    return tuple(grant for grant in session.active_grants() if fnmatchcase(action.call.tool, grant.tool))


def recheck(asked: Action, answered: Asks, again: Action, decision: Decision, left: Asks) -> Decision:
    """Return a second decision as it holds after a yes: a no, if the yes was to something else.

    What was shown and what would run must be one action, link by link, and every question still open
    must be one of those that were answered.
    """
    if decision.denial is not None:
        return decision
    new = [gate for gate, ask in left if (gate, ask) not in answered]
    if (asked.digest, asked.atoms) != (again.digest, again.atoms):
        denial = Deny("changed", "what would run is no longer what was asked about; ask again")
    elif new:
        gates = ", ".join(dict.fromkeys(new))
        denial = Deny("changed", f"while the question was open {gates} came to ask another; ask again")
    else:
        return decision
    return Decision((*decision.words, GateWord(APPROVAL, denial)))
