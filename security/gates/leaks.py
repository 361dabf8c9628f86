"""Denies calls that carry a known secret outward; asks about what a confidential text says.

Everything a call says is looked at, bodies and what is below a URL included; what is found how is in
`checks/leaking.py`. What a person typed themselves is theirs to send.
"""

from __future__ import annotations

from ..call import Action, Asker
from ..checks import OUTWARD, carried_secret, confidential_source, is_random
from ..kinds import Kind
from ..policy import RANDOM_ADDITION
from ..session import Session
from ..url import Url
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["leaks"]


def leaks(action: Action, session: Session) -> Verdict:
    """Deny a known secret or the marker of the session; ask about confidential words and random URLs."""
    if not action.effects & OUTWARD or action.call.asker is Asker.PERSON or action.of is not None:
        return Allow()
    secret = carried_secret(action, session)
    if secret is not None:
        what = "the marker that this session hides" if secret.is_canary else "a known secret"
        return Deny("known_secret", f"this call would carry {what} outward, or complete what others began")
    source = confidential_source(action, session)
    if source is not None:
        question = "Send something that only a confidential text says?"
        return Ask("confidential", question, force=True, facts=(("read from", source),))
    return _random_urls(action, session)


def _random_urls(action: Action, session: Session) -> Verdict:
    """Ask, once for each host, about a URL that could carry what was read, once anything was."""
    if not session.labels:
        return Allow()
    urls = [(atom, atom.canonical) for atom in action.of_kind(Kind.URL) if isinstance(atom.canonical, Url)]
    about = [
        (atom, url)
        for atom, url in urls
        if url.host not in session.values.outward.carried_to and is_random(session.ledger.lookup(url))
    ]
    if not about:
        return Allow()
    facts = tuple(dict.fromkeys(("host", url.host) for _, url in about))
    question = "Open with characters that could encode something that was read?"
    return Ask(RANDOM_ADDITION, question, tuple(atom for atom, _ in about), facts=facts)
