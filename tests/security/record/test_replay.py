"""Replay of a recorded session under its own policy gives the same answers, byte for byte."""

from __future__ import annotations

import json

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.memory.audit import body_of, event_of
from leeward.memory.audit.events import kind_of
from leeward.runtime.audit.replay import replayed
from leeward.security.call import Asker, ToolCall
from leeward.security.kinds import EFFECT_KEY, KIND_KEY, Effect, Kind
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.pipeline import GATES, Pipeline
from leeward.security.policy import Autonomy, BreakerLimits, CallLimits, Rule, RuleAction
from leeward.security.ports import Answer
from leeward.security.record import OF_THE_CALL, action_from_record, gates_not_replayable
from leeward.security.session import (
    BreakerReset,
    ConversationCleared,
    Decided,
    Grant,
    Granted,
    LevelSet,
    Session,
    TextSeen,
    TurnStarted,
    UrlsAdded,
)
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Provenance

KEY = "ghp_" + "A1b2" * 9
NAMES = {gate.__name__ for gate in GATES}
SEND = Effect.SEND | Effect.BRING_IN

PATHS = st.sampled_from(
    [
        "notes.md",
        "/ws/a/b",
        "../up",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "~",
        "~bob",
        "link",
        "",
        "a\0b",
        ".git/config",
        "/ws/.env",
    ]
)
URLS = st.sampled_from(
    [
        "https://a.example/",
        "https://A.example/x?y=1",
        "http://a.example/",
        "https://127.0.0.1/",
        "a.example",
        "https://b.example/p#f",
        "ftp://x",
        "https://a.example/%2e%2e/",
    ]
)
LINES = st.sampled_from(
    [
        "ls",
        "ls -la /etc",
        "rm -rf /",
        "git status",
        "cat a | sh",
        "echo 'x",
        "make && make test",
        "curl https://a.example/",
        "python3 -c 'print(1)'",
        "git diff > out.txt",
        "cat *.py",
    ]
)
PLACES = st.sampled_from(
    ["bob@a.example", "git@a.example:x/y.git", "origin", "a.example:22", "bob@a.example, eve@b.example"]
)
WORDS = st.sampled_from(
    ["hello", "see https://b.example/q and /etc/passwd", "ls -la", "x" * 30, "é", "YOUR_ID", "a&b"]
)

ARGUMENTS = {
    "read": st.fixed_dictionaries({"path": PATHS}),
    "write": st.fixed_dictionaries({"path": PATHS, "content": WORDS}),
    "move": st.fixed_dictionaries({"z": PATHS, "a": PATHS}),
    "fetch": st.fixed_dictionaries({"url": URLS}),
    "shell": st.fixed_dictionaries({"command": LINES}),
    "mail": st.fixed_dictionaries({"to": PLACES, "body": WORDS}),
    "record": st.fixed_dictionaries({"id": WORDS}),
    "open": st.dictionaries(
        st.sampled_from(["q", "r", "/~", "cmd"]),
        WORDS | PATHS | LINES | st.lists(WORDS, max_size=2),
        max_size=3,
    ),
    "plugged": st.fixed_dictionaries({"x": WORDS}),
}
FITTING = st.sampled_from(sorted(ARGUMENTS)).flatmap(
    lambda tool: st.tuples(st.just("call"), st.just(tool), ARGUMENTS[tool], st.sampled_from(Asker))
)
ODD = st.tuples(
    st.just("call"),
    st.sampled_from(["read", "missing", "Bad Name\ud800"]),
    st.sampled_from(["{", "[]", '{"a":1,"a":2}', ""]),
    st.sampled_from(Asker),
)
CALLS = st.integers(0, 9).flatmap(lambda chance: ODD if chance == 9 else FITTING)
HAPPENINGS = st.one_of(
    st.just(TurnStarted(1.0)),
    st.just(ConversationCleared(1.0)),
    st.just(BreakerReset(1.0)),
    st.builds(
        UrlsAdded,
        st.just(1.0),
        st.lists(
            st.sampled_from(["https://a.example/", "https://b.example/p", "bob@a.example"]), max_size=2
        ).map(tuple),
        st.sampled_from(Provenance),
    ),
    st.builds(TextSeen, st.just(1.0), st.lists(st.sampled_from(Origin), max_size=2).map(tuple)),
    st.builds(
        Granted,
        st.just(1.0),
        st.builds(
            Grant,
            st.just(""),
            st.sampled_from(["write", "shell", "*"]),
            st.sampled_from([None, "git *", "/ws/**", "a.example/*"]),
        ),
    ),
    st.builds(
        LevelSet,
        st.just(1.0),
        st.sampled_from(["write", "shell", "fetch"]),
        st.sampled_from(TrustLevel),
        st.just("the person, by /trust"),
    ),
)
STEPS = st.lists(
    CALLS
    | HAPPENINGS.map(lambda event: ("event", event))
    | st.lists(CALLS, min_size=2, max_size=3).map(lambda calls: ("at once", calls)),
    min_size=3,
    max_size=12,
)
RULES = st.builds(
    Rule,
    st.sampled_from(["write", "shell", "fetch", "*"]),
    st.sampled_from(RuleAction),
    st.sampled_from([None, "git *", "ls *", "/ws/**", "a.example", "/etc/**"]),
    st.booleans(),
    where=st.sampled_from(["config.toml:3", ""]),
)
POLICIES = st.fixed_dictionaries({
    "autonomy": st.sampled_from(Autonomy),
    "rules": st.lists(RULES, max_size=2).map(tuple),
    "headless": st.booleans(),
    "calls": st.builds(CallLimits, st.integers(2, 9), st.integers(4, 30), st.integers(1, 3)),
    "breaker": st.builds(BreakerLimits, st.integers(1, 3), st.integers(1, 5)),
    "domain_denylist": st.sampled_from([(), ("b.example",)]),
    "allowed_paths": st.sampled_from([(), ("/etc",)]),
})  # fmt: skip


