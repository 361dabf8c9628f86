"""A blocked tool stays blocked until it is lifted; after too many denials, effects need a question."""

from __future__ import annotations

import pytest

from leeward.security.call import Status
from leeward.security.gates import anomaly
from leeward.security.kinds import Effect
from leeward.security.outcome import Category
from leeward.security.policy import AnomalyLimits, BreakerLimits
from leeward.security.session import (
    BreakerReset,
    ConversationCleared,
    Decided,
    Finished,
    LevelSet,
    TurnStarted,
)
from leeward.security.trust import TrustLevel
from leeward.security.verdict import Allow, Ask, Deny

BLOCK = LevelSet(1, "tool", TrustLevel.BLOCKED, "anomaly window: 14 of 20 failed; /trust tool LEVEL lifts it")
LIFT = LevelSet(2, "tool", TrustLevel.TRUSTED, "the person")


def denied(count, tool="other"):
    return [Decided(1, f"d{number}", tool, "h", allowed=False, gate="paths") for number in range(count)]


def ran(call="r1"):
    return Decided(1, call, "other", "h", allowed=True)


# what happened, effects of the next call, word
TABLE = [
    ([], Effect.ALL, Allow),
    ([BLOCK], Effect.READ, Deny),
    ([BLOCK], Effect.ALL, Deny),
    ([BLOCK, ConversationCleared(2)], Effect.READ, Deny),
    ([BLOCK, TurnStarted(2)], Effect.READ, Deny),
    ([BLOCK, LIFT], Effect.ALL, Allow),
    ([LevelSet(1, "other", TrustLevel.BLOCKED, "x")], Effect.ALL, Allow),
    ([LevelSet(1, "tool", TrustLevel.QUARANTINED, "x")], Effect.ALL, Allow),
    (denied(20, "tool"), Effect.READ, Allow),
    (denied(2), Effect.ALL, Allow),
    (denied(3), Effect.READ, Allow),
    (denied(3), Effect.WRITE, Ask),
    (denied(3), Effect.BRING_IN, Ask),
    ([*denied(2), ran(), *denied(2)], Effect.ALL, Allow),
    ([*denied(3), ran()], Effect.ALL, Ask),
    ([*denied(3), ConversationCleared(2), TurnStarted(2)], Effect.ALL, Ask),
    ([*denied(3), BreakerReset(2)], Effect.ALL, Allow),
    ([*denied(3), BLOCK], Effect.ALL, Deny),
    ([event for number in range(10) for event in (*denied(2), ran(f"r{number}"))], Effect.ALL, Ask),
    ([event for number in range(9) for event in (*denied(2), ran(f"r{number}"))], Effect.ALL, Allow),
]


def failures(make, gate):
    return [
        index
        for index, (events, effects, word) in enumerate(TABLE)
        if not isinstance(gate(make.action(make.spec(effects=effects)), make.session(*events)), word)
    ]


def test_the_gate_asks_or_refuses_at_the_level_that_was_set(make) -> None:
    assert failures(make, anomaly) == []


def test_the_obvious_wrong_gate_is_caught(make, planted) -> None:
    assert {1, 3, 8, 14} <= set(failures(make, planted("anomaly").anomaly))


def test_the_refusal_names_the_cause_and_what_lifts_it(make) -> None:
    assert anomaly(make.action(make.spec()), make.session(BLOCK)).reason == BLOCK.cause


def test_the_breakers_question_is_forced_and_about_no_value(make) -> None:
    ask = anomaly(make.action(make.spec(effects=Effect.ALL)), make.session(*denied(4)))
    assert (
        ask.force
        and ask.about == ()
        and "a yes to this question or /trust reset lifts it" in ask.question
        and "4 calls were denied" in ask.question
    )


@pytest.mark.parametrize(
    ("consecutive", "total", "count", "asks"), [(1, 9, 1, True), (9, 2, 2, True), (9, 9, 8, False)]
)
def test_the_breakers_limits_are_the_persons(make, consecutive, total, count, asks) -> None:
    start = make.session(*denied(count), breaker=BreakerLimits(consecutive, total))
    assert isinstance(anomaly(make.action(make.spec(effects=Effect.ALL)), start), Ask) is asks


def test_switched_off_it_says_so_and_still_knows_the_breaker_and_the_persons_block(make) -> None:
    off = {"anomaly": AnomalyLimits(enabled=False)}
    action = make.action(make.spec(effects=Effect.ALL))
    assert anomaly(action, make.session(**off)) == Allow("off")
    assert isinstance(anomaly(action, make.session(*denied(3), **off)), Ask)
    assert isinstance(anomaly(action, make.session(BLOCK, **off)), Deny)


def test_an_outage_is_one_failure_however_often_it_is_tried(make) -> None:
    def failing(tries, category, results=("down",)):
        events = []
        for number in range(tries):
            call = f"t{number}"
            events.append(Decided(1, call, "tool", "h", allowed=True))
            events.append(
                Finished(1, call, "tool", "h", Status.ERROR, category, result=results[number % len(results)])
            )
        return make.session(*events).anomaly.failures("tool")[0]

    assert failing(6, Category.NETWORK_ERROR) == 1
    assert failing(6, Category.PERMANENT_FAILURE) == 6, "a tool that breaks has broken each time"
    assert failing(6, Category.NETWORK_ERROR, ("down", "odd")) == 1, "however it is put"


def test_a_call_that_is_tried_again_counts_once_and_as_it_ended(make) -> None:
    def window(*tries):
        """`tries` are (digest, category or None where it went well), each the next call."""
        events = []
        for number, (digest, category) in enumerate(tries):
            status = Status.ERROR if category else Status.OK
            events.append(Decided(1, f"t{number}", "tool", digest, allowed=True))
            events.append(Finished(1, f"t{number}", "tool", digest, status, category, result=str(number)))
        return make.session(*events).anomaly.failures("tool")

    down, gone = Category.NETWORK_ERROR, Category.PERMANENT_FAILURE
    assert window(("a", down), ("b", down), ("a", Category.TIMEOUT), ("b", down), ("a", down)) == (2, 2)
    assert window(("a", down), ("a", down), ("a", None)) == (0, 1)
    assert window(("a", down), ("a", gone), ("a", gone)) == (2, 2)
    assert window(("a", None), ("a", down), ("a", None), ("a", down)) == (1, 3)
    assert window(*((letter, down) for letter in "abcdef")) == (6, 6)


def test_an_outage_is_one_failure_across_turns_and_refusals(make) -> None:
    events = []
    for number in range(8):
        call = f"t{number}"
        events += [TurnStarted(1), Decided(1, call, "tool", "h", allowed=True)]
        events.append(Finished(1, call, "tool", "h", Status.TIMEOUT, Category.TIMEOUT, result=call))
        events += denied(1)
    assert make.session(*events).anomaly.failures("tool") == (1, 1)
