"""Wrong: a hook's "allow" counts, silence does too, and an Ask of its can be answered beforehand."""

from leeward.security.call import Action
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Deny, Verdict


def hooks(action: Action, session: Session) -> Verdict:
    words = [answer.word for answer in action.hooked if not answer.failed]
    if "deny" in words:
        return Deny("denied", "a hook refused this call")
    return Ask("asked", "may it?") if "ask" in words and "allow" not in words else Allow()
