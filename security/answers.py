"""Which answer given in advance covers which Ask?

An allow rule, a grant or `full` autonomy is the person's word given beforehand. It never answers a
Deny, nor an Ask marked `force`, and it must cover everything the Ask names. A rule without a
pattern speaks of the tool as such: it answers whether the tool may be used, not which paths it may
leave the workspace by or which URLs it may open.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TypeAlias

from .call import Action, Asker, Atom, Kind, Place
from .matching import covers, exact_patterns
from .policy import Autonomy, Rule, RuleAction
from .session import Session
from .verdict import Ask, Decision, Deny, Word
from .workspace import is_inside

__all__ = ["APPROVAL", "Asks", "answer_in_advance", "answered", "proposed_grants", "reconsidered"]

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
    allowing = tuple(rule for rule in session.policy.rules if rule.action is RuleAction.ALLOW)
    if not ask.own_rule and (rule := _covering(allowing, gate, ask, action, session)) is not None:
        return f"{rule} at {rule.where}" if rule.where else str(rule)
    if (rule := _covering(session.grants, gate, ask, action, session)) is not None:
        return f"grant: {rule} for {rule.where}"
    if session.policy.autonomy is Autonomy.FULL and _within_full(gate, ask, session):
        return "autonomy full"
    return None


def answered(asks: Asks, action: Action, session: Session) -> tuple[Asks, str]:
    """Return the Asks that nobody answered beforehand, and who answered the others."""
    answers = {asked: answer_in_advance(*asked, action, session) for asked in asks}
    left = tuple(asked for asked, answer in answers.items() if answer is None)
    return left, "; ".join(dict.fromkeys(filter(None, answers.values())))


def _leads_elsewhere(atom: Atom) -> bool:
    """Whether a path is a link: where it leads is not what was typed."""
    return isinstance(atom.canonical, Place) and atom.canonical.real != atom.canonical.text


def _covering(
    rules: tuple[Rule, ...], gate: str, ask: Ask, action: Action, session: Session
) -> Rule | None:
    """Return a rule if the rules together cover everything an Ask is about."""
    tool = action.call.tool
    if gate in _ABOUT_THE_TOOL:
        for rule in rules:
            if rule.match is None and fnmatchcase(tool, rule.tool):
                return rule
    found = [covers(rules, tool, atom, session.policy) for atom in ask.about]
    return found[0] if found and all(found) else None


def _within_full(gate: str, ask: Ask, session: Session) -> bool:
    if gate in _ABOUT_THE_TOOL:
        return True
    return gate == "paths" and all(
        isinstance(atom.canonical, Place)
        and is_inside(atom.canonical.text, *session.policy.allowed_paths)
        and is_inside(atom.canonical.real, *session.policy.allowed_paths)
        for atom in ask.about
    )


def proposed_grants(asks: Asks, action: Action) -> tuple[tuple[str, str | None], ...] | None:
    """Return the narrowest rules (tool, pattern) that "always" would grant; None where it is not on offer."""
    if any(ask.force for _, ask in asks):
        return None
    about = {atom for _, ask in asks for atom in ask.about if atom.kind is not Kind.TEXT}
    if not about:
        return ((action.call.tool, None),)
    patterns = [exact_patterns(atom) for atom in sorted(about, key=lambda atom: (atom.pointer, atom.kind))]
    if not all(patterns):
        return None
    return tuple(dict.fromkeys((action.call.tool, pattern) for group in patterns for pattern in group))


def reconsidered(asked: Action, answered: Asks, again: Action, decision: Decision, left: Asks) -> Decision:
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
    return Decision((*decision.words, Word(APPROVAL, denial)))
