"""Destinations other than URLs: parsed from arguments, found in a person's words, known or not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.url import (
    DestinationKind,
    Ledger,
    Provenance,
    Url,
    destination,
    destinations_given,
    destinations_in,
    parse_destination,
    parse_url,
)
from loading import rows_beside

ROWS = rows_beside(__file__)

MAIL, HOST, REPOSITORY = DestinationKind.MAIL, DestinationKind.HOST, DestinationKind.REPOSITORY

READ = [
    ("ada@example.com", MAIL, "ada@example.com"),
    ("Ada.L+x@Example.COM", MAIL, "ada.l+x@example.com"),
    ("mailto:ada@example.com", MAIL, "ada@example.com"),
    ("Ada Lovelace <ada@example.com>", MAIL, "ada@example.com"),
    ("example.com", HOST, "example.com"),
    ("EXAMPLE.com.", HOST, "example.com"),
    ("example.com:8443", HOST, "example.com:8443"),
    ("10.0.0.1", HOST, "10.0.0.1"),
    ("[2606:4700::1]:22", HOST, "[2606:4700::1]:22"),
    ("git@github.com:me/repo.git", REPOSITORY, "ssh://git@github.com/me/repo"),
    ("github.com:me/repo.git.git", REPOSITORY, "ssh://github.com/me/repo"),
    ("ssh://git@github.com:22/me/repo/", REPOSITORY, "ssh://git@github.com/me/repo"),
    ("git+ssh://git@h.example:2222/x.git", REPOSITORY, "ssh://git@h.example:2222/x"),
]
UNREAD = ROWS["unread"]


@pytest.mark.parametrize(("text", "kind", "canonical"), READ)
def test_what_is_written_plainly_is_read(text, kind, canonical) -> None:
    found = parse_destination(text)
    assert found is not None
    assert (found.kind, found.text, str(found)) == (kind, canonical, canonical)
    assert parse_destination(found.text) == found


@pytest.mark.parametrize("text", UNREAD)
def test_what_two_programs_could_read_differently_is_not(text) -> None:
    assert parse_destination(text) is None


def test_a_list_names_each_of_its_places() -> None:
    found = destinations_in("ada@x.org, Eve <eve@y.org>; nobody")
    assert [(raw, str(place)) for raw, place in found] == [
        ("ada@x.org", "ada@x.org"), ("Eve <eve@y.org>", "eve@y.org"), ("nobody", "None"),
    ]  # fmt: skip
    assert destinations_in(" , ") == ((" , ", None),)
    assert destinations_in("a@x.org,\nb@y.org")[1] == ("\nb@y.org", None)


SAID = [
    ("mail it to ada@example.com.", ["ada@example.com"]),
    ("(ada@example.com), <eve@y.org>!", ["ada@example.com", "eve@y.org"]),
    ("write a@b.com,c@d.org", ["a@b.com", "c@d.org"]),
    ("ada@example.com: please", ["ada@example.com"]),
    ("ada@example.com's answer", ["ada@example.com"]),
    ("请发到ada@example.com，谢谢", ["ada@example.com"]),
    ("push to git@github.com:me/repo.git, then stop", ["ssh://git@github.com/me/repo"]),
    ("clone ssh://git@h.example:2222/x/y.git now", ["ssh://git@h.example:2222/x/y"]),
    ("ada@example.com ada@example.com", ["ada@example.com"]),
    ("see https://x.org/?to=ada@example.com", []),
    ("https://ada@example.com/", []),
    ("x@y.com@z.com", []),
    ("@ada on main@v1.2 and foo@bar", []),
    ("pip install x@git+https://a.example/b", []),
]


@pytest.mark.parametrize(("text", "found"), SAID)
def test_what_a_persons_words_name(text, found) -> None:
    assert [place.text for place in destinations_given(text)] == found


@given(st.text(alphabet="a@.:/-_ <>,git+sh", max_size=60))
def test_whatever_is_found_is_a_fixed_point(text) -> None:
    for place in destinations_given(text):
        assert parse_destination(place.text) == place


@pytest.mark.parametrize(
    "text",
    ["a@" + "a." * 50_000, "a" * 300_000, "a@a" * 60_000, "git@a.b:" + "x/" * 80_000 + "?", "<" * 100_000],
)
def test_finding_takes_time_in_proportion(text) -> None:
    started = time.process_time()
    destinations_given(text)
    destinations_in(text)
    assert time.process_time() - started < 2


def known(*texts, provenance=Provenance.PERSON) -> Ledger:
    read = [url if isinstance(url := parse_url(text), Url) else parse_destination(text) for text in texts]
    return Ledger().with_urls(read, provenance)


GROUNDED = [
    ("ada@example.com", "ada@example.com", True),
    ("ada@example.com", "ada+x@example.com", False),
    ("ada@example.com", "eve@example.com", False),
    ("ada@example.com", "ada@example.com.evil.net", False),
    ("ada@example.com", "example.com", False),
    ("https://example.com/x", "example.com", True),
    ("https://example.com/x", "example.com:443", True),
    ("https://example.com/x", "example.com:22", False),
    ("https://example.com/x", "www.example.com", False),
    ("https://example.com/x", "ada@example.com", False),
    ("https://github.com/me/repo", "git@github.com:me/repo.git", True),
    ("https://github.com/me/repo.git", "github.com:me/repo", True),
    ("https://github.com/me", "git@github.com:me/other.git", True),
    ("https://github.com/me/repo", "git@github.com:me/repo2", False),
    ("https://github.com/me/repo", "git@github.com:me", False),
    ("https://github.com/me/repo", "root@github.com:me/repo", False),
    ("https://github.com/me/repo", "ssh://git@github.com:2222/me/repo", False),
    ("git@github.com:me/repo", "git@github.com:me/repo.git", True),
    ("git@github.com:me/repo", "eve@github.com:me/repo.git", False),
    ("git@github.com:me/repo", "git@github.com:me/other", False),
    ("git@github.com:me/repo", "github.com", True),
]


@pytest.mark.parametrize(("given", "asked", "grounded"), GROUNDED)
def test_what_a_person_gave_stands_for(given, asked, grounded) -> None:
    place = parse_destination(asked)
    assert (known(given).provenance_of(place) is Provenance.PERSON) is grounded
    assert known(given, provenance=Provenance.LINK).provenance_of(place) is None
    assert known().provenance_of(place) is None


def test_what_is_as_long_as_no_address_is_none_and_is_found_out_at_once():
    """Every dot was tried as the one inside a name; now a text is gone through once, and a long one not at
    all.
    """
    for text in ("-" + ".." * 400_000 + " ", "a." * 400_000 + "@", "git@a.b:" + ".git" * 200_000 + "x"):
        assert destinations_in(text) == ((text.strip(), None),) or destinations_in(text)[0][1] is None
    many = ("." * 1000 + " ,") * 1000
    assert all(found is None for _, found in destinations_in(many))


@pytest.mark.parametrize(
    "text", ["a.b", ".a.b", "..a", "a..", ".a", "a.", ".", "..", "a.b:22", "a.b:x", "a.é", "a.b c"]
)
def test_a_host_has_a_dot_inside(text):
    plain = re.compile(r"(?P<host>[^\s@/?#:]+\.[^\s@/?#:]+)(?::(?P<port>\d{1,5}))?")
    mine, wanted = destination._HOST.fullmatch(text), plain.fullmatch(text)
    assert (mine and mine.groups()) == (wanted and wanted.groups())