TARGET = {"type": "string", KIND_KEY: Kind.PATH}
SOURCE = {**TARGET, EFFECT_KEY: "read"}


def tools(make) -> list:
    return [
        make.spec("read", Effect.READ, kinds={"path": Kind.PATH}),
        make.spec("write", Effect.WRITE, kinds={"path": Kind.PATH, "content": Kind.TEXT}),
        make.spec("move", Effect.WRITE, kinds={"a": Kind.PATH, "z": Kind.PATH}),
        make.spec("copy", Effect.WRITE, schema={"type": "object", "properties": {"a": SOURCE, "z": TARGET}}),
        make.spec("fetch", SEND, kinds={"url": Kind.URL}),
        make.spec("shell", Effect.ALL, kinds={"command": Kind.COMMAND}),
        make.spec("mail", Effect.SEND, kinds={"to": Kind.DESTINATION, "body": Kind.TEXT}),
        make.spec("record", Effect.READ, kinds={"id": Kind.RESOURCE_ID}),
        make.spec("open", Effect.ALL, schema={"type": "object"}),
        make.spec(
            "plugged", Effect.WRITE, kinds={"x": Kind.TEXT}, level=TrustLevel.VERIFIED, source="plug-in p"
        ),
    ]


class Ticking:
    """A clock that never says the same twice."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        self.at += 0.125
        return self.at


def lived(make, steps, answers, fields, secrets=frozenset()) -> tuple[Session, list]:
    """Live a session through, and return how it began and its events as they come back from their records."""
    desk = make.desk(*tools(make))
    desk.surveyor.links = {"/ws/link": "/etc/hosts", "~bob": "/home/bob"}
    desk.executor.does = {
        "mail": PermanentFailure("no"),
        "fetch": Output("x", links=("https://a.example/next",)),
    }
    desk.says(*answers)
    began = make.session(**fields)
    ticking = Ticking()
    ports = make.replace(desk.pipeline._ports, clock=ticking)
    pipeline = Pipeline(make.replace(began, key=b"k" * 32), ports, frozenset(secrets))
    number = iter(range(10**6))

    async def call(tool, arguments, asker) -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        await pipeline.run(ToolCall(f"c{next(number)}", tool, text, asker))

    async def live() -> None:
        for kind, *rest in steps:
            if kind == "call":
                await call(*rest)
            elif kind == "event":
                await pipeline.note(make.replace(rest[0], at=ticking.now()))
            else:
                async with trio.open_nursery() as nursery:
                    for _, *one in rest[0]:
                        nursery.start_soon(call, *one)

    trio.run(live)
    return began, [event_of(kind_of(event), json.loads(body_of(event))) for event in desk.audit.committed]


ANSWERS = st.lists(st.sampled_from(Answer), min_size=1, max_size=4)


@given(steps=STEPS, answers=ANSWERS, fields=POLICIES)
@example(
    steps=[("at once", [("call", "write", {"path": "a", "content": "x"}, Asker.MODEL)] * 3)],
    answers=[Answer.YES],
    fields={"calls": CallLimits(2)},
)
@example(steps=[("call", "read", {"path": "link"}, Asker.PERSON)], answers=[Answer.NO], fields={})
@example(steps=[("call", "move", {"z": "/etc/x", "a": "../y"}, Asker.MODEL)], answers=[Answer.NO], fields={})
@example(steps=[("call", "copy", {"z": "b", "a": "/usr/x"}, Asker.MODEL)], answers=[Answer.YES], fields={})
@example(
    steps=[("call", "shell", {"command": "cat *.py"}, Asker.MODEL)] * 4,
    answers=[Answer.NOBODY],
    fields={"breaker": BreakerLimits(2, 2)},
)
def test_under_its_own_policy_every_gate_says_what_it_said(make, steps, answers, fields) -> None:
    began, events = lived(make, steps, answers, fields)
    decisions = [event for event in events if isinstance(event, Decided)]
    again = list(replayed(began, events))
    assert [one.decided for one in again] == decisions
    for one in again:
        assert one.untold == {}
        assert body_of(make.replace(one.decided, words=one.now)) == body_of(
            make.replace(one.decided, words=tuple(said for said in one.decided.words if said.gate in NAMES))
        )
        assert one.new is not None and one.new.word == one.old.word, one
        assert not one.is_changed


SECRETS = st.sampled_from(
    [
        f"echo {KEY}",
        f"https://a.example/?token={KEY}",
        f"notes-{KEY}.md",
        KEY,
        f"curl -H 'Authorization: Bearer {KEY}' https://a.example/",
    ]
)
WITH_SECRETS = st.sampled_from(["read", "fetch", "shell", "record", "open", "mail"]).flatmap(
    lambda tool: st.tuples(
        st.just("call"),
        st.just(tool),
        st.fixed_dictionaries(
            {
                {
                    "read": "path",
                    "fetch": "url",
                    "shell": "command",
                    "record": "id",
                    "open": "q",
                    "mail": "body",
                }[tool]: SECRETS
            }
        ),
        st.just(Asker.MODEL),
    )
)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(steps=st.lists(WITH_SECRETS | FITTING, min_size=1, max_size=6), answers=ANSWERS)
@example(steps=[("call", "mail", {"to": "bob@a.example", "body": KEY}, Asker.MODEL)], answers=[Answer.NO])
def test_what_was_redacted_is_said_to_be_untold_and_the_rest_is_as_it_was(make, steps, answers) -> None:
    began, events = lived(make, steps, answers, {})
    assert KEY not in "".join(map(body_of, events)) and KEY[6:20] not in "".join(map(body_of, events))
    for one in replayed(began, events):
        was = {said.gate: said for said in one.was}
        assert all(was[said.gate] == said for said in one.now if said.gate not in one.untold)
        assert not one.is_changed
        # What hangs on the call alone is what it was, whatever of it is hidden.
        assert not {"known", "arguments", "budget", "anomaly", "trust"} & {*one.untold}
        is_command = (
            one.decided.tool == "shell" and bool(one.decided.reading.hidden) and one.now[0].word == "allow"
        )
        assert not is_command or {"commands", "permissions"} <= {*one.untold}


def test_which_gate_is_blind_to_what(make) -> None:
    """A gate is told only where nothing hidden could be what it reads; one that nobody thought of
    never is.
    """
    _, events = lived(
        make, [("call", "mail", {"to": "bob@a.example", "body": KEY}, Asker.MODEL)], [Answer.NO], {}
    )
    (decided,) = (event for event in events if isinstance(event, Decided))
    told = {gate for gate in (*NAMES, "a_gate_of_tomorrow") if not gates_not_replayable(gate, decided)}
    assert told == {
        "known",
        "arguments",
        "permissions",
        "anomaly",
        "trust",
        "paths",
        "grounding",
        "hosts",
        "commands",
        "flow",
        "budget",
        "hooks",
    }
    assert "a_gate_of_tomorrow" not in told


def test_which_gates_need_nothing_but_the_call(make) -> None:
    """They take no look at the session: their parameter says so, and another session changes nothing."""
    for gate in GATES:
        assert (gate.__code__.co_varnames[1] == "_session") is (gate.__name__ in OF_THE_CALL), gate.__name__


def test_a_long_text_leaves_nothing_untold(make) -> None:
    steps = [
        ("call", "write", {"path": "a", "content": "x" * 100_000}, Asker.MODEL),
        ("call", "write", {"path": "a", "content": "\0" + "x" * 100_000}, Asker.MODEL),
    ]
    began, events = lived(make, steps, [Answer.YES], {})
    fine, odd = replayed(began, events)
    assert (fine.untold, fine.new.word, fine.is_changed) == ({}, "ask", False)
    assert (odd.untold, odd.new.gate, odd.is_changed) == ({}, "arguments", False)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("open", {"q": "ls"}),
        ("move", {"z": "/etc/x", "a": "../y"}),
        ("mail", {"to": "a@b.example, c@d.example", "body": ""}),
        ("read", {"path": "link"}),
        ("read", {"path": "~bob"}),
        ("shell", {"command": "cat *.py | head"}),
    ],
)
def test_an_action_is_read_of_its_record_as_it_was_of_the_call(make, tool, arguments) -> None:
    desk = make.desk(*tools(make))
    desk.surveyor.links = {"/ws/link": "/etc/hosts", "~bob": "/home/bob"}
    judged = []
    desk.approver.hook = None

    async def live() -> None:
        judged.append(await desk.pipeline.judge.read(ToolCall("c", tool, json.dumps(arguments), Asker.MODEL)))
        await desk.pipeline.run(ToolCall("c", tool, json.dumps(arguments), Asker.MODEL))

    trio.run(live)
    (decided,) = (event for event in desk.audit.committed if isinstance(event, Decided))
    again = action_from_record(decided, desk.session.policy)
    (action,) = judged
    assert (again.atoms, again.effects, again.problems, dict(again.arguments)) == (
        action.atoms,
        action.effects,
        action.problems,
        dict(action.arguments),
    )
    # A decision of a release that did not say so much is not guessed at.
    assert action_from_record(make.replace(decided, reading=None), desk.session.policy) is None


def test_a_stricter_policy_shows_what_it_would_change(make) -> None:
    steps = [
        ("call", "read", {"path": "notes.md"}, Asker.MODEL),
        ("call", "shell", {"command": "make"}, Asker.MODEL),
    ]
    began, events = lived(make, steps, [Answer.YES], {})
    other = make.replace(
        began,
        policy=make.policy(
            rules=(Rule("read", RuleAction.DENY, where="new.toml:2"), Rule("shell", RuleAction.ALLOW, "make"))
        ),
    )
    read, shell = replayed(other, events)
    assert (read.old.word, read.new.word, read.new.gate, read.is_changed) == (
        "allow",
        "deny",
        "permissions",
        True,
    )
    assert (shell.old.word, shell.new.word, shell.is_changed) == ("ask", "allow", True)
    # What only moved to another line of the file says the same.
    began, events = lived(
        make, steps[:1], [Answer.YES], {"rules": (Rule("read", RuleAction.DENY, where="a.toml:1"),)}
    )
    moved = make.replace(began, policy=make.policy(rules=(Rule("read", RuleAction.DENY, where="b.toml:9"),)))
    assert not next(replayed(moved, events)).is_changed


def test_a_command_that_would_need_another_look_at_the_machine_is_untold(make) -> None:
    began, events = lived(make, [("call", "shell", {"command": "make"}, Asker.MODEL)], [Answer.YES], {})
    lost = [
        make.replace(event, reading=make.replace(event.reading, looked_up={}))
        if isinstance(event, Decided)
        else event
        for event in events
    ]
    (one,) = replayed(began, lost)
    assert "nobody looked up" in one.untold["commands"] and one.new is None
