"""Deny URLs and destinations that the model made up; ask about those it took from a text it has read.

A URL is *grounded* if the session's ledger holds it or a URL above it: given by the person, or found by a
search, a link or a redirect. `checks/grounding.py` says what to ask about such a URL. A value is *seen* if a
text of this session showed it; `checks/sighting.py` says what to ask then. The host of a URL is judged by
`hosts`, its spelling by `arguments`.
"""

from __future__ import annotations

from ..call import Action, Atom
from ..checks import (
    WAY_OUT,
    UrlQuestion,
    acceptable_url,
    combined_ask,
    destination_question,
    id_question,
    negated_question,
    seen_question,
    unreadable_url,
    url_question,
)
from ..kinds import Kind
from ..session import Session
from ..url import Grounding, Provenance, Url, host_facts
from ..verdict import Allow, Deny, Verdict

__all__ = ["grounding"]

_NOT_PROVIDED = "fetch rejected: URL was not provided by the user"


def grounding(action: Action, session: Session) -> Verdict:
    """Deny a URL or destination that is neither grounded nor seen; ask about one not given in full."""
    if not session.policy.url_grounding:
        return Allow("off")
    questions: list[tuple[Atom, UrlQuestion]] = []
    grounds: list[tuple[Url, Provenance]] = []
    for atom in action.of_kind(Kind.URL, Kind.DESTINATION, Kind.RESOURCE_ID):
        objection: Deny | UrlQuestion | None
        if atom.kind is Kind.RESOURCE_ID:
            objection = id_question(atom, action, session)
        elif atom.kind is Kind.DESTINATION:
            objection = destination_question(atom, action, session)
        elif isinstance(atom.canonical, Url):
            ground = session.ledger.lookup(atom.canonical)
            objection = _url_objection(atom, atom.canonical, ground, action, session)
            if ground.provenance is not None:
                grounds.append((atom.canonical, ground.provenance))
        else:
            objection = unreadable_url(atom)
        if isinstance(objection, Deny):
            return objection
        if objection is not None:
            questions.append((atom, objection))
    return combined_ask(questions, tuple(grounds)) if questions else Allow(grounds=tuple(grounds))


def _url_objection(
    atom: Atom, url: Url, ground: Grounding, action: Action, session: Session
) -> Deny | UrlQuestion | None:
    if session.is_endorsed(atom.kind, atom.shown, action.effects):
        return None
    if ground.source is not None:
        return url_question(url, ground, session) or negated_question(atom, session)
    return seen_question(atom, session) or _not_provided(url, ground.nearest, action, session)


def _not_provided(url: Url, nearest: Url | None, action: Action, session: Session) -> Deny:
    facts = [("url", url.text), *host_facts(url)]
    if nearest is not None:
        facts.append(("nearest known", nearest.text))
    suggestion = (
        acceptable_url(nearest.text, action.call.tool, action, session) if nearest is not None else None
    )
    return Deny(
        "not_provided",
        _NOT_PROVIDED,
        suggestion=suggestion,
        facts=tuple(facts),
        detail=WAY_OUT,  # for the model; `advice` is for the person
        advice="you never gave this URL. Write it in a message or use /browse URL.",
    )
