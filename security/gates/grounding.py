"""Deny URLs and destinations that nobody gave; ask about those that a text showed.

What to ask about a grounded one is in `checks/grounding.py`, about one that was seen in `checks/sighting.py`.
Whether its host is allowed is for the `hosts` gate, its spelling for `arguments`.
"""

from __future__ import annotations

from ..call import Action, Atom
from ..checks import (
    WAY_OUT,
    UrlQuestion,
    asked_about,
    destination_question,
    id_question,
    negated_question,
    passing_url,
    seen_question,
    unread_url,
    url_question,
)
from ..kinds import Kind
from ..session import Session
from ..url import Grounding, Provenance, Url, host_facts
from ..verdict import Allow, Deny, Verdict

__all__ = ["grounding"]

_NOT_PROVIDED = "fetch rejected: URL was not provided by the user"


def grounding(action: Action, session: Session) -> Verdict:
    """Deny a value that nobody gave or showed; ask about one the person did not give in full."""
    if not session.policy.url_grounding:
        return Allow("off")
    doubts: list[tuple[Atom, UrlQuestion]] = []
    grounds: list[tuple[Url, Provenance]] = []
    for atom in action.of_kind(Kind.URL, Kind.DESTINATION, Kind.RESOURCE_ID):
        objection: Deny | UrlQuestion | None
        if atom.kind is Kind.RESOURCE_ID:
            objection = id_question(atom, action, session)
        elif atom.kind is Kind.DESTINATION:
            objection = destination_question(atom, action, session)
        elif isinstance(atom.canonical, Url):
            known = session.ledger.lookup(atom.canonical)
            objection = _of_url(atom, atom.canonical, known, action, session)
            if known.provenance is not None:
                grounds.append((atom.canonical, known.provenance))
        else:
            objection = unread_url(atom)
        if isinstance(objection, Deny):
            return objection
        if objection is not None:
            doubts.append((atom, objection))
    return asked_about(doubts, tuple(grounds)) if doubts else Allow(grounds=tuple(grounds))


def _of_url(
    atom: Atom, url: Url, known: Grounding, action: Action, session: Session
) -> Deny | UrlQuestion | None:
    if session.is_endorsed(atom.kind, atom.shown, action.effects):
        return None
    if known.source is not None:
        return url_question(url, known, session) or negated_question(atom, session)
    return seen_question(atom, session) or _not_provided(url, known.nearest, action, session)


def _not_provided(url: Url, nearest: Url | None, action: Action, session: Session) -> Deny:
    facts = [("url", url.text), *host_facts(url)]
    if nearest is not None:
        facts.append(("nearest known", nearest.text))
    suggestion = passing_url(nearest.text, action.call.tool, action, session) if nearest is not None else None
    return Deny(
        "not_provided",
        _NOT_PROVIDED,
        suggestion=suggestion,
        facts=tuple(facts),
        detail=WAY_OUT,
        advice="you never gave this URL. Write it in a message or use /browse URL.",
    )
