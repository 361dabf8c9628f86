"""Deny beats Ask beats Allow; a gate that raises denies; more gates are never milder."""

from __future__ import annotations

import copy
from itertools import permutations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.gates import known
from leeward.security.kinds import Effect, Kind
from leeward.security.pipeline import GATES, judge
from leeward.security.session import Decided, LevelSet, TextSeen
from leeward.security.verdict import Allow, Ask, Decision, Deny, GateAnswer

KINDS = {
    "path": Kind.PATH,
    "url": Kind.URL,
    "command": Kind.COMMAND,
    "to": Kind.DESTINATION,
    "id": Kind.RESOURCE_ID,
    "text": Kind.TEXT,
    "q": None,
}
STRICTNESS = {Allow: 0, Ask: 1, Deny: 2}


def gate(name, says):
    """A gate that says something: a verdict, an error to raise, or anything else."""

    def speak(action, session):
        if isinstance(says, BaseException):
            raise says
        return says

    speak.__name__ = name
    return speak


async def asynchronous(action, session):
    return Allow()


BROKEN = [
    ValueError("x"),
    RecursionError(),
    AttributeError(),
    None,
    True,
    0,
    "allow",
    Allow,
    (Allow(),),
    GateAnswer("x", Allow()),
]
SAYS = st.sampled_from(
    [
        Allow(),
        Allow("off"),
        Ask("a", "may it?"),
        Ask("f", "may it?", force=True),
        Deny("d", "no"),
        Deny("e", "no"),
        *BROKEN,
    ]
)
SETS = st.lists(SAYS, max_size=6).map(
    lambda said: tuple(gate(f"g{number}", says) for number, says in enumerate(said))
)
WORDS = {
    "allow": Allow(),
    "ask": Ask("a", "may it?"),
    "deny": Deny("d", "no"),
    "raises": ValueError("x"),
    "none": None,
}


@pytest.fixture(scope="module")
def action(make):
    return make.action(make.spec(), {})


# what the gates say, in any order → the word
TABLE = [
    ((), Allow),
    (("allow",), Allow),
    (("allow", "ask"), Ask),
    (("ask", "deny"), Deny),
    (("allow", "ask", "deny"), Deny),
    (("raises",), Deny),
    (("allow", "raises"), Deny),
    (("ask", "raises"), Deny),
    (("none",), Deny),
    (("allow", "none", "ask"), Deny),
]


def failures(judge, action, session):
    return [
        order
        for said, word in TABLE
        for order in permutations(said)
        if not isinstance(
            judge(action, session, tuple(gate(name, WORDS[name]) for name in order)).verdict, word
        )
    ]


def test_the_strictest_word_decides_in_any_order(make, action) -> None:
    assert failures(judge, action, make.session()) == []


def test_the_obvious_wrong_judge_is_caught(make, planted, action) -> None:
    caught = failures(planted("judge").judge, action, make.session())
    assert {("raises",), ("ask", "deny"), ("none",)} <= set(caught)


@pytest.mark.parametrize("says", BROKEN, ids=repr)
def test_a_gate_that_says_no_word_has_said_no(make, action, says) -> None:
    decision = judge(action, make.session(), (gate("g", says), gate("h", Allow())))
    assert (
        decision.denial[0] == "g" and decision.denial[1].rule == "broken_gate" and len(decision.answers) == 2
    )


@pytest.mark.filterwarnings("ignore:coroutine.*never awaited:RuntimeWarning")
def test_a_gate_that_would_have_to_be_awaited_has_said_no(make, action) -> None:
    assert isinstance(judge(action, make.session(), (asynchronous,)).verdict, Deny)


def test_a_broken_gate_tells_nothing_of_what_it_saw(make, action) -> None:
    denial = judge(action, make.session(), (gate("g", ValueError("s3cret \x1b[2J")),)).denial[1]
    assert "s3cret" not in denial.reason and denial.facts == ()


