"""Wrong: reads the window itself instead of the level that was set, and asks once the breaker fell,
unforced.
"""

from leeward.security.call import Action
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Deny, Verdict


def anomaly(action: Action, session: Session) -> Verdict:
    if session.anomaly.is_tripped(action.call.tool, session.policy.anomaly):
        return Deny("blocked", "this tool failed too often")
    if session.breaker.consecutive >= session.policy.breaker.consecutive:
        return Ask("breaker", "may it?", action.atoms)
    return Allow()
