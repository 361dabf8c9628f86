"""Wrong: the secret is looked for as it is written, in declared texts alone."""

from leeward.security.call import Action
from leeward.security.kinds import Effect, Kind
from leeward.security.session import Session
from leeward.security.verdict import Allow, Deny, Verdict


def leaks(action: Action, session: Session) -> Verdict:
    texts = [atom.raw for atom in action.of_kind(Kind.TEXT)] if Effect.SEND in action.effects else []
    found = any(secret in text for secret in session.secrets for text in texts)
    return Deny("known_secret", "a known secret") if found else Allow()
