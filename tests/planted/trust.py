"""Wrong: trusts what a tool says of itself, and lets a quarantined one do what it may ask for."""

from leeward.security.call import Action
from leeward.security.kinds import Effect
from leeward.security.session import Session
from leeward.security.trust import TrustLevel
from leeward.security.verdict import Allow, Ask, Deny, Verdict


def trust(action: Action, session: Session) -> Verdict:
    said = session.level_of(action.call.tool)
    level = min(action.spec.level, said[0] if said else TrustLevel.BLOCKED)
    if level is TrustLevel.BLOCKED:
        return Deny("blocked", "this tool is blocked")
    return Ask("verified", "may it?", action.atoms) if level and action.effects & ~Effect.READ else Allow()
