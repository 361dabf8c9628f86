"""Deny destructive and forbidden command lines; choose what the others run in, or ask.

`command/judge/verdict.py` rules on what a line does, `command/judge/network.py` on where it connects to.
A line that may do more than read runs as a trial, or read-only, and what it changed or wanted to is judged
afterwards. Where neither can be had, or would show what it is for, the line is asked about first.
"""

from __future__ import annotations

from dataclasses import replace

from .. import command
from ..call import Action, Atom
from ..checks import asked_to_write, instead_of, is_by_host
from ..kinds import CommandLine, Effect, Kind, Runs, Unreadable
from ..permissions import lending_word, lent_to
from ..policy import HISTORY, Autonomy
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["commands"]


def commands(action: Action, session: Session) -> Verdict:
    """Deny what destroys or is blocked; let others run where they do no harm, or ask."""
    rulings = [(atom, _ruling(action, atom, session)) for atom in action.of_kind(Kind.COMMAND)]
    spoken = [(atom, ruling) for atom, ruling in rulings if ruling.say != command.Say.NOTHING]
    lent = lent_to(action, session.policy)
    if lent and all(ruling.say != command.Say.DENY for _, ruling in rulings):
        force = any(ruling.say == command.Say.FORCE for _, ruling in rulings)
        return lending_word(action, lent, session, force=force)
    sandbox, is_readonly = session.policy.sandbox, session.policy.autonomy is Autonomy.READONLY
    rung = sandbox.rung if action.may_be_tried else Runs.REAL
    if not spoken and not action.wished:
        # A line that does more than read, without an objection, is allowed by name: for real.
        is_wary = is_readonly or session.is_untrusted
        return Allow(runs=rung if is_wary or not action.effects & ~Effect.READ else Runs.REAL)
    is_tried = rung is not Runs.REAL and all(ruling.may_be_tried for _, ruling in spoken)
    is_closed = not session.reads_history and any(HISTORY in ruling.rules for _, ruling in spoken)
    if is_tried and not is_closed and not sandbox.asks_first:
        return Allow(runs=rung)
    atom, worst = max(spoken or rulings, key=lambda one: one[1].say)
    suggestion = instead_of(atom, action, session)
    if worst.say == command.Say.DENY:
        facts = (("namely", worst.value),) if worst.value else ()
        reason = f"this command is refused: {worst.reason}"
        return Deny(worst.rule, reason, suggestion=suggestion, facts=facts)
    if is_readonly and not is_tried:
        reason = f"autonomy is readonly: this command would change something: {worst.reason or 'it writes'}"
        return Deny("readonly", reason)
    if action.wished:
        return asked_to_write(action, worst.facts, force=worst.say == command.Say.FORCE)
    # A read-only run after a yes would show nothing, and ask again.
    is_tried &= rung is Runs.TRIAL or is_readonly or not sandbox.asks_first
    return Ask(
        worst.rule,
        f"Run it? {worst.reason}" if worst.reason else "Run it?",
        about=tuple(atom for atom, _ in spoken),
        force=worst.say == command.Say.FORCE,
        facts=worst.facts,
        suggestion=suggestion,
        runs=rung if is_tried else Runs.REAL,
    )


def _ruling(action: Action, atom: Atom, session: Session) -> command.Ruling:
    """Return the stricter word of what a line does and where it reaches out to."""
    policy, line = session.policy, atom.canonical
    assert isinstance(line, (CommandLine, Unreadable))
    ruling = command.ruling_of(line, atom.raw, policy, policy.shell_rules)
    if isinstance(line, Unreadable):
        return ruling
    reached = command.reach_of(line, session.ledger, policy.allow_networks)
    # By host it reaches nothing but what `hosts` asks about, and its run shows what it tries besides.
    is_held = reached.say != command.Say.DENY and is_by_host(action, atom, policy)
    if is_held or (ruling.say == command.Say.NOTHING and reached.say == command.Say.ASK):
        # Or the person allowed this command by name; only a place they did not name is a question more.
        return ruling
    rules = ruling.rules | ({reached.rule} if reached.say else set())
    return replace(max(ruling, reached, key=lambda one: one.say), rules=rules)
