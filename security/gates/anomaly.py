"""Deny blocked tools; after too many denials in a session, ask about every effect.

Counting is `session/anomaly.py`'s, setting the level `record/journal.py`'s. This gate says what follows.
"""

from __future__ import annotations

from ..call import Action
from ..kinds import Effect
from ..session import Session
from ..trust import TrustLevel
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["anomaly"]


def anomaly(action: Action, session: Session) -> Verdict:
    """Deny a blocked tool with cause and remedy; ask about effects while the breaker is tripped."""
    level = session.level_of(action.call.tool)
    if level is not None and level[0] is TrustLevel.BLOCKED:
        return Deny("blocked", level[1])
    if session.breaker.tripped and action.effects & ~Effect.READ:
        reason = f"{session.breaker.total} calls were denied in this session, too many in all or in a row"
        question = f"{reason}; a yes to this question or /trust reset lifts it"
        return Ask("breaker", question, force=True)
    return Allow() if session.policy.anomaly.enabled else Allow("off")