@given(SETS, SETS)
@example((gate("a", Ask("a", "?")),), (gate("b", None),))
def test_more_gates_are_never_milder(make, some, more) -> None:
    action, session = make.action(make.spec(), {}), make.session()
    few, many = judge(action, session, some), judge(action, session, some + more)
    assert STRICTNESS[type(many.verdict)] >= STRICTNESS[type(few.verdict)]
    assert set(many.asks) >= set(few.asks)
    assert few.denial is None or many.denial == few.denial, "the first no decides"
    assert many.answers[: len(some)] == few.answers


@given(SETS)
def test_every_gate_speaks_in_order_and_the_first_decides(make, gates) -> None:
    decision = judge(make.action(make.spec(), {}), make.session(), gates)
    assert [word.gate for word in decision.answers] == [gate.__name__ for gate in gates]
    speaking = [word for word in decision.answers if isinstance(word.verdict, type(decision.verdict))]
    assert decision.gate == (None if isinstance(decision.verdict, Allow) else speaking[0].gate)


def test_only_a_no_of_known_ends_the_round(make) -> None:
    bad = make.action(make.spec(), "{")
    assert [word.gate for word in judge(bad, make.session()).answers] == ["known"]
    fine = make.action(make.spec(kinds={"path": Kind.PATH}), {"path": "~/.ssh/x"})
    assert [word.gate for word in judge(fine, make.session()).answers] == [gate.__name__ for gate in GATES]
    assert GATES[0] is known


ARGUMENTS = st.dictionaries(
    st.sampled_from([*KINDS, "other"]),
    st.sampled_from(
        [
            "a",
            "../x",
            "~/.ssh/id",
            "https://a.example/x",
            "http://10.0.0.1/",
            "git status ; rm x",
            "$(x)",
            "null",
            "ops@a.example",
            "%2e%2e/",
            "\x00",
            "",
            7,
            ["../y"],
            {"k": "/etc"},
        ]
    ),
    max_size=4,
)
EVENTS = st.lists(
    st.sampled_from(
        [
            Decided(1, "x", "tool", "h", allowed=False),
            Decided(1, "x", "tool", "h", allowed=True),
            LevelSet(1, "tool", 3, "x"),
            LevelSet(1, "tool", 1, "x"),
            TextSeen(1, ("web",)),
        ]
    ),
    max_size=5,
)


@given(
    ARGUMENTS, st.sampled_from([Effect.READ, Effect.WRITE, Effect.SEND | Effect.BRING_IN, Effect.ALL]), EVENTS
)
def test_judging_is_deterministic_and_changes_nothing(make, arguments, effects, events) -> None:
    tool = make.spec(effects=effects, kinds=KINDS)
    action, session = make.action(tool, arguments), make.session(*events, said=["https://a.example/"])
    before = (copy.copy(action), copy.copy(session), session.ledger.entries())
    decisions = [judge(action, session) for _ in range(3)]
    assert decisions[0] == decisions[1] == decisions[2]
    assert (action, session, session.ledger.entries()) == before
    again = make.action(tool, arguments), make.session(*events, said=["https://a.example/"])
    assert judge(*again) == decisions[0]


@given(
    ARGUMENTS,
    st.sampled_from([Effect.READ, Effect.WRITE, Effect.ALL]),
    EVENTS,
    st.sets(st.sampled_from(GATES)),
)
def test_taking_real_gates_away_is_never_stricter(make, arguments, effects, events, gone) -> None:
    action, session = make.action(make.spec(effects=effects, kinds=KINDS), arguments), make.session(*events)
    full = judge(action, session)
    less = judge(action, session, tuple(gate for gate in GATES if gate not in gone))
    if known not in gone or not action.problems:
        assert STRICTNESS[type(less.verdict)] <= STRICTNESS[type(full.verdict)]
    assert not any(word.verdict.rule == "broken_gate" for word in full.answers)


def test_a_decision_without_words_is_an_allow() -> None:
    assert Decision(()).verdict == Allow() and Decision(()).gate is None
