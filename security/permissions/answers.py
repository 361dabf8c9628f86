"""Match Asks with the answers a person gave in advance: allow rules, grants, `full` autonomy, the sandbox.

Such an answer never overrides a Deny, nor an Ask marked `force`, and it must cover everything the Ask
names. A rule without a pattern is about the tool as such: it answers whether the tool may be used, not
which paths outside the workspace or which URLs it may use.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from ..call import BUILT_IN, Action, Asker, Atom
from ..kinds import CommandLine, Kind, Runs
from ..paths import ResolvedPath, is_inside, is_meant_to_run_later
from ..policy import FOREIGN, GIT_SETTINGS, HISTORY, NETWORK, SEEN, Autonomy, Rule, RuleAction
from ..session import Grant, Session
from ..verdict import Ask, Decision, Deny, GateAnswer
from .lending import lent_to
from .matching import covers, covers_change, opening

__all__ = [
    "APPROVAL",
    "CHANGED_SINCE",
    "Asks",
    "answer_in_advance",
    "answers_for_changes",
    "grants_behind",
    "is_about_values",
    "lapsed_behind",
    "open_hosts",
    "recheck",
    "resolve_asks",
    "who_lets_it_run",
]

Asks: TypeAlias = tuple[tuple[str, Ask], ...]
"""Gates and what they asked."""

APPROVAL = "approval"
"""Who refuses in the place of a gate what changed between a question and its answer."""

CHANGED_SINCE = "changed since you allowed it"
"""What a question says of a grant that has lapsed."""

_ENDORSABLE = frozenset({("grounding", SEEN), ("grounding", "unknown_id"), ("flow", FOREIGN)})
_ABOUT_THE_TOOL = frozenset({"permissions", "trust", "commands"})


def answer_in_advance(gate: str, ask: Ask, action: Action, session: Session) -> str | None:
    """Return who answered an Ask beforehand (a rule with its place, a grant, a level), or None.

    What a person typed is their answer to every question wholly about it, forced ones included.
    """
    if action.call.asker is Asker.PERSON and not any(map(_leads_elsewhere, ask.about)):
        return "the person, by typing it"
    if is_about_values(gate, ask) and all(
        session.is_endorsed(atom.kind, atom.shown, action.effects) for atom in ask.about
    ):
        return "grant: trust in the value"
    if ask.force:
        return None
    if _is_covered(ask, action):
        return action.covered_by
    if answer := _by_rule(gate, ask, action, session):
        return answer
    if session.policy.autonomy is Autonomy.FULL and _within_full(gate, ask, session):
        return "autonomy full"
    return "sandbox" if _within_sandbox(gate, ask, action, session) else None


def is_about_values(gate: str, ask: Ask) -> bool:
    """Whether trust in the values an Ask is about answers it: they were shown, or came up, and not given."""
    return (gate, ask.rule) in _ENDORSABLE and bool(ask.about)


def _by_rule(gate: str, ask: Ask, action: Action, session: Session) -> str:
    """Return the allow rules or grants that cover everything an Ask is about, "" where none do."""
    allowing = tuple(rule for rule in session.policy.rules if rule.action is RuleAction.ALLOW)
    if not ask.own_rule and (found := _covering(allowing, gate, ask, action, session)):
        return "; ".join(f"{rule} at {rule.where}" if rule.where else str(rule) for rule in found)
    granted = tuple(grant.rule for grant in _active(action, session))
    found = _covering(granted, gate, ask, action, session)
    return "; ".join(f"grant: {rule} for {rule.where}" for rule in found)


def who_lets_it_run(action: Action, session: Session) -> str:
    """Return the answer in advance that lets the command lines of a call run for real, "" if there is none.

    No level of autonomy does, where what they would change can be shown first. Nor does an answer from before
    text of somebody else was read: nobody could know then what that would put into the files a line runs.
    """
    if session.policy.autonomy is Autonomy.READONLY:
        return ""
    if action.call.asker is Asker.PERSON:
        return "the person, by typing it"
    if session.is_untrusted and action.may_be_tried and session.policy.sandbox.rung is Runs.TRIAL:
        return ""
    return _by_rule(*_of_lines(action), action, session)


def answers_for_changes(action: Action, session: Session, left: Asks, approver: str) -> str:
    """Return whose answer to command lines that run for real is one to what they change, "" where none is.

    Only for those is the workspace held apart while they run. A line that a person typed, or allowed once,
    runs plainly: that was to this very line, and nothing it does is asked about again.
    """
    if action.call.asker is Asker.PERSON or not action.may_be_tried or not session.uses_overlays:
        return ""
    if lent_to(action, session.policy):
        # What a program writes that had a secret may hold it in any form.
        return ""
    lines = frozenset(action.of_kind(Kind.COMMAND))
    is_asked = any(not lines.isdisjoint(ask.about) for _, ask in left)
    return "" if is_asked else f"the answer to its command ({approver or 'allowed_commands'})"


def _is_covered(ask: Ask, action: Action) -> bool:
    """Whether the answer to a command answers an Ask about what it changed.

    It was not given to what runs later, nor against a rule by which the person wants to be asked. Settings of
    repositories are changed on the word of an answer by commands of git alone.
    """
    if not action.covered_by or action.of is None or ask.own_rule or ask.by_name:
        return False
    lines = (atom.canonical for atom in action.of.of_kind(Kind.COMMAND))
    is_git = all(
        isinstance(line, CommandLine) and all(argv[0] == "git" for argv in line.actions) for line in lines
    )
    return is_git or all(atom.canonical != GIT_SETTINGS for atom in ask.about)


def _of_lines(action: Action) -> tuple[str, Ask]:
    """Return what a rule has to answer so that the command lines of a call run for real."""
    return "commands", Ask("runs", "Run it?", about=action.of_kind(Kind.COMMAND))


def resolve_asks(asks: Asks, action: Action, session: Session) -> tuple[Asks, str]:
    """Return the Asks that nobody answered beforehand, and who answered the others.

    Each says which grants would have, were the files they are bound to what they were.
    """
    answers = {asked: answer_in_advance(*asked, action, session) for asked in asks}
    left = tuple(_with_lapsed(*asked, action, session) for asked, answer in answers.items() if answer is None)
    return left, "; ".join(dict.fromkeys(filter(None, answers.values())))


def _with_lapsed(gate: str, ask: Ask, action: Action, session: Session) -> tuple[str, Ask]:
    if ask.force:
        return gate, ask
    found = _lapsed_for(gate, ask, action, session)
    if action.of is not None:
        # Had its grant held, the line would have run for real.
        found += _lapsed_for(*_of_lines(action.of), action.of, session)
    return gate, replace(ask, facts=tuple(dict.fromkeys((*ask.facts, *found)))) if found else ask


def _bare(ask: Ask) -> Ask:
    """Return an Ask without what it says of lapsed grants, which may be others by the time it is answered."""
    if not any(name.startswith(CHANGED_SINCE) for name, _ in ask.facts):
        return ask
    return replace(ask, facts=tuple(fact for fact in ask.facts if not fact[0].startswith(CHANGED_SINCE)))


def lapsed_behind(action: Action, session: Session) -> tuple[tuple[str, str], ...]:
    """Return which grants would let the command lines of a call run for real, and what changed since."""
    return _lapsed_for(*_of_lines(action), action, session)


def _lapsed_for(gate: str, ask: Ask, action: Action, session: Session) -> tuple[tuple[str, str], ...]:
    """Return the grants that would answer an Ask, but for files that a call changed since; as facts."""
    facts, workspace = action.bound, session.policy.workspace
    about = [one for one in session.active_grants() if fnmatchcase(action.call.tool, one.tool)]
    changed = {one.rule: names for one in about if (names := one.changed_since(facts.code, facts.changed))}
    if not changed:
        return ()
    used = _covering(tuple(one.rule for one in about), gate, ask, action, session)
    return tuple(
        (f"{CHANGED_SINCE} for {rule.where}", ", ".join(posixpath.relpath(name, workspace) for name in names))
        for rule in used
        if (names := changed.get(rule, ()))
    )


def _leads_elsewhere(atom: Atom) -> bool:
    """Whether a path is a link: where it leads is not what was typed."""
    return isinstance(atom.canonical, ResolvedPath) and atom.canonical.real != atom.canonical.text


def _covering(
    rules: tuple[Rule, ...], gate: str, ask: Ask, action: Action, session: Session
) -> tuple[Rule, ...]:
    """Return the rules that together cover everything an Ask is about, or none."""
    tool = action.call.tool
    if ask.rule == NETWORK:
        found = [opening(rules, atom) for atom in ask.about]
        return tuple(dict.fromkeys(rule for group in found for rule in group)) if all(found) else ()
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


def open_hosts(asks: Asks, session: Session) -> tuple[str, ...]:
    """Return the rules by which an allowed call reaches hosts: configured, granted, and allowed this once."""
    policy = session.policy
    if not policy.sandbox.by_host or policy.autonomy is Autonomy.READONLY:
        return ()
    granted = (grant.match for grant in session.active_grants() if grant.tool == NETWORK)
    once = (atom.shown for _, ask in asks if ask.rule == NETWORK for atom in ask.about)
    return tuple(dict.fromkeys((*policy.sandbox.allow_hosts, *filter(None, granted), *once)))


def _active(action: Action, session: Session) -> tuple[Grant, ...]:
    """Return the grants about a tool, or about hosts that it may reach, that have not expired.

    Those that lapsed for what the call runs by name are none.
    """
    facts, tool = action.bound, action.call.tool
    about = (one for one in session.active_grants() if one.tool == NETWORK or fnmatchcase(tool, one.tool))
    return tuple(one for one in about if not one.changed_since(facts.code, facts.changed))


def recheck(asked: Action, answered: Asks, again: Action, decision: Decision, left: Asks) -> Decision:
    """Return a second decision as it holds after a yes: a no, if the yes was to something else.

    What was shown and what would run must be one action, link by link, and every question still open
    must be one of those that were answered.
    """
    if decision.denial is not None:
        return decision
    known = {(gate, _bare(ask)) for gate, ask in answered}
    new = [gate for gate, ask in left if (gate, _bare(ask)) not in known]
    if (asked.digest, asked.atoms) != (again.digest, again.atoms):
        denial = Deny("changed", "what would run has changed since the question; ask again")
    elif new:
        gates = ", ".join(dict.fromkeys(new))
        denial = Deny("changed", f"while the question was open, {gates} got another question; ask again")
    else:
        return decision
    return Decision((*decision.answers, GateAnswer(APPROVAL, denial)))
