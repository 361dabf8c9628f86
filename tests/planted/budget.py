"""Wrong: lets one call too many pass, and takes any call that was made before for a repetition."""

from leeward.security.call import Action
from leeward.security.session import Session
from leeward.security.verdict import Allow, Deny, Verdict


def budget(action: Action, session: Session) -> Verdict:
    limits = session.policy.calls
    if session.calls_this_session > limits.per_session or session.calls_this_turn > limits.per_turn:
        return Deny("calls", "no calls are left")
    if session.repeats >= limits.repeats:
        return Deny("repeated", "do something else")
    return Allow()
