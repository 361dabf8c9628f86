"""Deny blocked tools, and effects of quarantined ones beyond reading; ask about effects of verified ones."""

from __future__ import annotations

from ..call import Action
from ..kinds import Effect
from ..permissions import JUDGED
from ..session import Session
from ..trust import TrustLevel
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["trust"]


def trust(action: Action, session: Session) -> Verdict:
    """Let trusted tools act, ask about verified ones, keep quarantined to reading, blocked to nothing."""
    level = session.trust_in(action.spec) if action.spec is not None else TrustLevel.BLOCKED
    if action.spec is None or level >= TrustLevel.BLOCKED:
        return Deny("blocked", "this tool is blocked; /trust TOOL LEVEL lifts it")
    if not session.trusts(action.spec, action.effects):
        return Deny("quarantined", "this tool is quarantined and may only read; /trust TOOL LEVEL raises it")
    if level >= TrustLevel.VERIFIED and action.effects & ~Effect.READ:
        about = action.of_kind(*JUDGED)
        question = "this tool is only verified, and does more than read; /trust TOOL trusted lifts this"
        return Ask("verified", question, about)
    return Allow()
