"""Put the URLs, mail addresses and repositories named in the person's words into the ledger.

URLs written out and bare hosts count as given. A word that may as well be a file (`docs.rs/tokio`, or any
name that exists in the workspace) or a name in a program (`app.services/user`) is only a hint, and is asked
about when it is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from leeward.security.session import Session, UrlsAdded
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

from .config import Config

__all__ = ["given_as_such", "given_by", "given_by_config", "places_in"]


def given_by(text: str, provenance: Provenance, session: Session) -> tuple[UrlsAdded, ...]:
    """Return the events by which what a text names becomes known; none where it names nothing."""
    workspace = Path(session.policy.workspace)

    def names_file(word: str) -> bool:
        return "\0" not in word and os.path.lexists(workspace / word)

    given: tuple[Known, ...] = (*urls_given(text, names_file), *destinations_given(text))
    hinted: tuple[Known, ...] = tuple(urls_hinted(text, names_file))
    found = ((given, provenance), (hinted, Provenance.HINT))
    return tuple(UrlsAdded.of(session.now, places, how) for places, how in found if places)


def given_by_config(config: Config, session: Session) -> tuple[UrlsAdded, ...]:
    """Return the event by which what the configuration names becomes known, at first and after `/clear`."""
    written = config.security.pre_execution_verify.url_grounding.urls
    known = [place for text in written if (place := parse_place(text)) is not None]
    return (UrlsAdded.of(session.now, known, Provenance.CONFIG),) if known else ()


def given_as_such(texts: Iterable[str], session: Session) -> tuple[UrlsAdded, ...]:
    """Return the event by which each text that is a URL, a bare host or an address becomes known.

    Whoever gives one as such means a place, whatever else the word could be; what cannot be read
    grounds nothing.
    """
    known = [place for text in texts for place in places_in(text)]
    return (UrlsAdded.of(session.now, known, Provenance.PERSON),) if known else ()


def places_in(text: str) -> tuple[Known, ...]:
    """Return what a text that was given as a URL or an address stands for."""
    for written in (text, f"https://{text}") if "." in text else (text,):
        url = parse_url(written)
        if isinstance(url, Url):
            return (url,)
    found = parse_destination(text)
    return (found,) if found is not None else (*urls_given(text), *destinations_given(text))
