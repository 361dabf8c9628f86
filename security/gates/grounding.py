"""Was every URL given by the person, or found where it may be followed?

Whether its host is a fit destination is left to `hosts`, its spelling to `arguments`.
"""

from __future__ import annotations

from ..call import Action, Atom, Kind
from ..ledger import Grounding, Provenance
from ..session import Session
from ..unreadable import Unreadable
from ..url import Url
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["grounding"]

_NOT_PROVIDED = "fetch rejected: URL was not provided by the user"


def grounding(action: Action, session: Session) -> Verdict:
    """Deny a URL that stands on nothing known; ask about a query or fragment the person did not give."""
    if not session.policy.url_grounding:
        return Allow("off")
    denied: list[Deny] = []
    doubts: list[tuple[Atom, Grounding]] = []
    for atom in action.of_kind(Kind.URL):
        if not isinstance(atom.canonical, Url):
            denied.append(_unreadable(atom))
            continue
        known = session.ledger.lookup(atom.canonical)
        if known.source is None:
            denied.append(_not_provided(atom.canonical, known.nearest))
        elif known.added or known.provenance is Provenance.HINT:
            doubts.append((atom, known))
    return denied[0] if denied else _asked(doubts)


def _unreadable(atom: Atom) -> Deny:
    reason = atom.canonical.reason if isinstance(atom.canonical, Unreadable) else "it is not a URL"
    return Deny("unreadable", f"fetch rejected: the URL cannot be read: {reason}", facts=(("url", atom.raw),))


def _not_provided(url: Url, nearest: Url | None) -> Deny:
    facts = [("url", url.text)]
    if nearest is not None:
        facts.append(("nearest known", nearest.text))
    suggestion = nearest.text if nearest is not None and nearest.scheme == "https" else None
    return Deny("not_provided", _NOT_PROVIDED, suggestion=suggestion, facts=tuple(facts))


def _asked(doubts: list[tuple[Atom, Grounding]]) -> Verdict:
    """Gather the questions about all URLs into one; the more telling part gives the rule its name."""
    if not doubts:
        return Allow()
    about = tuple(atom for atom, _ in doubts)
    facts = tuple(("added", known.added) if known.added else ("url", atom.shown) for atom, known in doubts)
    if any(known.added for _, known in doubts):
        return Ask("added_query", "Open with a query or fragment that you did not give?", about, facts=facts)
    question = "Is this name, which could also be a file, meant as a web address?"
    return Ask("bare_host", question, about, facts=facts)
