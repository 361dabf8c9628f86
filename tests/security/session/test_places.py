"""URLs are parsed from a person's words once and recorded as parsed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.audit.events import body_of, event_of, kind_of
from leeward.security.session import UrlsAdded, UrlsRemoved, apply_events
from leeward.security.session import events as session_events
from leeward.security.url import Provenance, Url, destinations_given, parse_place, urls_given, urls_hinted

WORDS = (
    "see https://a.example/x?y=1#z and HTTP://B.Example:80/%7Ex, docs.example.org, ada@Example.com, "
    "git@github.com:o/r.git or ssh://git@host.example:2222/o/r.git, münchen.example, [::1]"
)


def places_of(words: str):
    return (*urls_given(words), *destinations_given(words), *urls_hinted(words))


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    texts: list[str] = []

    def counted(text):
        texts.append(text)
        return parse_place(text)

    monkeypatch.setattr(session_events, "parse_place", counted)
    return texts


def test_a_place_that_was_parsed_goes_to_the_ledger_as_it_is(make, parsed):
    places = places_of(WORDS)
    known = apply_events(make.session(), UrlsAdded.of(1.0, places, Provenance.PERSON)).ledger.entries()
    assert known and all(any(entry is place for place in places) for entry, _ in known)
    apply_events(make.session(), UrlsAdded.of(1.0, places, Provenance.PERSON), UrlsRemoved.of(2.0, places))
    assert parsed == []


def test_a_place_on_record_is_parsed_once_however_often_it_is_folded(make, parsed):
    event = UrlsAdded(1.0, ("https://a.example/", "not a place", "ada@example.com"), Provenance.PERSON)
    one, other = (apply_events(make.session(), event) for _ in range(2))
    assert one.ledger == other.ledger and len(one.ledger) == 2
    assert parsed == list(event.urls)


def test_an_event_with_other_texts_is_about_those(make):
    event = UrlsAdded.of(1.0, places_of("https://a.example/"), Provenance.PERSON)
    other = replace(event, urls=("https://b.example/",))
    assert [str(place) for place in other.places] == ["https://b.example/"]


@given(
    st.lists(
        st.sampled_from([*WORDS.split(), "x.co.", "a@b.example:", "-", "/"]) | st.text(max_size=12),
        max_size=6,
    )
)
@example(WORDS.split())
def test_what_is_recorded_of_places_says_the_same_again(make, words):
    places = places_of(" ".join(words))
    for event in (UrlsAdded.of(1.0, places, Provenance.PERSON), UrlsRemoved.of(2.0, places)):
        assert event.urls == tuple(place.text for place in places)
        recorded = event_of(kind_of(event), json.loads(body_of(event)))
        assert recorded == event and recorded.places == event.places


def test_a_record_names_its_places_as_before():
    (url,) = urls_given("https://a.example/x")
    assert isinstance(url, Url)
    assert body_of(UrlsAdded.of(1.0, (url,), Provenance.PERSON)) == (
        '{"at":1.0,"provenance":"person","urls":["https://a.example/x"]}'
    )
    assert body_of(UrlsRemoved.of(1.0, (url,))) == '{"at":1.0,"urls":["https://a.example/x"]}'
