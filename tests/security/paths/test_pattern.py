"""Globs of paths: what they mean, what is the same name, and that nothing makes them slow."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.paths import matches_parts
from leeward.security.paths.pattern import as_one_name, means_path
from loading import rows_beside

ROWS = rows_beside(__file__)

MEANT = ROWS["meant"]
NOT_MEANT = ROWS["not_meant"]


def means(pattern: str, path: str, *, folds: bool = False) -> bool:
    return means_path((pattern,), path, "/ws", "/home/ada", folds=folds)


@pytest.mark.parametrize(("pattern", "path"), MEANT)
def test_what_a_pattern_means(pattern: str, path: str) -> None:
    assert means(pattern, path)


@pytest.mark.parametrize(("pattern", "path"), NOT_MEANT)
def test_what_it_does_not_mean(pattern: str, path: str) -> None:
    assert not means(pattern, path) and not means(pattern, path, folds=True)


def test_a_workspace_whose_name_is_a_pattern_is_taken_as_it_is() -> None:
    assert means_path(("a/b",), "/w[s]*/a/b", "/w[s]*", "/h", folds=False)
    assert not means_path(("a/b",), "/ws/a/b", "/w[s]*", "/h", folds=False)


SAME = [
    ("/ws/A.Pem", "/ws/a.pem"),
    ("/ws/\u00c4", "/ws/a\u0308"),
    ("/ws/.g\u200cit", "/ws/.GIT"),
    ("/ws/stra\u00dfe", "/ws/STRASSE"),
    ("/ws/\ufb01le", "/ws/FILE"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_that_a_file_system_may_take_for_one(one: str, other: str) -> None:
    assert as_one_name(one) == as_one_name(other)
    assert means(other, one, folds=True)


@given(st.text(max_size=20))
@example("\u0345\u0301")
@example("\u1e9e\u0130")
def test_one_spelling_stays_one(text: str) -> None:
    assert as_one_name(as_one_name(text)) == as_one_name(text)


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "*", "a*", "?", "**"]), min_size=1, max_size=5)


def slowly(parts, wanted) -> bool:
    """The same by trying everything."""
    if not wanted:
        return not parts
    if wanted[0] == "**":
        least = 1 if len(wanted) == 1 else 0
        return any(slowly(parts[count:], wanted[1:]) for count in range(least, len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and slowly(parts[1:], wanted[1:])


@given(st.lists(st.sampled_from(["a", "b", "ab"]), max_size=5), PARTS)
def test_parts_are_matched_as_by_trying_everything(parts, wanted) -> None:
    assert matches_parts(parts, wanted) is slowly(parts, wanted)
    below = any(slowly(parts[:count], wanted) for count in range(len(parts) + 1))
    assert matches_parts(parts, wanted, below=True) is below


@pytest.mark.parametrize(
    "path", ["/a" * 50_000, "/" + "a" * 100_000, "/" + "\u0301\u0316" * 50_000, "/\u200b" * 20_000]
)
def test_no_path_takes_long(path: str) -> None:
    patterns = ("**/a/**/a/**/b", "*a*a*a*b", "**/*a*/**/*b")
    began = time.process_time()
    means_path(patterns, path, "/ws", "/h", folds=True)
    assert time.process_time() - began < 3
