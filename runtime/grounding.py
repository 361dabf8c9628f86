"""Add the URLs, mail addresses and repositories in the person's words to the ledger.

URLs written out and bare hosts count as given. A word that may as well be a file (`docs.rs/tokio`, or any
name that exists in the workspace) or a name in a program (`app.services/user`) is only a hint, and is asked
about when it is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.provenance import act_marks, affirmed, word_marks
from leeward.security.session import Event, Session, TurnStarted, UrlsAdded, WordsGiven
from leeward.security.url import (
    Known,
    Provenance,
    Url,
    destinations_given,
    parse_destination,
    parse_place,
    parse_url,
    urls_given,
    urls_hinted,
)

if TYPE_CHECKING:
    from .config import Config

__all__ = [
    "given_as_such",
    "given_by",
    "given_by_config",
    "given_in_turn",
    "places_in",
    "said_by_person",
    "shown_by_paste",
]


def given_by(text: str, provenance: Provenance, session: Session) -> tuple[UrlsAdded, ...]:
    """Return the events by which what a text names becomes known; none where it names nothing."""
    workspace = Path(session.policy.workspace)

    def names_file(word: str) -> bool:
        return "\0" not in word and os.path.lexists(workspace / word)

    given: tuple[Known, ...] = (*urls_given(text, names_file), *destinations_given(text))
    hinted: tuple[Known, ...] = tuple(urls_hinted(text, names_file))
    found = ((given, provenance), (hinted, Provenance.HINT))
    return tuple(UrlsAdded.of(session.now, places, how) for places, how in found if places)


def given_in_turn(text: str, session: Session) -> tuple[Event, ...]:
    """Return the events of a turn that begins with these words of the person."""
    return TurnStarted(session.now), *said_by_person(text, session)


def said_by_person(text: str, session: Session) -> tuple[Event, ...]:
    """Return the events by which the person's words become known: the places they name, and their tokens.

    A value in a sentence that says no is in no ledger: it was seen, which is asked about.
    """
    marks = word_marks(text, session.values_key)
    acts = act_marks(text, session.values_key)
    words = (WordsGiven(session.now, *marks, own=True, acts=acts),) if any(marks) or acts else ()
    return *given_by(affirmed(text), Provenance.PERSON, session), *words


def given_by_config(config: Config, session: Session) -> tuple[UrlsAdded, ...]:
    """Return the event by which what the configuration names becomes known, at first and after `/clear`."""
    written = config.security.pre_execution_verify.url_grounding.urls
    known = [place for text in written if (place := parse_place(text)) is not None]
    return (UrlsAdded.of(session.now, known, Provenance.CONFIG),) if known else ()


def given_as_such(texts: Iterable[str], session: Session) -> tuple[Event, ...]:
    """Return the event by which each text that is a URL, a bare host or an address becomes known.

    A value that is given as such means a place, whatever else the word could be; what cannot be read
    grounds nothing.
    """
    texts = list(texts)
    known = [place for text in texts for place in places_in(text)]
    places = (UrlsAdded.of(session.now, known, Provenance.PERSON),) if known else ()
    values, _, _ = word_marks("\n".join(texts), session.values_key)
    return *places, *((WordsGiven(session.now, values),) if values else ())


def shown_by_paste(text: str, session: Session) -> tuple[UrlsAdded, ...]:
    """Return the event by which the URLs in a long paste become known: exactly these, none below them."""
    urls = tuple(known for known in urls_given(text) if isinstance(known, Url))
    return (UrlsAdded.of(session.now, urls, Provenance.LINK),) if urls else ()


def places_in(text: str) -> tuple[Known, ...]:
    """Return the URL or address in a text that was given as one."""
    for written in (text, f"https://{text}") if "." in text else (text,):
        url = parse_url(written)
        if isinstance(url, Url):
            return (url,)
    found = parse_destination(text)
    return (found,) if found is not None else (*urls_given(text), *destinations_given(text))
