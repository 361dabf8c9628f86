"""Denies destructive and blocked command lines, and says what the others run in, or asks about them.

`command/judge/verdict.py` rules on what a line does, `command/judge/network.py` on where it connects
to. A line that may do more than read runs as a trial, where that can be had: what it did is judged and
asked about then. Where none can be had, and where a trial would not show what the line is for, it is asked
about before. Whether its hosts are on the lists is for the `hosts` gate.
"""

from __future__ import annotations

from dataclasses import replace

from ..call import Action, Atom
from ..checks import instead_of
from ..command import CommandLine, Ruling, Say, reach_of, ruling_of
from ..kinds import Effect, Kind, Runs, Unreadable
from ..policy import HISTORY, Autonomy
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["commands"]

_MOST_REASONS = 8


def commands(action: Action, session: Session) -> Verdict:
    """Deny what destroys or is blocked; let others run as a trial, or ask, by force if not understood."""
    said = [(atom, _ruling(atom, session)) for atom in action.of_kind(Kind.COMMAND)]
    spoken = [(atom, ruling) for atom, ruling in said if ruling.say != Say.NOTHING]
    sandbox, is_readonly = session.policy.sandbox, session.policy.autonomy is Autonomy.READONLY
    rung = sandbox.rung if action.may_be_tried else Runs.REAL
    if not spoken:
        # What does more than read, and nothing is said of, is allowed by name: for real.
        return Allow(runs=rung if is_readonly or not action.effects & ~Effect.READ else Runs.REAL)
    is_tried = rung is Runs.TRIAL and all(ruling.may_be_tried for _, ruling in spoken)
    is_closed = not session.reads_history and any(HISTORY in ruling.rules for _, ruling in spoken)
    if is_tried and not is_closed and not sandbox.asks_first:
        return Allow(runs=Runs.TRIAL)
    atom, worst = max(spoken, key=lambda one: one[1].say)
    suggestion = instead_of(atom, action, session)
    if worst.say == Say.DENY:
        facts = (("namely", worst.value),) if worst.value else ()
        reason = f"this command is refused: {worst.reason}"
        return Deny(worst.rule, reason, suggestion=suggestion, facts=facts)
    if is_readonly and not is_tried:
        return Deny("readonly", f"at autonomy readonly commands run on trial only: {worst.reason}")
    return Ask(
        worst.rule,
        f"Run it? {worst.reason}" if worst.reason else "Run it?",
        about=tuple(atom for atom, _ in spoken),
        force=worst.say == Say.FORCE,
        facts=_facts(worst),
        suggestion=suggestion,
        runs=Runs.TRIAL if is_tried else Runs.REAL,
    )


def _ruling(atom: Atom, session: Session) -> Ruling:
    """Return the stricter word of what a line does and where it reaches out to."""
    policy, line = session.policy, atom.canonical
    assert isinstance(line, (CommandLine, Unreadable))
    ruling = ruling_of(line, atom.raw, policy, policy.shell_rules)
    if isinstance(line, Unreadable):
        return ruling
    reached = reach_of(line, session.ledger, policy.allow_networks)
    if ruling.say == Say.NOTHING and reached.say == Say.ASK:
        # The person allowed this command by name; only a place they did not name is a question more.
        return ruling
    rules = ruling.rules | ({reached.rule} if reached.say else set())
    return replace(max(ruling, reached, key=lambda one: one.say), rules=rules)


def _facts(ruling: Ruling) -> tuple[tuple[str, str], ...]:
    """Return every reason with what it is about; the one that stands in the question is not said again."""
    told = dict.fromkeys(
        ("namely" if reason == ruling.reason else reason, value) for reason, value in ruling.reasons if value
    )
    return tuple(told)[:_MOST_REASONS]
