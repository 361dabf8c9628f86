"""Denies calls over the budget of a session or turn, and calls that keep returning the same result."""

from __future__ import annotations

from ..call import Action, Asker
from ..session import Session
from ..verdict import Allow, Deny, Verdict

__all__ = ["budget"]


def budget(action: Action, session: Session) -> Verdict:
    """Deny when calls ran out, or a call brought the same result several times in a row.

    What a trial run changed is part of the call that ran it. The limits are the model's: a person who asks
    for something themselves has set them. Seconds and cost are watched by whoever runs a turn, for they end
    what a model says, too.
    """
    if action.call.asker is Asker.PERSON or action.of is not None:
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
            f"the same call brought the same result {session.repeats} times in a row; do something else",
        )
    return Allow()
