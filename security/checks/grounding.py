"""Find what a person must confirm about a grounded URL or destination.

A URL below a given one carries more than the given one did, and a link to another site leads to a host
nobody named. Each doubt becomes a question that shows the part it is about. An ungrounded URL is not
asked about here: `gates/grounding.py` denies it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..call import Action, Atom
from ..kinds import Kind, Unreadable
from ..session import Session
from ..text import redact_text
from ..trust import Origin
from ..url import Destination, Grounding, Provenance, Url, host_facts, percent_decoded
from ..verdict import Deny

__all__ = ["DOUBTS", "LONGEST_SEGMENT", "UrlQuestion", "destination_question", "unread_url", "url_question"]

LONGEST_SEGMENT = 64
"""Characters of a path segment that was not given, at most, before it is asked about."""

_LONGEST_IN_ALL = 512


@dataclass(frozen=True, slots=True)
class UrlQuestion:
    """One reason to ask: `facts` are the values to show beside the question."""

    rule: str
    facts: tuple[tuple[str, str], ...]


DOUBTS = {
    "carries_value": "Send a value along that is secret or was read from something private?",
    "long_segment": "Open with a long path that you did not give?",
    "added_query": "Open with a query or fragment that you did not give?",
    "foreign_link": "Follow a link that leads to another site?",
    "unknown_destination": "Send it there? What is meant by this destination cannot be told.",
    "bare_host": "Is this name, which could also be a file or stand in a program, meant as a web address?",
}
"""The rules of the questions, the gravest first, each with its words."""


def unread_url(atom: Atom) -> Deny:
    """Return the refusal of what stands where a URL is meant and was not read as one."""
    why = atom.canonical.reason if isinstance(atom.canonical, Unreadable) else "it is not a URL"
    reason = f"fetch rejected: the URL cannot be read: {why}"
    return Deny("unreadable", reason, facts=(("url", atom.raw),))


def url_question(url: Url, known: Grounding, session: Session) -> UrlQuestion | None:
    """Return the gravest doubt about a URL that stands on something known, or None."""
    added = "/".join(known.below) + known.added
    warning = host_facts(url)
    if added and _carries_value(added, known, session):
        return UrlQuestion("carries_value", (("added", added), *warning))
    if len(added) > _LONGEST_IN_ALL or any(len(segment) > LONGEST_SEGMENT for segment in known.below):
        return UrlQuestion("long_segment", (("added", added), *warning))
    if known.added:
        return UrlQuestion("added_query", (("added", known.added), *warning))
    if known.provenance is Provenance.FOREIGN:
        return UrlQuestion("foreign_link", (("host", url.host), ("path", url.target), *warning))
    if known.provenance is Provenance.HINT:
        return UrlQuestion("bare_host", (("url", url.text), *warning))
    return None


def destination_question(atom: Atom, action: Action) -> UrlQuestion | None:
    """Return a doubt where a destination was read as none of the places there are, nor judged as a URL."""
    as_url = {(url.pointer, url.raw) for url in action.of_kind(Kind.URL)}
    if isinstance(atom.canonical, Destination) or (atom.pointer, atom.raw.removeprefix("git+")) in as_url:
        return None
    return UrlQuestion("unknown_destination", (("destination", atom.raw),))


def _carries_value(added: str, known: Grounding, session: Session) -> bool:
    """Whether the part that nobody gave holds a credential, or what was read where nothing is public."""
    if Origin.SECRET in session.labels and known.below:
        return True
    decoded = percent_decoded(added)
    if any(redact_text(text, session.secrets) != text for text in (added, decoded)):
        return True
    return len(session.seen) > 0 and session.seen.carried_by(added, session.marks_key)
