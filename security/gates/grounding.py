"""Denies URLs and destinations that came neither from the person nor from a source that may be followed.

What to ask about a grounded one is in `checks/grounding.py`. Whether its host is allowed is for the
`hosts` gate, its spelling for `arguments`.
"""

from __future__ import annotations

from ..call import Action, Atom
from ..checks import DOUBTS, UrlQuestion, destination_question, passing_url, unread_url, url_question
from ..kinds import Kind
from ..session import Session
from ..url import Destination, Grounding, Provenance, Url, host_facts
from ..verdict import Allow, Ask, Deny, Grounds, Verdict

__all__ = ["grounding"]

_NOT_PROVIDED = "fetch rejected: URL was not provided by the user"
_NOT_NAMED = "send rejected: destination was not provided by the user"


def grounding(action: Action, session: Session) -> Verdict:
    """Deny what stands on nothing known; ask about whatever the person did not give in full."""
    if not session.policy.url_grounding:
        return Allow("off")
    doubts: list[tuple[Atom, UrlQuestion]] = []
    grounds: list[tuple[Url, Provenance]] = []
    for atom in action.of_kind(Kind.URL, Kind.DESTINATION):
        said: Deny | UrlQuestion | None
        if atom.kind is Kind.DESTINATION:
            said = _of_destination(atom, action, session)
        elif isinstance(atom.canonical, Url):
            known = session.ledger.lookup(atom.canonical)
            said = _of_url(atom.canonical, known, action, session)
            if known.provenance is not None:
                grounds.append((atom.canonical, known.provenance))
        else:
            said = unread_url(atom)
        if isinstance(said, Deny):
            return said
        if said is not None:
            doubts.append((atom, said))
    return _asked(doubts, tuple(grounds)) if doubts else Allow(grounds=tuple(grounds))


def _of_url(url: Url, known: Grounding, action: Action, session: Session) -> Deny | UrlQuestion | None:
    if known.source is not None:
        return url_question(url, known, session)
    return _not_provided(url, known.nearest, action, session)


def _of_destination(atom: Atom, action: Action, session: Session) -> Deny | UrlQuestion | None:
    place = atom.canonical
    if isinstance(place, Destination) and session.ledger.provenance_of(place) is None:
        return Deny("not_provided", _NOT_NAMED, facts=(("destination", place.text),))
    return destination_question(atom, action)


def _not_provided(url: Url, nearest: Url | None, action: Action, session: Session) -> Deny:
    facts = [("url", url.text), *host_facts(url)]
    if nearest is not None:
        facts.append(("nearest known", nearest.text))
    suggestion = passing_url(nearest.text, action.call.tool, action, session) if nearest is not None else None
    return Deny("not_provided", _NOT_PROVIDED, suggestion=suggestion, facts=tuple(facts))


def _asked(doubts: list[tuple[Atom, UrlQuestion]], grounds: Grounds) -> Ask:
    """Gather the questions about all of them into one; the gravest gives it its name."""
    rule = min((doubt.rule for _, doubt in doubts), key=list(DOUBTS).index)
    facts = tuple(fact for _, doubt in doubts for fact in doubt.facts)
    about = tuple(atom for atom, _ in doubts)
    return Ask(rule, DOUBTS[rule], about, force=rule == "carries_value", facts=facts, grounds=grounds)
