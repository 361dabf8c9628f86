"""The hard bound: in bytes, at a line end, and always with a notice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.filters import HARD_BOUND, Screened, Source, cap
from leeward.security.trust import Origin

# text, bound → what is left (None: all of it)
TABLE = [
    ("", 0, None),
    ("abc", 3, None),
    ("abcd", 3, "abc"),
    ("a\nb\nc\n", 6, None),
    ("a\nb\nc\nd", 6, "a\nb\nc\n"),
    ("a\nb\ncc", 5, "a\nb\n"),
    ("a\nb\nc", 4, "a\nb\n"),
    ("äöü", 6, None),
    ("äöü", 5, "äö"),
    ("ääää\nöö", 12, "ääää\n"),
    ("日本語", 8, "日本"),
    ("😀😀", 7, "😀"),
    ("a\n" + "b" * 100, 50, "a\n" + "b" * 48),  # cut through: almost everything would be lost else
    ("a" * 30 + "\n" + "b" * 100, 50, "a" * 30 + "\n"),
    ("abc", 0, ""),
]


def run(cap, text, bound, **fields):
    return cap(Screened(text, ("before",)), Source("tool", Origin.WEB, max_bytes=bound, **fields))


def failures(cap):
    found = []
    for text, bound, left in TABLE:
        screened = run(cap, text, bound)
        right = (
            screened == Screened(text, ("before",))
            if left is None
            else (screened.text == left and len(screened.notices) == 2)
        )
        found += [] if right else [text]
    return found


def test_a_text_is_cut_at_the_limit_and_never_within_a_character() -> None:
    assert failures(cap) == []


def test_the_obvious_wrong_filter_is_caught(planted) -> None:
    assert {"äöü", "a\nb\ncc", "日本語"} <= set(failures(planted("cap").cap))


def test_the_notice_tells_how_much_was_dropped() -> None:
    assert run(cap, "a\nb\ncc", 5).notices == (
        "before",
        "cut to 4 of 6 bytes; the rest was dropped and is not stored",
    )


@pytest.mark.parametrize("bound", [HARD_BOUND, HARD_BOUND * 4, 2**63])
def test_nobody_can_raise_the_hard_bound(bound) -> None:
    line = "x" * 1023 + "\n"
    text = line * (HARD_BOUND // 1024 + 1)
    assert len(run(cap, text, bound).text) == HARD_BOUND


@given(st.text(st.sampled_from("ab\nä日😀"), max_size=80), st.integers(0, 120))
def test_what_is_left_is_a_beginning_within_the_bound(text, bound) -> None:
    screened = run(cap, text, bound)
    assert text.startswith(screened.text) and len(screened.text.encode()) <= bound or screened.text == text
    assert (screened.text == text) == (len(text.encode()) <= bound)
    if screened.text != text:
        kept = len(screened.text.encode())
        assert screened.text.endswith("\n") or kept > bound - 4, (
            "a line's end, or as much as there is room for"
        )
        assert kept >= bound / 2 - 4
