"""Can the command line be read, and may every program in it run?

Judged is what was read of it, never the text: nothing is said where every part only reads what may
be read, no where something is destroyed that no task needs to destroy, and a question else.
"""

from __future__ import annotations

from ..call import Action, Atom, Kind
from ..command import CommandLine
from ..command.explain import explain, is_shown_in_full
from ..command.reach import reach_of
from ..command.rules import ShellRules
from ..command.suggest import suggestion_for
from ..command.verdict import Ruling, Say, ruling_of
from ..session import Session
from ..unreadable import Unreadable
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["commands"]


def commands(action: Action, session: Session) -> Verdict:
    """Deny what destroys, ask about what changes or cannot be told, say nothing of what only reads."""
    atoms = action.of_kind(Kind.COMMAND)
    ruled = [(atom, ruling) for atom in atoms if (ruling := _ruled(atom, session)).say != Say.NOTHING]
    for atom, ruling in ruled:
        if ruling.say == Say.DENY:
            return _denied(atom, ruling, session)
    return _asked(ruled, session) if ruled else Allow()


def _rules(_session: Session) -> ShellRules:
    return ShellRules()


def _ruled(atom: Atom, session: Session) -> Ruling:
    if not isinstance(atom.canonical, (CommandLine, Unreadable)):
        return Ruling(Say.FORCE, "unreadable", "the line could not be read")
    ruling = ruling_of(atom.canonical, atom.raw, session.policy, _rules(session))
    if isinstance(atom.canonical, Unreadable):
        # Prose that nobody declared to be a command is no attempt to hide one.
        return (
            ruling if atom.declared or ruling.say == Say.DENY else Ruling(Say.ASK, ruling.rule, ruling.reason)
        )
    reach = reach_of(atom.canonical, session.ledger, session.policy.allow_networks)
    worst = max(ruling, reach, key=lambda one: one.say)
    return Ruling(worst.say, worst.rule, worst.reason, worst.value, (*ruling.reasons, *reach.reasons))


def _denied(atom: Atom, ruling: Ruling, session: Session) -> Deny:
    facts = (("command", atom.shown), *((("because of", ruling.value),) if ruling.value else ()))
    return Deny(ruling.rule, ruling.reason, suggestion=_suggested(atom, session), facts=facts)


def _suggested(atom: Atom, session: Session) -> str | None:
    if not isinstance(atom.canonical, CommandLine):
        return None
    found = suggestion_for(atom.canonical, session.policy, _rules(session))
    return str(found) if found is not None else None


def _asked(ruled: list[tuple[Atom, Ruling]], session: Session) -> Ask:
    facts: list[tuple[str, str]] = []
    force = False
    for atom, ruling in ruled:
        shown = (
            explain(atom.canonical, atom.raw) if isinstance(atom.canonical, (CommandLine, Unreadable)) else ()
        )
        force = force or ruling.say == Say.FORCE or not is_shown_in_full(shown)
        facts += [("runs", line) for line in shown]
        facts += [("because", f"{reason}: {value}" if value else reason) for reason, value in ruling.reasons]
        if (instead := _suggested(atom, session)) is not None:
            facts.append(("instead", instead))
    first = ruled[0][1]
    return Ask(first.rule, first.reason, tuple(atom for atom, _ in ruled), force, facts=tuple(facts))
