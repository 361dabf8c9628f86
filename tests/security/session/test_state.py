"""A session is a pure fold over its events."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.memory.audit import event_of
from leeward.security.call import Status
from leeward.security.outcome import Category
from leeward.security.session import (
    Asked,
    BreakerReset,
    Configured,
    ConversationCleared,
    Decided,
    Finished,
    Grant,
    Granted,
    LevelSet,
    Resumed,
    Revoked,
    Scope,
    Session,
    TextSeen,
    TurnStarted,
    UrlsAdded,
    apply_events,
)
from leeward.security.trust import Origin, TrustLevel, integrity
from leeward.security.url import Provenance

TIMES = st.floats(0, 2e9, allow_nan=False)
IDS, TOOLS = st.sampled_from(["c1", "c2", "c3"]), st.sampled_from(["a", "b"])
EVENTS = st.one_of(
    st.builds(TurnStarted, TIMES),
    st.builds(
        UrlsAdded,
        TIMES,
        st.lists(st.sampled_from(["https://a.example/", "https://b.example/x", "not a url"]), max_size=2).map(
            tuple
        ),
        st.sampled_from(Provenance),
    ),
    st.builds(ConversationCleared, TIMES),
    st.builds(TextSeen, TIMES, st.lists(st.sampled_from(Origin), max_size=2).map(tuple)),
    st.builds(Asked, TIMES, IDS, TOOLS, st.just("h")),
    st.builds(
        Decided,
        TIMES,
        IDS,
        TOOLS,
        st.just("h"),
        st.booleans(),
        category=st.sampled_from([None, *Category]),
        approver=st.sampled_from(["", "nobody", "the person"]),
    ),
    st.builds(
        Finished, TIMES, IDS, TOOLS, st.just("h"), st.sampled_from(Status), result=st.sampled_from(["x", "y"])
    ),
    st.builds(LevelSet, TIMES, TOOLS, st.sampled_from(TrustLevel), st.just("cause")),
    st.builds(
        Granted,
        TIMES,
        st.builds(
            Grant,
            st.sampled_from(["g_1", "g_2"]),
            TOOLS,
            st.sampled_from([None, "x"]),
            st.sampled_from(Scope),
            st.none() | TIMES,
        ),
        st.sampled_from([None, "/ws", "/elsewhere"]),
    ),
    st.builds(Revoked, TIMES, st.sampled_from(["g_1", "g_2", "g_3"])),
    st.builds(BreakerReset, TIMES),
)


def fold(start: Session, events) -> Session:
    for event in events:
        start = apply_events(start, event)
    return start


def decided(call="c1", tool="tool", allowed=False, **fields):
    return Decided(1, call, tool, "h", allowed, **fields)


def finished(call="c1", status=Status.OK, result="r", tool="tool"):
    return Finished(1, call, tool, "h", status, result=result)


@given(st.lists(EVENTS, max_size=25), st.lists(EVENTS, max_size=5))
def test_the_same_events_make_the_same_session_and_leave_every_earlier_one_as_it_was(
    make, events, later
) -> None:
    one, other = fold(make.session(), events), fold(make.session(), events)
    assert one == other
    kept, known = copy.copy(one), one.ledger.entries()
    fold(one, later)
    assert one == kept and one.ledger.entries() == known
    assert fold(one, later) == fold(make.session(), [*events, *later])


@given(st.lists(EVENTS, max_size=25), EVENTS)
def test_what_protects_the_person_only_grows_until_it_is_lifted_by_name(make, events, event) -> None:
    before = fold(make.session(), events)
    now = apply_events(before, event)
    assert now.now >= before.now
    assert now.labels >= before.labels or isinstance(event, ConversationCleared)
    assert now.calls_this_session >= before.calls_this_session
    assert now.calls_this_turn >= before.calls_this_turn or isinstance(event, TurnStarted)
    assert now.breaker.total >= before.breaker.total or isinstance(event, BreakerReset)
    is_yes = isinstance(event, Decided) and event.allowed and event.approver == "the person"
    assert now.breaker.tripped >= before.breaker.tripped or isinstance(event, BreakerReset) or is_yes
    assert set(now.levels) >= set(before.levels)
    assert set(now.grants) >= set(before.grants) or isinstance(event, ConversationCleared | Revoked)


@given(st.lists(EVENTS, max_size=25))
def test_clear_forgets_the_conversation_and_keeps_what_protects_the_person(make, events) -> None:
    before = fold(make.session(said=["https://a.example/"]), events)
    now = apply_events(before, ConversationCleared(0))
    assert (now.labels, now.last, now.repeats, len(now.ledger)) == (frozenset(), ("", ""), 0, 0)
    assert now.grants == tuple(grant for grant in before.grants if grant.scope.is_lasting)
    kept = (
        "policy",
        "levels",
        "anomaly",
        "breaker",
        "calls_this_turn",
        "calls_this_session",
        "pending",
        "running",
        "id",
    )
    assert [getattr(now, name) for name in kept] == [getattr(before, name) for name in kept]


def test_a_session_cannot_be_changed(make) -> None:
    start = make.session(LevelSet(0, "tool", TrustLevel.BLOCKED, "x"))
    with pytest.raises(FrozenInstanceError):
        start.repeats = 7
    with pytest.raises(TypeError):
        start.levels["tool"] = (TrustLevel.TRUSTED, "x")
    with pytest.raises(TypeError):
        start.anomaly.windows["tool"] = ()


# events → failures in the tool's window and how many outcomes it holds, denials in a row and in all
COUNTED = [
    ([decided()], (1, 1), (1, 1)),
    ([decided(allowed=True)], (0, 0), (0, 0)),
    ([decided(allowed=True), finished()], (0, 1), (0, 0)),
    ([decided(allowed=True), finished(status=Status.ERROR)], (1, 1), (0, 0)),
    ([decided(allowed=True), finished(status=Status.TIMEOUT)], (1, 1), (0, 0)),
    ([decided(allowed=True), finished(status=Status.CANCELLED)], (0, 0), (0, 0)),
    (
        [decided(allowed=True), finished(status=Status.DENIED)],
        (0, 0),
        (0, 0),
    ),  # the record failed, not the tool
    ([decided(allowed=True), finished(), finished()], (0, 1), (0, 0)),  # written twice, counted once
    ([finished()], (0, 0), (0, 0)),
    ([decided(approver="the person")], (0, 0), (0, 0)),
    ([decided(approver="nobody")], (0, 0), (0, 0)),
    ([decided(approver="cancelled")], (0, 0), (0, 0)),
    ([decided(category=Category.TOOL_NOT_FOUND)], (0, 0), (1, 1)),
    ([LevelSet(1, "tool", TrustLevel.BLOCKED, "x"), decided()], (0, 0), (0, 0)),
    ([decided(gate="trust", trust="blocked")], (0, 0), (0, 0)),  # by the configuration
    ([decided(asker="person")], (0, 0), (0, 0)),
    ([decided(asker="person", category=Category.TOOL_NOT_FOUND)], (0, 0), (0, 0)),
    ([decided(asker="person", allowed=True), finished()], (0, 0), (0, 0)),
    ([decided(asker="person", allowed=True), finished(status=Status.ERROR)], (0, 0), (0, 0)),
    ([decided("c1"), decided("c2", asker="person", allowed=True)], (1, 1), (1, 1)),
    ([decided("c1"), decided("c2", asker="person"), decided("c3")], (2, 2), (2, 2)),
    ([LevelSet(1, "tool", TrustLevel.QUARANTINED, "x"), decided()], (1, 1), (1, 1)),
    ([decided("c1"), decided("c2"), decided("c3", allowed=True), decided("c4")], (3, 3), (1, 3)),
    ([decided("c1"), decided("c2", approver="the person"), decided("c3")], (2, 2), (2, 2)),
    ([decided("c1"), decided("c2"), BreakerReset(1)], (2, 2), (0, 0)),
    ([decided("c1"), decided("c2"), LevelSet(1, "tool", TrustLevel.TRUSTED, "x")], (0, 0), (2, 2)),
    ([decided("c1"), decided("c2"), LevelSet(1, "tool", TrustLevel.BLOCKED, "x")], (2, 2), (2, 2)),
    ([decided("c1"), decided("c2"), LevelSet(1, "other", TrustLevel.TRUSTED, "x")], (2, 2), (2, 2)),
]


@pytest.mark.parametrize(("events", "window", "breaker"), COUNTED)
def test_what_counts_as_a_failure_and_what_as_a_denial(make, events, window, breaker) -> None:
    found = make.session(*events)
    assert found.anomaly.failures("tool") == window
    assert (found.breaker.consecutive, found.breaker.total) == breaker


YES = decided("y", allowed=True, approver="the person; grant: allow read")
# events → whether the breaker is tripped; three denials in a row do it, or twenty in all
TRIPPED = [
    ([*map(decided, "abc")], True),
    ([*map(decided, "abc"), YES], False),
    ([*map(decided, "abc"), YES, decided("d"), decided("e")], False),
    ([*map(decided, "abc"), YES, *map(decided, "def")], True),
    ([*map(decided, "abc"), decided("y", allowed=True)], True),
    ([*map(decided, "abc"), decided("y", allowed=True, approver="grant: allow tool")], True),
    (
        [
            *map(decided, "abc"),
            decided("y", allowed=True, asker="person", approver="the person, by typing it"),
        ],
        True,
    ),
    ([*map(decided, "abc"), decided("y", approver="the person")], True),
    ([*map(decided, "ab"), YES, *map(decided, "cd")], False),
    ([*map(decided, "abcdefghijklmnopqrst"), YES], False),
    ([*map(decided, "abcdefghijklmnopqrst"), YES, decided("u")], True),
    ([*map(decided, "abcdefghijklmnopqrst"), BreakerReset(1), decided("u")], False),
]  # fmt: skip


@pytest.mark.parametrize(("events", "is_tripped"), TRIPPED)
def test_a_persons_yes_lifts_the_breaker_and_nothing_else_but_a_reset_does(make, events, is_tripped) -> None:
    assert make.session(*events).breaker.tripped is is_tripped


# What counted otherwise when no record said by which rules, with what came of it then.
COUNTED_BEFORE = [
    ([decided(asker="person")], (1, 1), (1, 1, False)),
    ([decided(asker="person", allowed=True), finished(status=Status.ERROR)], (1, 1), (0, 0, False)),
    ([LevelSet(1, "tool", TrustLevel.BLOCKED, "x"), decided()], (0, 0), (1, 1, False)),
    ([*map(decided, "abc"), YES], (3, 3), (0, 3, True)),
]


@pytest.mark.parametrize(("events", "window", "breaker"), COUNTED_BEFORE)
def test_a_record_of_an_earlier_release_counts_as_it_did_then(make, events, window, breaker) -> None:
    started = event_of("config", {"at": 0.0, "digest": "d"})
    found = make.session(started, *events)
    assert found.anomaly.failures("tool") == window
    assert (found.breaker.consecutive, found.breaker.total, found.breaker.tripped) == breaker
    taken_up = apply_events(found, Resumed(2, lapsed=False), Configured(2, "d"), *map(decided, "xyz"), YES)
    assert not taken_up.breaker.tripped, "from here on today's rules hold"


def test_a_call_is_booked_once_whether_it_waited_or_not(make) -> None:
    for events, booked in (
        ([decided("c1")], 1),
        ([Asked(1, "c1", "tool", "h")], 1),
        ([Asked(1, "c1", "tool", "h"), decided("c1", allowed=True)], 1),
        ([Asked(1, "c1", "tool", "h"), decided("c1", approver="nobody")], 1),
        ([Asked(1, "c1", "tool", "h"), decided("c1", allowed=True), decided("c1", allowed=True)], 2),
        ([Asked(1, "c1", "tool", "h"), decided("c2", allowed=True), decided("c1")], 2),
    ):
        found = make.session(*events)
        assert (found.calls_this_turn, found.calls_this_session) == (booked, booked)
    assert make.session(Asked(1, "c1", "tool", "h"), decided("c1", allowed=True)).pending == frozenset()


def test_who_decides_how_far_a_tool_is_trusted(make) -> None:
    tool = make.spec("x", level=TrustLevel.VERIFIED, source="plug-in p")
    assert make.session().trust_in(tool) is TrustLevel.VERIFIED
    assert make.session(levels={"plug-in p": TrustLevel.BLOCKED}).trust_in(tool) is TrustLevel.BLOCKED
    assert make.session(levels={"x": TrustLevel.TRUSTED}).trust_in(tool) is TrustLevel.VERIFIED
    assert (
        make.session(LevelSet(1, "x", TrustLevel.TRUSTED, "the person")).trust_in(tool) is TrustLevel.TRUSTED
    )


@given(st.frozensets(st.sampled_from(Origin)), st.frozensets(st.sampled_from(Origin)))
def test_a_mixture_is_as_good_as_its_worst_part(one, other) -> None:
    assert integrity(one | other) == min(integrity(one), integrity(other))
    assert (
        integrity(frozenset({Origin.PERSON}))
        > integrity(frozenset({Origin.PROJECT}))
        > integrity(frozenset({Origin.WORKSPACE}))
        > integrity(frozenset({Origin.WEB}))
    )
