"""Is the source of this tool trusted enough for its effects?"""

from __future__ import annotations

from ..call import Action, Effect
from ..level import TrustLevel, min_trust
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["trust"]


def trust(action: Action, session: Session) -> Verdict:
    """Let trusted tools act, ask about verified ones, keep quarantined ones to reading, blocked to nothing."""
    level = _level(action, session)
    beyond = action.effects & ~Effect.READ
    if level is TrustLevel.BLOCKED:
        return Deny("blocked", "this tool is blocked; /trust TOOL LEVEL lifts it")
    if level is TrustLevel.QUARANTINED and beyond:
        return Deny("quarantined", "this tool is quarantined and may only read; /trust TOOL LEVEL raises it")
    if level is TrustLevel.VERIFIED and beyond:
        return Ask("verified", "this tool comes from a plug-in and does more than read", action.atoms)
    return Allow()


def _level(action: Action, session: Session) -> TrustLevel:
    """The person's word in this session decides; else the weakest of what is configured and declared."""
    spec = action.spec
    if spec is None:
        return TrustLevel.BLOCKED
    said = session.level_of(spec.name)
    if said is not None:
        return said[0]
    configured = (session.policy.levels.get(key) for key in (spec.name, spec.source))
    return min_trust(spec.level, *(level for level in configured if level is not None))
