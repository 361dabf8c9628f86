"""Calls through sub-agents: whatever one may do, whoever started it may, however deep they are nested."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.memory.audit.events import body_of, event_of, kind_of
from leeward.security.call import BUILT_IN
from leeward.security.keep import KEEP
from leeward.security.kinds import Effect, Kind, Runs
from leeward.security.permissions import narrowed, resolve_asks
from leeward.security.pipeline import judge
from leeward.security.policy import AgentFrame, Autonomy, Rule, RuleAction, Sandboxing, ScopedSecret
from leeward.security.record import action_from_record, decided_event
from leeward.security.session import Grant, Granted, TextSeen
from leeward.security.trust import Origin
from leeward.security.verdict import Decision, Deny

NAMES = ("tool", "other", "shell")
KINDS = {"path": Kind.PATH, "url": Kind.URL, "text": Kind.TEXT, "command": Kind.COMMAND}
FRAMES = st.lists(
    st.builds(
        AgentFrame,
        name=st.sampled_from(["a", "b"]),
        call=st.just("c0"),
        tools=st.lists(st.sampled_from(["*", "t*", "tool", "shell"]), max_size=2).map(tuple),
        autonomy=st.sampled_from(Autonomy),
    ),
    max_size=4,
).map(tuple)
ARGUMENTS = st.dictionaries(
    st.sampled_from([*KINDS]),
    st.sampled_from(
        [
            "a.txt",
            "../x",
            "https://a.example/x",
            "git status",
            "rm -rf x",
            "echo x > y",
            "curl https://a.example/",
        ]
    ),
    max_size=2,
)
RULES = st.lists(
    st.builds(
        Rule, tool=st.sampled_from(["*", *NAMES]), action=st.sampled_from(RuleAction), force=st.booleans()
    ),
    max_size=2,
).map(tuple)
EFFECTS = st.sampled_from(
    [
        Effect.READ,
        Effect.WRITE,
        Effect.CREATE,
        Effect.SEND,
        Effect.BRING_IN | Effect.SEND,
        Effect.EXECUTE,
        Effect.ALL,
    ]
)
EVENTS = st.lists(
    st.sampled_from(
        [
            TextSeen(1.0, (Origin.WEB,)),
            TextSeen(1.0, (Origin.SECRET,)),
            Granted(1.0, Grant("g", "tool", None)),
            Granted(1.0, Grant("h", "shell", "git *")),
        ]
    ),
    max_size=3,
)


def strictness(action, session) -> int:
    """0 for what runs at once, 1 for what is asked about, 2 for what is refused."""
    session = narrowed(session, action)
    decision = judge(action, session)
    if decision.denial is not None:
        return 2
    return 1 if resolve_asks(decision.asks, action, session)[0] else 0


def through(action, frames):
    return replace(action, call=replace(action.call, through=frames))


@given(
    st.sampled_from(NAMES),
    ARGUMENTS,
    EFFECTS,
    RULES,
    EVENTS,
    FRAMES,
    st.sampled_from(Autonomy),
    st.sampled_from(Runs),
)
def test_what_a_sub_agent_may_do_whoever_started_it_may(
    make, name, arguments, effects, rules, events, frames, autonomy, rung
):
    spec = make.spec(name, effects, kinds={key: KINDS[key] for key in arguments})
    session = make.session(*events, rules=rules, autonomy=autonomy, sandbox=Sandboxing(rung=rung))
    action = make.action(spec, arguments)
    found = [strictness(through(action, frames[:depth]), session) for depth in range(len(frames) + 1)]
    assert found == sorted(found), (found, frames)


@pytest.mark.parametrize("autonomy", Autonomy)
def test_the_strictest_on_the_way_holds(make, autonomy):
    session = make.session(autonomy=Autonomy.FULL)
    action = make.action(make.spec("tool", Effect.WRITE, kinds={"path": Kind.PATH}), {"path": "a.txt"})
    frames = (AgentFrame("a", "c0", ("*",), autonomy), AgentFrame("b", "c1", ("*",), Autonomy.FULL))
    expected = {Autonomy.FULL: 0, Autonomy.SUPERVISED: 1, Autonomy.READONLY: 2}
    assert strictness(through(action, frames), session) == expected[autonomy]
    assert session.policy.autonomy is Autonomy.FULL


def denial(make, frames, name="tool"):
    action = through(make.action(make.spec(name), {}), frames)
    decision = judge(action, make.session())
    return decision.denial[1] if decision.denial is not None else None


def test_no_tool_beside_those_of_each_on_the_way(make):
    every, one = (
        AgentFrame("a", "c0", ("*",), Autonomy.FULL),
        AgentFrame("b", "c1", ("read*",), Autonomy.FULL),
    )
    assert denial(make, (every, one), "read_more") is None
    for frames in ((one,), (every, one), (one, every), (AgentFrame("c", "c2", (), Autonomy.FULL),)):
        refused = denial(make, frames, "write")
        assert isinstance(refused, Deny) and refused.rule == "agent"


def test_they_are_three_deep_at_most(make):
    frame = AgentFrame("a", "c0", ("*",), Autonomy.FULL)
    assert denial(make, (frame,) * 3) is None
    assert denial(make, (frame,) * 4).rule == "agent"


def test_what_follows_from_a_call_comes_through_the_same(make):
    from leeward.security.keep import keep_action  # noqa: PLC0415 - beside the one use

    frames = (AgentFrame("a", "c0", ("shell",), Autonomy.READONLY),)
    of = through(
        make.action(make.spec("shell", Effect.ALL, kinds={"command": Kind.COMMAND}), {"command": "x"}), frames
    )

    class Proposal:
        paths, repositories, digest = ("/ws/a",), (), "d"
        made, gone, changed, size, words = (), (), (), 0, frozenset()

        def __getattr__(self, name):
            return ()

    keep = keep_action(of, Proposal(), "")
    assert keep.call.tool == KEEP and keep.call.through == frames
    assert strictness(keep, make.session()) == 2


def test_who_it_came_through_is_on_record_and_judged_again_alike(make):
    frames = (
        AgentFrame("a", "c0", ("*",), Autonomy.FULL),
        AgentFrame("b", "c1", ("read", "grep"), Autonomy.READONLY),
    )
    session = make.session(autonomy=Autonomy.FULL)
    action = through(make.action(make.spec("tool", Effect.WRITE), {}), frames)
    decided = decided_event(session, action, judge(action, narrowed(session, action)), "")
    again = event_of(kind_of(decided), __import__("json").loads(body_of(decided)))
    assert again == decided and again.reading.through[1] == ("b", "c1", ("read", "grep"), "readonly")
    replayed = action_from_record(again, session.policy)
    assert replayed.call.through == frames
    assert strictness(replayed, session) == strictness(action, session)


def test_a_wrong_way_to_narrow_is_caught(make, planted):
    wrong = planted("through").narrowed
    frames = (AgentFrame("a", "c0", ("*",), Autonomy.READONLY), AgentFrame("b", "c1", ("*",), Autonomy.FULL))
    action = through(make.action(make.spec("tool", Effect.WRITE), {}), frames)
    session = make.session(autonomy=Autonomy.SUPERVISED)
    assert wrong(session, action).policy.autonomy is Autonomy.FULL
    assert narrowed(session, action).policy.autonomy is Autonomy.READONLY


@pytest.mark.parametrize("level", [Autonomy.READONLY, Autonomy.FULL])
def test_what_is_handed_out_with_a_decision_is_narrowed_too(make, level):
    """A secret and the network go by the strictest level on the way, like the decision itself."""
    secret = ScopedSecret("forge", ("forge.example",), ("forge",), False)
    sandbox = Sandboxing(level="bubblewrap", rung=Runs.TRIAL, allow_hosts=("pages.example",))
    session = make.session(autonomy=Autonomy.FULL, secrets=(secret,), sandbox=sandbox)
    spec = make.spec("shell", Effect.ALL, kinds={"command": Kind.COMMAND}, source=BUILT_IN)
    frames = (AgentFrame("a", "c0", ("*",), level),)
    for line in ("forge list", "make build"):
        action = through(make.action(spec, {"command": line}, held=session.policy), frames)
        decided = decided_event(session, action, Decision(()), "")
        wide = decided_event(session, through(action, ()), Decision(()), "")
        assert wide.hosts
        expected = (wide.lends, wide.hosts) if level is Autonomy.FULL else ((), ())
        assert (decided.lends, decided.hosts) == expected
