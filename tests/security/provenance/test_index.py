"""The token index: first places, runs, bounds, and immutable views."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.provenance import Sighting, TokenIndex
from leeward.security.provenance.index import ECHO, GAP
from leeward.security.trust import Origin

A, B, C = (Sighting(Origin.WEB, name) for name in "abc")


def token(number: int, *, echo: bool = False) -> bytes:
    return number.to_bytes(4, "big") + bytes([2 | (ECHO if echo else 0)])


def packed(*numbers: int | None) -> bytes:
    return b"".join(GAP if number is None else token(number) for number in numbers)


TEXTS = st.lists(st.lists(st.one_of(st.none(), st.integers(1, 9)), max_size=12), max_size=6)


@settings(max_examples=200)
@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_run_is_found_where_it_first_stands(texts: list[list[int | None]], run: list[int]) -> None:
    index = TokenIndex()
    for number, text in enumerate(texts):
        index = index.with_tokens(packed(*text, None), Sighting(Origin.WEB, str(number)))
    places = [
        number
        for number, text in enumerate(texts)
        for start in range(len(text))
        if text[start : start + len(run)] == run
    ]
    found = index.find([token(number) for number in run])
    assert (found and found.label) == (str(places[0]) if len(run) == 1 and places else found and found.label)
    assert (found is None) == (not places)


def test_a_longer_view_is_not_seen_from_an_earlier_one() -> None:
    first = TokenIndex().with_tokens(packed(1, 2, None), A)
    longer = first.with_tokens(packed(3, None), B)
    other = first.with_tokens(packed(4, None), C)
    assert first.find([token(3)]) is None and first.find([token(4)]) is None
    assert longer.find([token(3)]) is B and longer.find([token(4)]) is None
    assert other.find([token(4)]) is C and other.find([token(3)]) is None
    assert other.find([token(1), token(2)]) is A
    assert other == TokenIndex().with_tokens(packed(1, 2, None), A).with_tokens(packed(4, None), C)
    assert longer != other and hash(first) == hash(TokenIndex().with_tokens(packed(1, 2, None), A))


def test_what_is_beyond_the_bound_nobody_saw() -> None:
    index = TokenIndex(most=4).with_tokens(packed(1, 2, 3), A).with_tokens(packed(4, 5, 6), B)
    assert index.is_full and len(index) == 4
    assert index.find([token(4)]) is B
    assert index.find([token(5)]) is None and index.find([token(4), token(5)]) is None
    assert index.with_tokens(packed(7), C) is index


def test_what_a_call_brought_along_is_known_only_as_a_part_of_more() -> None:
    text = token(1, echo=True) + token(2) + token(3, echo=True) + token(4, echo=True) + GAP
    index = TokenIndex().with_tokens(text, A)
    assert index.find([token(1)]) is None and index.find([token(2)]) is A
    assert index.find([token(1), token(2)]) is A and index.find([token(2), token(3)]) is A
    assert index.find([token(3), token(4)]) is None


def test_many_tokens_keep_their_places() -> None:
    index = TokenIndex()
    for start in range(0, 6000, 1000):
        index = index.with_tokens(packed(*range(start + 1, start + 1001)), Sighting(Origin.WEB, str(start)))
    found = [index.find([token(number)]) for number in range(1, 6001)]
    assert [one.label for one in found if one] == [
        str((number - 1) // 1000 * 1000) for number in range(1, 6001)
    ]
    assert index.find([token(999), token(1000), token(1001)]) is not None
    assert index.find([token(6001)]) is None
