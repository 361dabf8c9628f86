"""A call is refused when nothing is left to spend, or when it is the same one over and over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Asker, Status
from leeward.security.gates import budget
from leeward.security.policy import CallLimits
from leeward.security.session import Asked, ConversationCleared, Decided, Finished, TurnStarted, apply_events
from leeward.security.verdict import Allow, Deny


def made(name, digest="same", result="r", status=Status.OK, allowed=True):
    """The events of one call that was made; not allowed ones never finish."""
    events = [Decided(1, name, "tool", digest, allowed)]
    return [*events, Finished(1, name, "tool", digest, status, result=result)] if allowed else events


def calls(*digests, **fields):
    return [event for number, digest in enumerate(digests) for event in made(f"n{number}", digest, **fields)]


MINE = "mine"
TURN = TurnStarted(1)
LIMITS = CallLimits(per_turn=4, per_session=6, repeats=3)

# what happened, and the rule that says no
TABLE = [
    ([], None),
    (calls("a", "b", "c"), None),
    (calls("a", "b", "c", "d"), "calls_per_turn"),
    (calls("a", "b", "c", "d", allowed=False), "calls_per_turn"),
    ([*calls("a", "b", "c"), Asked(1, "w1", "tool", "x")], "calls_per_turn"),
    ([*calls("a", "b", "c"), Asked(1, "c1", "tool", MINE)], None),
    ([*calls("a", "b", "c"), Asked(1, "c1", "tool", MINE), *made("x", allowed=False)], None),
    ([*calls("a", "b", "c", "d"), TURN], None),
    ([*calls("a", "b", "c", "d"), ConversationCleared(1)], "calls_per_turn"),
    ([*calls("a", "b", "c", "d"), TURN, *made("x", "e")], None),
    ([*calls("a", "b", "c", "d"), TURN, *made("x", "e"), *made("y", "f")], "calls_per_session"),
    (
        [*calls("a", "b", "c", "d"), TURN, *made("x", "e"), *made("y", "f"), TURN, ConversationCleared(1)],
        "calls_per_session",
    ),
    (calls(MINE, MINE), None),
    (calls(MINE, MINE, MINE), "repeated"),
    (calls(MINE, MINE, "a"), None),
    (calls("a", "a", "a"), None),
    ([*made("1", MINE, "x"), *made("2", MINE, "y"), *made("3", MINE, "x")], None),
    (calls(MINE, "edit", MINE), None),
    (calls(MINE, MINE, MINE, status=Status.ERROR), "repeated"),
    (calls(MINE, MINE, MINE, status=Status.CANCELLED), None),
    ([*calls(MINE, MINE, MINE), TURN], None),
    ([*calls(MINE, MINE, MINE), ConversationCleared(1)], None),
]


def judge(make, gate, events):
    start = make.session(*events, calls=LIMITS)
    return gate(make.replace(make.action(make.spec()), digest=MINE), start)


def failures(make, gate):
    return [
        index
        for index, (events, rule) in enumerate(TABLE)
        if (getattr(judge(make, gate, events), "rule", "") or None) != rule
    ]


@pytest.mark.parametrize(("events", "rule"), TABLE)
def test_a_call_passes_until_the_rule_that_limits_it_speaks(make, events, rule) -> None:
    verdict = judge(make, budget, events)
    assert (isinstance(verdict, Deny), verdict.rule or None) == (rule is not None, rule)


@pytest.mark.parametrize(("events", "rule"), TABLE)
def test_the_person_is_not_held_to_the_limits_of_the_model(make, events, rule) -> None:
    def by_the_person(action, session):
        return budget(make.replace(action, call=make.replace(action.call, asker=Asker.PERSON)), session)

    assert judge(make, by_the_person, events) == Allow()


def test_the_obvious_wrong_gate_is_caught(make, planted) -> None:
    caught = failures(make, planted("budget").budget)
    assert {2, 10, 15} <= set(caught)


def test_a_call_that_waited_does_not_stand_in_its_own_way_and_opens_no_door(make) -> None:
    """A limit of one: the call that is pending may go on, and nobody may go in its stead and again."""
    limits = CallLimits(per_turn=1, per_session=1)
    waiting = make.session(Asked(1, "c1", "tool", MINE), calls=limits)
    assert budget(make.action(make.spec(), call_id="c1"), waiting) == Allow()
    assert isinstance(budget(make.action(make.spec(), call_id="c2"), waiting), Deny)
    gone = apply_events(waiting, Decided(1, "c1", "tool", MINE, allowed=True))
    assert isinstance(budget(make.action(make.spec(), call_id="c1"), gone), Deny)


@given(st.lists(st.sampled_from(["a", "b"]), max_size=12), st.integers(1, 4))
def test_only_an_unbroken_run_of_the_same_call_is_a_repetition(make, digests, limit) -> None:
    start = make.session(*calls(*digests), calls=CallLimits(repeats=limit))
    for mine in ("a", "b"):
        run = len(digests) - len("".join(digests).rstrip(mine))
        action = make.replace(make.action(make.spec()), digest=mine)
        assert isinstance(budget(action, start), Deny) is (run >= limit)
