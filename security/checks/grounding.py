"""Find what a person must confirm about a grounded URL or destination.

A URL below a given one carries more than the given one did, and a link to another site leads to a host
nobody named. Each doubt becomes a question that shows the part it is about. An ungrounded URL is not
asked about here: `gates/grounding.py` denies it.
"""

from __future__ import annotations

from ..call import Atom
from ..kinds import Unreadable
from ..lazy import dataclass
from ..session import Session
from ..text import redact_text
from ..trust import Origin
from ..url import Grounding, Provenance, Url, host_facts, percent_decoded
from ..verdict import Ask, Deny, Grounds

__all__ = ["LONGEST_SEGMENT", "UrlQuestion", "combined_ask", "unreadable_url", "url_question"]

LONGEST_SEGMENT = 64
"""Characters of a path segment that was not given, at most, before it is asked about."""

_LONGEST_IN_ALL = 512


@dataclass(frozen=True, slots=True)
class UrlQuestion:
    """One reason to ask: `facts` are the values to show beside the question.

    `where` says in our words where the value was first seen, `force` that only an answer about it counts.
    """

    rule: str
    facts: tuple[tuple[str, str], ...]
    where: str = ""
    force: bool = False


_DOUBTS = {
    "carries_value": "Send a value along that is secret or was read from something private?",
    "long_segment": "Open with a long path that you did not give?",
    "added_query": "Open with a query or fragment that you did not give?",
    "foreign_link": "Follow a link that leads to another site?",
    "seen": "Use what you did not give?",
    "unknown_id": "Use this id? You did not give it, and nothing showed it.",
    "bare_host": "Is this name, which could also be a file or part of a program, meant as a web address?",
}
"""The rules of the questions, the gravest first, each with its words."""


def combined_ask(doubts: list[tuple[Atom, UrlQuestion]], grounds: Grounds) -> Ask:
    """Gather the questions about all of them into one; the gravest gives it its name."""
    rule = min((doubt.rule for _, doubt in doubts), key=list(_DOUBTS).index)
    facts = tuple(fact for _, doubt in doubts for fact in doubt.facts)
    about = tuple(atom for atom, _ in doubts)
    seen = "; ".join(dict.fromkeys(doubt.where for _, doubt in doubts if doubt.where))
    question = f"{_DOUBTS[rule]} First seen in {seen}." if seen else _DOUBTS[rule]
    force = any(doubt.force for _, doubt in doubts)
    return Ask(rule, question, about, force=force, facts=facts, grounds=grounds)


def unreadable_url(atom: Atom) -> Deny:
    """Return the refusal of a text that is meant as a URL and was not read as one."""
    why = atom.canonical.reason if isinstance(atom.canonical, Unreadable) else "it is not a URL"
    reason = f"fetch rejected: the URL cannot be read: {why}"
    return Deny("unreadable", reason, facts=(("url", atom.raw),))


def url_question(url: Url, known: Grounding, session: Session) -> UrlQuestion | None:
    """Return the gravest doubt about a URL that rests on something known, or None."""
    added = "/".join(known.below) + known.added
    warning = host_facts(url)
    if added and _carries_value(added, known, session):
        return UrlQuestion("carries_value", (("added", added), *warning), force=True)
    if len(added) > _LONGEST_IN_ALL or any(len(segment) > LONGEST_SEGMENT for segment in known.below):
        return UrlQuestion("long_segment", (("added", added), *warning))
    if known.added:
        return UrlQuestion("added_query", (("added", known.added), *warning))
    if known.provenance is Provenance.FOREIGN:
        return UrlQuestion("foreign_link", (("host", url.host), ("path", url.target), *warning))
    if known.provenance is Provenance.HINT:
        return UrlQuestion("bare_host", (("url", url.text), *warning))
    return None


def _carries_value(added: str, known: Grounding, session: Session) -> bool:
    """Whether the part that nobody gave holds a credential, or what was read where nothing is public."""
    if Origin.SECRET in session.labels and known.below:
        return True
    decoded = percent_decoded(added)
    if any(redact_text(text, session.secrets) != text for text in (added, decoded)):
        return True
    return len(session.seen) > 0 and session.seen.carried_by(added, session.marks_key)
