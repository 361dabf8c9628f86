"""Counting failures in a window, and denials in a row and in all."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.policy import AnomalyLimits, BreakerLimits
from leeward.security.session import AnomalyDetector
from leeward.security.session.anomaly import Breaker

LIMITS = AnomalyLimits()


def after(outcomes: str, limits=LIMITS, tool="t"):
    """A detector after some outcomes: `+` went well, `-` failed."""
    found = AnomalyDetector()
    for outcome in outcomes:
        found = found.record(tool, outcome == "+", limits)
    return found


@pytest.mark.parametrize(
    ("outcomes", "tripped"),
    [
        ("", False),
        ("-" * 4, False),
        ("-" * 5, True),
        ("+" + "-" * 3, False),
        ("+" + "-" * 4, True),
        ("++" + "-" * 4, False),
        ("++" + "-" * 5, True),
        ("+" * 7 + "-" * 13, False),
        ("+" * 6 + "-" * 14, True),
        ("-" * 14 + "+" * 6, True),
        ("-" * 13 + "+" * 7, False),
        ("+" * 100 + "-" * 13, False),
        ("+" * 100 + "-" * 14, True),
        ("-" * 14 + "+" * 20, False),
        ("+-" * 50, False),
    ],
)
def test_when_a_tool_has_failed_too_often(outcomes, tripped) -> None:
    assert after(outcomes).is_tripped("t", LIMITS) is tripped
    assert not after(outcomes).is_tripped("other", LIMITS)
    assert not after(outcomes).emptied("t").is_tripped("t", LIMITS)
    assert after(outcomes).emptied("other") == after(outcomes)


@pytest.mark.parametrize(
    ("threshold", "failed", "seen"),
    [
        (0.55, 11, 20),
        (0.7, 7, 10),
        (0.7, 14, 20),
        (0.6, 3, 5),
        (0.35, 7, 20),
        (0.15, 3, 20),
        (1.0, 20, 20),
        (0.9, 18, 20),
    ],
)
def test_at_the_threshold_is_too_often_whatever_floats_do(threshold, failed, seen) -> None:
    limits = AnomalyLimits(failure_threshold=threshold)
    assert after("+" * (seen - failed) + "-" * failed, limits).is_tripped("t", limits)
    assert not after("+" * (seen - failed + 1) + "-" * (failed - 1), limits).is_tripped("t", limits)


def test_an_empty_window_is_never_too_much() -> None:
    assert not AnomalyDetector().is_tripped("t", AnomalyLimits(min_samples=0))


def test_switched_off_nothing_is_counted() -> None:
    off = AnomalyLimits(enabled=False)
    assert after("-" * 20, off) == AnomalyDetector()
    assert not after("-" * 20).is_tripped("t", off)


@given(
    st.text(st.sampled_from("+-"), max_size=60), st.integers(1, 30), st.integers(1, 30), st.floats(0.05, 1)
)
@example("-" * 14, 20, 5, 0.7)
def test_only_the_window_counts(outcomes, size, least, threshold) -> None:
    limits = AnomalyLimits(window_size=size, min_samples=least, failure_threshold=threshold)
    window = outcomes[-size:]
    found = after(outcomes, limits)
    assert found.failures("t") == (window.count("-"), len(window))
    assert found.is_tripped("t", limits) is (
        len(window) >= least and window.count("-") / len(window) >= threshold
    )


def test_it_is_told_whether_refusals_are_among_the_failures() -> None:
    failed = after("+--")
    assert failed.told("t") == "2 of 3 failed"
    assert failed.record("t", False, LIMITS, refused=True).told("t") == "3 of 4 failed or were refused"


@given(st.text(st.sampled_from("dry"), max_size=60), st.integers(1, 6), st.integers(1, 25))
@example("ddd", 3, 20)
@example("ddrdd", 3, 4)
@example("dddyd", 3, 4)
def test_the_breaker_stays_tripped_until_a_yes(history, consecutive, total) -> None:
    """`d` is a denial, `r` a call that ran, `y` a person's yes to one."""
    limits, breaker, row, all_denied, expected = BreakerLimits(consecutive, total), Breaker(), 0, 0, False
    for event in history:
        if event == "d":
            breaker, row, all_denied = breaker.denied(limits), row + 1, all_denied + 1
            expected = expected or row >= consecutive or all_denied >= total
        elif event == "r":
            breaker, row = breaker.relieved(), 0
        else:
            breaker, row, expected = breaker.lifted(), 0, False
        assert (breaker.consecutive, breaker.total, breaker.tripped) == (row, all_denied, expected)
