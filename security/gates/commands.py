"""Denies destructive and blocked command lines; asks about those that may do more than read.

`command/judge/verdict.py` rules on what a line does, `command/judge/network.py` on where it connects
to. A line that only reads needs no question. Whether its hosts are on the lists is for the `hosts`
gate.
"""

from __future__ import annotations

from ..call import Action, Atom
from ..checks import instead_of
from ..command import CommandLine, Ruling, Say, reach_of, ruling_of
from ..kinds import Kind, Unreadable
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["commands"]

_MOST_REASONS = 8


def commands(action: Action, session: Session) -> Verdict:
    """Deny what destroys or is blocked, ask about the rest, by force where it could not be understood."""
    said = [(atom, _ruling(atom, session)) for atom in action.of_kind(Kind.COMMAND)]
    spoken = [(atom, ruling) for atom, ruling in said if ruling.say != Say.NOTHING]
    if not spoken:
        return Allow()
    atom, worst = max(spoken, key=lambda one: one[1].say)
    suggestion = instead_of(atom, action, session)
    if worst.say == Say.DENY:
        facts = (("namely", worst.value),) if worst.value else ()
        reason = f"this command is refused: {worst.reason}"
        return Deny(worst.rule, reason, suggestion=suggestion, facts=facts)
    return Ask(
        worst.rule,
        f"Run it? {worst.reason}" if worst.reason else "Run it?",
        about=tuple(atom for atom, _ in spoken),
        force=worst.say == Say.FORCE,
        facts=_facts(worst),
        suggestion=suggestion,
    )


def _ruling(atom: Atom, session: Session) -> Ruling:
    """Return the stricter word of what a line does and where it reaches out to."""
    policy, line = session.policy, atom.canonical
    assert isinstance(line, (CommandLine, Unreadable))
    ruling = ruling_of(line, atom.raw, policy, policy.shell)
    if isinstance(line, Unreadable):
        return ruling
    reached = reach_of(line, session.ledger, policy.allow_networks)
    if ruling.say == Say.NOTHING and reached.say == Say.ASK:
        # The person allowed this command by name; only a place they did not name is a question more.
        return ruling
    return max(ruling, reached, key=lambda one: one.say)


def _facts(ruling: Ruling) -> tuple[tuple[str, str], ...]:
    """Return every reason with what it is about; the one that stands in the question is not said again."""
    told = dict.fromkeys(
        ("namely" if reason == ruling.reason else reason, value) for reason, value in ruling.reasons if value
    )
    return tuple(told)[:_MOST_REASONS]
