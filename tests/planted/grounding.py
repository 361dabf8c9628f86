"""Wrong: a known URL vouches for every text that begins with it."""

from leeward.security.call import Action
from leeward.security.kinds import Kind
from leeward.security.session import Session
from leeward.security.verdict import Allow, Deny, Verdict


def grounding(action: Action, session: Session) -> Verdict:
    known = [url.text for url, _ in session.ledger.entries()]
    for atom in action.of_kind(Kind.URL):
        if not any(atom.raw.startswith(text.rstrip("/")) for text in known):
            return Deny("not_provided", "fetch rejected: URL was not provided by the user")
    return Allow()
