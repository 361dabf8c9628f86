"""A short run of the keep fuzz: random changes are kept whole, discarded, or interrupted by a kill."""

from __future__ import annotations

import pytest


@pytest.fixture
def fuzz(script):
    fuzz = script("fuzz/keep_fuzz.py")
    if why := fuzz.UPPER.why_not():
        pytest.skip(why)
    return fuzz


def test_the_workspace_is_what_programs_saw_or_untouched(fuzz):
    problems, seen = fuzz.fuzzed(12, seed=1)
    assert problems == []
    assert min(seen["kept"], seen["changes"]) > 0


def test_after_a_kill_at_any_moment_the_next_process_finds_or_makes_one_of_both(fuzz):
    """Here few; `make crash` kills hundreds of times."""
    problems, seen = fuzz.killed(6, seed=3)
    assert problems == []
    assert seen["applied"] + seen["taken back"] == 6
