"""Tokens of texts and values: both are split by the same functions, never below a token."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.kinds import Kind
from leeward.security.policy import Policy
from leeward.security.provenance import Values, forms_of, word_marks
from leeward.security.provenance.tokens import number_form, pieces_of, tokens_of
from leeward.security.session import Session
from leeward.security.url import destinations_in, parse_url

KEY = b"k" * 32


def said(text: str) -> Values:
    return Values().with_words(*word_marks(text, KEY), own=True)


def is_given(text: str, value: str, kind: Kind = Kind.DESTINATION) -> bool:
    ((_, place),) = destinations_in(value) if kind is Kind.DESTINATION else ((value, value),)
    return said(text).is_given(forms_of(kind, place if place is not None else value, value), KEY)


GIVEN = [
    ("post it in #general, please", "general"),
    ("post it in General.", "#general"),
    ("ask @dora.k", "dora.k"),
    ("tell 'Emma Johnson'", "Emma Johnson"),
    ("tell Emma  Johnson's team", "emma johnson"),
    ("pay DE89 3704 0044 0532 0130 00 today", "DE89370400440532013000"),
    ("pay de89370400440532013000", "DE89 3704 0044 0532 0130 00"),
    ("pay GB29-NWBK-6016-1331-9268-19.", "GB29NWBK60161331926819"),
    ("pay DE89 3704 0044 0532 0130 00 100 euros", "DE89370400440532013000"),
    ("IBAN:US133000000121212121212", "US133000000121212121212"),
    ("call +49 170 1234567", "+491701234567"),
    ("call +491701234567", "+49 170 1234567"),
    ("call (555) 123-4567", "5551234567"),
    ("mail <Ann@Example.com>;", "ann@example.com"),
    ("mail mailto:ann@example.com", "ann@example.com"),
    ("ｐost to ｇeneral", "general"),  # noqa: RUF001 - wide letters are what is tested
]
NOT_GIVEN = [
    ("mail joann@example.com", "ann@example.com"),
    ("mail ann@example.com.evil.net", "ann@example.com"),
    ("mail ann@example.com", "ann@example.co"),
    ("post in generally", "general"),
    ("pay GB29NWBK60161331926819", "GB29NWBK6016133192681"),
    ("pay GB29NWBK60161331926819", "B29NWBK60161331926819"),
    ("the codes GB29NWBK and 60161331926819", "GB29NWBK60161331926819"),
    ("Emma met Johnson", "Emma Johnson"),
    ("Emma, Johnson", "Emma Johnson"),
    ("Emma;\nJohnson", "Emma Johnson"),
    ("a list, of things", ","),
    ("rooms 100 2000 300", "1002000300"),
    ("call +49 170 1234567", "+49 170 123456"),
    ("pаypal", "paypal"),  # noqa: RUF001 - a Cyrillic letter is what is tested
    ("", "general"),
    ("...", "general"),
    ("anything", "***"),
]


@pytest.mark.parametrize(("text", "value"), GIVEN)
def test_what_the_person_means_is_given(text: str, value: str) -> None:
    assert is_given(text, value)


@pytest.mark.parametrize(("text", "value"), NOT_GIVEN)
def test_no_part_and_no_likeness_is_given(text: str, value: str) -> None:
    assert not is_given(text, value)


def test_json_is_read_leaf_by_leaf_and_no_run_crosses_leaves() -> None:
    pieces = list(pieces_of('{"name": "Emma Johnson", "to": ["a@b.example"], "n": 12, "x": null}'))
    assert ("emma", "johnson") in [piece.tokens for piece in pieces]
    assert ("12",) in [piece.tokens for piece in pieces]
    assert not is_given('["Emma", "Johnson"]', "Emma Johnson")
    assert is_given('{"a": "say \\u0023general"}', "general")
    assert [piece.tokens for piece in pieces_of("[broken")] == [("broken",)]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("1,200.50", "number:1200.5"), ("1200.5", "number:1200.5"), ("50.00", "number:50"),
        ("1,2", ""), ("-5", ""), ("1e5", ""), ("0x10", ""), ("", ""), ("1.2.3", ""),
    ],
)  # fmt: skip
def test_a_number_has_one_form(text: str, form: str) -> None:
    assert number_form(text) == form


SHOWN_URLS = [
    "see https://host.example.com/a?b=c.",
    "[link](https://host.example.com/a?b=c)",
    '{"url": "https://host.example.com/a?b=c"}',
    "HTTPS://HOST.example.com:443/a?b=c#part",
]


@pytest.mark.parametrize("text", SHOWN_URLS)
def test_a_url_is_seen_in_canonical_form(text: str) -> None:
    forms = [form for piece in pieces_of(text) for form, _ in piece.forms]
    url = parse_url("https://host.example.com/a?b=c")
    assert forms_of(Kind.URL, url, "")[0][0] in forms


@pytest.mark.parametrize("text", ["www.host.com", "at www.host.com.They say", "WWW.host.com,", "host.com"])
def test_a_host_without_a_scheme_is_an_https_url(text: str) -> None:
    forms = [form for piece in pieces_of(text) for form, _ in piece.forms]
    assert any(form in ("url:https://www.host.com/", "url:https://host.com/") for form in forms)


@given(st.text(max_size=300), st.text(max_size=40))
def test_a_value_is_given_only_where_all_of_it_stands_in_the_words(text: str, value: str) -> None:
    run = tokens_of(value)
    if said(text).is_given([run] if run else [], KEY):
        everything = [token for piece in pieces_of(text) for token in (*piece.tokens, *dict(piece.forms))]
        assert set(run) <= set(everything)


def test_hashes_differ_from_session_to_session_and_from_key_to_key() -> None:
    policy = Policy("/ws", "/home/ada")
    keys = {Session(*args).values_key for args in (("a", policy), ("b", policy))}
    keys |= {Session("a", policy, key=b"x" * 32).values_key}
    assert len(keys) == 3
    assert Session("b", policy, root="a").values_key == Session("a", policy).values_key


def test_a_substring_is_caught(planted: Callable[[str], ModuleType]) -> None:
    wrong = planted("provenance").given_by_substring
    assert [case for case in NOT_GIVEN if wrong(*case)]
