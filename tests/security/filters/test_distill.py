"""Head and tail of a long text, cut at line ends, with the gap stated."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.filters import Screened, Source, distill
from leeward.security.trust import Origin

GAP = re.compile(r"\n\[… (\d+) characters left out …\]\n")
LINES = "".join(f"line {number}\n" for number in range(1000))


def run(distill, text, threshold):
    return distill(Screened(text, ("before",)), Source("tool", Origin.WORKSPACE, threshold=threshold))


def is_right(distill, text, threshold) -> bool:
    screened = run(distill, text, threshold)
    if len(text) <= threshold:
        return screened == Screened(text, ("before",))
    if len(parts := GAP.split(screened.text)) != 3:
        return False
    head, gap, tail = parts
    return (
        text.startswith(head)
        and text.endswith(tail)
        and len(head) + int(gap) + len(tail) == len(text)
        and len(head) + len(tail) <= threshold
        and screened.notices == ("before", f"{gap} of {len(text)} characters in the middle are not shown")
    )


@pytest.mark.parametrize("threshold", [0, 1, 10, 100, 5000, len(LINES) - 1, len(LINES)])
def test_head_and_tail(threshold) -> None:
    assert is_right(distill, LINES, threshold)


def test_the_obvious_wrong_filter_is_caught(planted) -> None:
    wrong = planted("distill").distill
    assert is_right(wrong, LINES, len(LINES)) and not is_right(wrong, LINES, 5000)


def test_whole_lines_of_the_beginning_and_more_than_a_scrap_of_the_end() -> None:
    head, _, tail = GAP.split(run(distill, LINES, 1000).text)
    assert head.startswith("line 0\n") and head.endswith("\n") and 250 < len(head) <= 300
    assert tail.startswith("line ") and tail.endswith("line 999\n") and 150 < len(tail) <= 200


def test_one_endless_line_is_cut_anywhere_rather_than_lost() -> None:
    head, _, tail = GAP.split(run(distill, "a" * 10_000, 1000).text)
    assert (len(head), len(tail)) == (300, 200)


@given(st.text(st.sampled_from("ab\n[…]"), max_size=300), st.integers(0, 200))
def test_any_text_is_untouched_or_no_longer_than_the_threshold(text, threshold) -> None:
    screened = run(distill, text, threshold)
    assert (screened.text == text) or len(text) > threshold
    assert len(screened.text) <= max(len(text) if len(text) <= threshold else threshold + 60, 0)
