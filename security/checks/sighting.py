"""Find where a value comes from, beyond the URL ledger: the person, a text that was read, or nowhere.

The tokens of texts are in the session (`provenance/`); here they are asked for one value of a call, and the
answer is put in words. What a page or a server of somebody else's showed is asked about each time, and so is
what the model used before anything showed it: nothing but an answer about that very value answers that.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..call import Action, Atom
from ..kinds import Effect, Json, Kind
from ..lazy import regex
from ..provenance import forms_of
from ..session import Session
from ..trust import Origin
from ..url import Destination, DestinationKind, is_host_like
from ..verdict import Deny
from .grounding import UrlQuestion

__all__ = ["WAY_OUT", "destination_question", "id_question", "negated_question", "seen_question"]

WAY_OUT: Mapping[str, Json] = {
    "way_out": "ask the person to write it in a message, or read something that shows it"
}
"""What can be done about a value that nobody gave or showed, in words beside a refusal."""

_NOT_NAMED = "send rejected: destination was not provided by the user"
_OTHERS = frozenset({Origin.WEB, Origin.MCP})
_TOOL = regex(r"[a-z0-9_]{1,64}")
_TEXTS = {
    Origin.PERSON: "a sentence of yours that says no",
    Origin.PROJECT: "the instructions of this workspace",
    Origin.WORKSPACE: "a file of this workspace",
    Origin.WEB: "text from the web",
    Origin.MCP: "text from an MCP server",
}


def is_given(atom: Atom, action: Action, session: Session) -> bool:
    """Whether the person wrote a destination or an id, as whole tokens, or trusts it by a grant.

    A bare host may be a file of that name, so it takes more than a word: `main.rs`.
    """
    if session.is_endorsed(atom.kind, atom.shown, action.effects):
        return True
    place = atom.canonical
    is_doubtful = isinstance(place, Destination) and place.kind is DestinationKind.HOST
    if is_doubtful and is_host_like(atom.raw):
        return False
    return session.values.is_given(forms_of(atom.kind, place, atom.raw), session.values_key)


def _is_confirmed(atom: Atom, action: Action, session: Session) -> bool:
    """Whether the person let this tool use another value of the same text before, in this turn.

    So a message to each of several contacts is one question. Where somebody else's text was read, it could
    have chosen the next one.
    """
    if not session.values.outward.confirmed or session.labels & _OTHERS:
        return False
    forms, key = forms_of(atom.kind, atom.canonical, atom.raw), session.values_key
    sighting = session.values.seen_in(forms, key)
    is_known = sighting is not None and (action.call.tool, sighting.call) in session.values.outward.confirmed
    return is_known and not session.values.is_invented(forms, key)


def seen_question(atom: Atom, session: Session) -> UrlQuestion | None:
    """Return the question about a value that a text showed, None where none did."""
    forms, key = forms_of(atom.kind, atom.canonical, atom.raw), session.values_key
    sighting = session.values.seen_in(forms, key)
    if sighting is None:
        return None
    where = _describe(sighting.origin, sighting.label)
    is_invented = session.values.is_invented(forms, key)
    if is_invented:
        where = f"used by the model before anything showed it, then seen in {where}"
    facts = ((str(atom.kind).replace("_", " "), atom.shown), ("seen by call", sighting.call))
    shown = tuple(fact for fact in facts if fact[1])
    return UrlQuestion("seen", shown, where, force=is_invented or sighting.origin in _OTHERS)


def negated_question(atom: Atom, session: Session) -> UrlQuestion | None:
    """Return the question about a URL that a sentence of the person says no to, unless they gave it since.

    What makes it known otherwise, such as one above it or a link, is no answer to that sentence.
    """
    if not _is_refused(atom, session):
        return None
    return UrlQuestion("seen", ((str(atom.kind), atom.shown),), _TEXTS[Origin.PERSON])


def _is_refused(atom: Atom, session: Session) -> bool:
    forms = forms_of(atom.kind, atom.canonical, atom.raw)
    return session.values.is_refused(forms, session.values_key)


def _describe(origin: Origin, label: str) -> str:
    """Describe a text; a name that is no tool's was chosen by somebody else, and is left out."""
    if _TOOL.fullmatch(label) and origin is not Origin.PROJECT:
        return f"the result of `{label}`"
    return _TEXTS.get(origin, "a text")


def destination_question(atom: Atom, action: Action, session: Session) -> Deny | UrlQuestion | None:
    """Return the objection to a destination, or None: a call that only reads sends nothing there."""
    place = atom.canonical
    is_known = isinstance(place, Destination) and session.ledger.provenance_of(place) is not None
    is_known = is_known and not _is_refused(atom, session)
    if is_known or _is_judged_as_url(atom, action) or _only_reads(action) or is_given(atom, action, session):
        return None
    if _is_confirmed(atom, action, session):
        return None
    seen = seen_question(atom, session)
    return seen or Deny(
        "not_provided",
        _NOT_NAMED,
        facts=(("destination", atom.shown),),
        detail=WAY_OUT,
        advice="you never gave this destination. Write it in a message.",
    )


def _is_judged_as_url(atom: Atom, action: Action) -> bool:
    as_url = {(url.pointer, url.raw) for url in action.of_kind(Kind.URL)}
    is_place = isinstance(atom.canonical, Destination)
    return not is_place and (atom.pointer, atom.raw.removeprefix("git+")) in as_url


def id_question(atom: Atom, action: Action, session: Session) -> UrlQuestion | None:
    """Return the question about an id: none where the call only reads, or the tool itself names it."""
    if (
        _only_reads(action, Effect.READ | Effect.BRING_IN)
        or _is_default(atom, action)
        or is_given(atom, action, session)
        or _is_confirmed(atom, action, session)
    ):
        return None
    return seen_question(atom, session) or UrlQuestion("unknown_id", (("id", atom.raw),))


def _only_reads(action: Action, most: Effect = Effect.READ) -> bool:
    """Whether a call does no more than that."""
    return not action.effects & ~most


def _is_default(atom: Atom, action: Action) -> bool:
    return atom.pointer[1:].replace("~1", "/").replace("~0", "~") in action.usual
