"""Values read from private sources are recognised when sent; ordinary words are not."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.url import Fingerprints, fingerprints_in, percent_decoded
from leeward.security.url.fingerprints import MOST_AT_ONCE

KEY = "s_1"
NOTES = """
# Deployment notes
The canary is canary-7f3a9b2c, the account 123456789, the room Tr0ub4dor&3.
password: swordfish
export API_TOKEN="tulip-garden"
"dbPassword": "abra",
We use Python 3.11, see https://docs.example.com/guide/install and section 2 of 2024.
key: str
token = None
"""


def seen(text: str = NOTES) -> Fingerprints:
    return Fingerprints().with_marks(fingerprints_in(text, KEY))


CARRIED = [
    "canary-7f3a9b2c", "/x/CANARY_7F3A9B2C/y", "?q=canary%2D7f3a9b2c", "can/ary/7f3a/9b2c",
    "c-a-n-a-r-y-7-f-3-a-9-b-2-c",
    "c2b9a3f7-yranac", b"canary-7f3a9b2c".hex(), base64.b64encode(b"the canary-7f3a9b2c").decode(),
    base64.urlsafe_b64encode(b"?canary-7f3a9b2c?").decode().rstrip("="), "swordfish", "v1/sword-fish",
    "tulip/garden", "abra",
    "a=123456789", "tr0ub4dor3", "xxcanary7f3a9b2cxx",
]  # fmt: skip
FREE = [
    "guide/install", "deployment/notes", "python/3.11", "latest/api", "2024", "section-2", "str", "none",
    "token", "canary", "room",
    "docs/account/settings", "api/v2/users/42", "", "?page=2#top", "canary-7f3a9b2", "12345678", "%ff%fe",
    "YWJj",
]  # fmt: skip


@pytest.mark.parametrize("piece", CARRIED)
def test_a_value_is_recognised_however_it_is_spelled(piece) -> None:
    assert seen().carried_by(piece, KEY)


@pytest.mark.parametrize("piece", FREE)
def test_words_and_ordinary_paths_are_not_values(piece) -> None:
    assert not seen().carried_by(piece, KEY)


def test_only_keyed_hashes_are_kept() -> None:
    marks = fingerprints_in(NOTES, KEY)
    assert not any("canary" in mark or "swordfish" in mark for mark in marks)
    assert set(marks).isdisjoint(fingerprints_in(NOTES, "s_2"))
    assert not seen().carried_by("swordfish", "s_2")
    many = " ".join(f"a1b2-{number:06}" for number in range(5_000))
    assert len(fingerprints_in(many, KEY)) == MOST_AT_ONCE


def test_a_longer_view_is_not_seen_from_a_shorter_one() -> None:
    short = seen("code a1b2c3d4")
    long = short.with_marks(fingerprints_in("code e5f6a7b8", KEY))
    fork = short.with_marks(fingerprints_in("code 99x88y77z", KEY))
    assert [len(short), len(long), len(fork)] == [1, 2, 2]
    assert not short.carried_by("e5f6a7b8", KEY)
    assert not fork.carried_by("e5f6a7b8", KEY)
    assert long.carried_by("a1b2c3d4", KEY)
    assert long.carried_by("e5f6a7b8", KEY)
    assert short.with_marks(()) == short == seen("code a1b2c3d4")
    assert len({short, seen("code a1b2c3d4"), long}) == 2


VALUES = st.text(alphabet="abcdefgh0123456789", min_size=10, max_size=40).filter(
    lambda text: sum(char.isdigit() for char in text) > 3 and any(map(str.isalpha, text))
)


@given(VALUES, st.sampled_from(["", "x", "page"]), st.booleans())
@example("a000000000", "", False)
def test_any_value_of_letters_and_digits_is_recognised(value, before, encoded) -> None:
    piece = (
        base64.urlsafe_b64encode(f"{before} {value}".encode()).decode() if encoded else f"{before}/{value}"
    )
    assert seen(f"the code is {value}, keep it").carried_by(piece, KEY)


@given(st.text(max_size=80))
def test_nothing_raises(text) -> None:
    seen(text).carried_by(text, KEY)
    percent_decoded(text)


def test_it_takes_time_in_proportion() -> None:
    started = time.process_time()
    marks = fingerprints_in("a1b2c3d4-" * 20_000 + "password=" * 20_000 + "x" * 200_000, KEY)
    held = (
        Fingerprints()
        .with_marks(marks)
        .with_marks(fingerprints_in(" ".join(f"{'a1' * n}" for n in range(3, 32)), KEY))
    )
    for _ in range(10):
        held.carried_by("b2" * 10_000, KEY)
    assert time.process_time() - started < 3
