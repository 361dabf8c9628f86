"""Deny calls over the budget of a turn or session, and repeated calls that keep returning the same.

What a run wrote may have been more than could be held; whether it runs once more, with more room, is asked.
"""

from __future__ import annotations

from ..call import Action, Again, Asker
from ..kinds import Kind, Runs
from ..policy import Autonomy
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["budget"]


def budget(action: Action, session: Session) -> Verdict:
    """Deny when calls ran out, or a call brought the same result several times in a row; ask for more room.

    What follows from a trial or a read-only run is part of the call that ran it. The limits are the model's:
    a person who asks for something themselves has set them. Seconds and cost are watched by what runs a
    turn, for they end what a model says, too.
    """
    if action.call.asker is Asker.PERSON or action.of is not None or action.wished:
        return Allow()
    limits = session.policy.calls
    # A call that waited for a person took its place in the budget when it was asked about.
    is_booked = action.call.id in session.pending
    if not is_booked and session.calls_this_session >= limits.per_session:
        return Deny("calls_per_session", f"this session has used its {limits.per_session} tool calls")
    if not is_booked and session.calls_this_turn >= limits.per_turn:
        return Deny("calls_per_turn", f"this turn has used its {limits.per_turn} tool calls")
    if session.repeats >= limits.repeats and session.last[0] == session.keyed(action.digest):
        return Deny(
            "repeated",
            f"the same call returned the same result {session.repeats} times in a row; do something else",
        )
    return Allow() if action.again is None else _once_more(action, action.again, session)


def _once_more(action: Action, again: Again, session: Session) -> Verdict:
    """Ask whether lines run once more: with what they write held on a disk, or plainly for real."""
    if session.policy.autonomy is Autonomy.READONLY:
        return Deny("readonly", "autonomy is readonly: a command is not run again to keep its changes")
    on_disk = f"with what it writes on disk (at most {again.disk >> 20} MiB), or for real"
    question = f"{again.reason}. Run it again, {on_disk if again.disk else 'for real'}?"
    runs = Runs.TRIAL if again.disk and not again.covers else Runs.REAL
    lines = action.of_kind(Kind.COMMAND)
    return Ask("full", question, lines, force=True, runs=runs, or_real=bool(again.disk))
