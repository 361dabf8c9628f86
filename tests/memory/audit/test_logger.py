"""The audit log: every event is read back unchanged, and listings stay fast."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from functools import reduce

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.audit import KINDS, AuditLogger, body_of, event_of, verify
from leeward.memory.audit import rows as records
from leeward.memory.audit import signer as notary
from leeward.memory.audit.events import kind_of
from leeward.memory.audit.unfinished import UNFINISHED
from leeward.memory.database import Database, RecordRow, chain
from leeward.security.call import Status
from leeward.security.outcome import Category
from leeward.security.policy import Autonomy, Policy
from leeward.security.ports import Audit, RecordError
from leeward.security.session import (
    ActionRecord,
    Asked,
    AtomRecord,
    AutonomySet,
    BreakerReset,
    Configured,
    ConversationCleared,
    Decided,
    Egress,
    Event,
    FilesEndorsed,
    Finished,
    GateVerdict,
    Grant,
    Granted,
    JobChanged,
    LevelSet,
    ModelSet,
    RefusedAnswer,
    Restored,
    Resumed,
    Revoked,
    Scope,
    ServerAsked,
    Session,
    SkillUsed,
    TextSeen,
    TurnStarted,
    UrlsAdded,
    UrlsRemoved,
    Use,
    WordsGiven,
    apply_events,
)
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Provenance

DECIDED = Decided(
    at=2.5,
    call="call_1",
    tool="shell",
    digest="d" * 64,
    allowed=False,
    gate="paths",
    rule="protected",
    code="PERMISSION_DENIED",
    reason="no",
    category=Category.POLICY_BLOCKED,
    arguments='{"command":"ls"}',
    words=(
        GateVerdict("known", "allow"),
        GateVerdict("paths", "deny", "protected", "no", "", "a.txt", facts=(("path", "/etc/passwd"),)),
    ),
    approver="",
    judged=2.0,
    waited=0.5,
    asker="model",
    model="offline",
    labels=(Origin.WEB,),
    trust="verified",
    trust_from="plug-in x",
    always=(("shell", "ls", "/w/sub", None), ("keep", "a", None, "make *")),
    reading=ActionRecord(
        ("read",),
        ("read", "execute"),
        "verified",
        "plug-in x",
        (AtomRecord("command", "/command", "ls"), AtomRecord("path", "/p", "/w/a", "/w/b", declared=False)),
        {"programs": {"ls": "/usr/bin/ls"}, "matches": {"/w/*": None}},
        (("/x", "is missing", "invalid_parameters"),),
        ("/secret",),
        "list_directory",
    ),
)
FINISHED = Finished(
    3.0,
    "call_1",
    "shell",
    "d" * 64,
    Status.ERROR,
    Category.TIMEOUT,
    1,
    "r" * 64,
    12,
    "of_" + "0" * 32,
    0.5,
    "slow",
)
EGRESS = Egress(
    at=3.0,
    call="call_1",
    tool="fetch",
    hop=2,
    url="https://a.example/",
    allowed=True,
    gate="grounding",
    rule="person",
    ended=True,
    method="GET",
    address="192.0.2.1",
    http_status=200,
    sent=120,
    received=4096,
    seconds=0.25,
    problem="cut off",
)
EXAMPLES: tuple[tuple[Event, str], ...] = (
    (TurnStarted(1.0), "turn"),
    (UrlsAdded(1.0, ("https://a.example/", "https://b.example/x"), Provenance.SLASH), "given"),
    (UrlsAdded(1.0, (), Provenance.PERSON), "given"),
    (UrlsRemoved(1.0, ("https://a.example/",)), "withdrawn"),
    (ConversationCleared(1.0), "forgot"),
    (TextSeen(1.0, (Origin.WEB, Origin.SECRET)), "read"),
    (TextSeen(1.0, (), ("06ab",), "AAAAAAI=", Origin.WEB, "find", "call_1"), "read"),
    (WordsGiven(1.0, "AAAAAAI=", "AAAAAAQ=", "", own=True), "words"),
    (Decided(1.0, "c", "t", "d", True, use=Use("AAAAAAI=", ("ab",), ("cd",), executes=True)), "decision"),
    (Decided(1.0, "c", "t", "d", True, use=Use(executes=True)), "decision"),
    (Asked(1.0, "call_1", "shell", "d", (("commands", "run it?"),)), "approval"),
    (DECIDED, "decision"),
    (Decided(1.0, "c", "t", "d", True), "decision"),
    (FINISHED, "outcome"),
    (LevelSet(1.0, "shell", TrustLevel.BLOCKED, "anomaly window: 14 of 20 failed"), "block"),
    (LevelSet(1.0, "shell", TrustLevel.VERIFIED, "/trust"), "trust"),
    (Granted(1.0, Grant("", "shell", None)), "grant"),
    (Granted(1.0, Grant("", "shell", "git *")), "grant"),
    (Granted(1.0, Grant("g_1", "shell", "git *", Scope.WORKSPACE, 9.5), "/ws", "call_1"), "grant"),
    (Granted(1.0, Grant("g_1", "shell", "git *", Scope.EVERYWHERE), stored=True), "grant"),
    (Revoked(1.0, "g_1"), "revocation"),
    (Decided(1.0, "c", "t", "d", True, approver="grant: allow t", grants=("g_1", "g_2")), "decision"),
    (BreakerReset(1.0), "reset"),
    (Resumed(1.0, True), "resumed"),
    (Revoked(1.0, "g_1"), "revocation"),
    (ModelSet(1.0, "a:b", "the person, by /model"), "model"),
    (AutonomySet(1.0, Autonomy.READONLY, "the person, by /autonomy"), "autonomy"),
    (Configured(1.0, "d", ("/c.toml",), (("agent.max_turns", "c.toml:2"),), off=("grounding",)), "config"),
    (Egress(1.0, "call_1", "fetch", 0, "https://a.example/", True), "egress"),
    (EGRESS, "egress"),
    (JobChanged(1.0, "call_1", "job_1", "running"), "job"),
    (JobChanged(2.0, "call_1", "job_1", "failed", 137, 1.5, 12, "of_1", "ended by signal 9"), "job"),
    (SkillUsed(1.0, "review", "d", (("shell", "git *"), ("read", None))), "skill"),
    (SkillUsed(1.0, ""), "skill"),
    (ServerAsked(1.0, "c", "notes", "values", "Which?", "yes", "key y"), "server_asked"),
    (RefusedAnswer(1.0, "c", "replayed", "d", "by ann"), "refused_answer"),
    (RefusedAnswer(1.0, None, "unknown"), "refused_answer"),
    (FilesEndorsed(1.0, ("notes.md", ""), "the person's commit"), "endorsement"),
    (Restored(1.0, "call_1", 3, "undo", 2), "snapshot"),
    (Restored(1.0, "call_1", 3, "redo", 2, done=True, left=1, forced=True), "snapshot"),
)

_time = st.floats(0, 1e10)
_text = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["", "\ud800", "\0", "'", "é"]
)
_few = st.sampled_from(["a", "b"])
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TurnStarted, at=_time),
    st.builds(UrlsAdded, at=_time, urls=st.lists(_text, max_size=3).map(tuple)),
    st.builds(ConversationCleared, at=_time),
    st.builds(TextSeen, at=_time, labels=st.lists(st.sampled_from(Origin), max_size=3).map(tuple)),
    st.builds(
        Asked,
        at=_time,
        call=_few,
        tool=_few,
        digest=_few,
        questions=st.lists(st.tuples(_text, _text), max_size=2).map(tuple),
    ),
    st.builds(
        Decided,
        at=_time,
        call=_few,
        tool=_few,
        digest=_few,
        arguments=_text,
        reason=_text,
        approver=_few | st.just(""),
        words=st.lists(
            st.builds(GateVerdict, gate=_text, word=_text, rule=_text, force=st.booleans()), max_size=2
        ).map(tuple),
        reading=st.none() | st.builds(ActionRecord, declared=st.none() | st.just(("read",)), source=_text),
    ),
    st.builds(
        Finished, at=_time, call=_few, tool=_few, digest=_few, result=_few, seconds=_time, detail=_text
    ),
    st.builds(LevelSet, at=_time, tool=_few, cause=_text),
    st.builds(
        Granted,
        at=_time,
        grant=st.builds(
            Grant,
            id=_few,
            tool=_few,
            match=st.none() | _text,
            scope=st.sampled_from(Scope),
            until=st.none() | _time,
            folder=st.none() | _text,
        ),
        workspace=st.none() | _text,
        call=st.none() | _few,
        stored=st.booleans(),
    ),
    st.builds(Revoked, at=_time, id=_few),
    st.builds(BreakerReset, at=_time),
)
START = Session("s", Policy("/w", "/h"))


@pytest.fixture
def audit(database: Database, clock) -> AuditLogger:
    return AuditLogger(database, clock)


def fold(events: list[Event]) -> Session:
    return reduce(apply_events, events, START)


@pytest.mark.parametrize(("event", "kind"), EXAMPLES)
def test_an_event_comes_back_from_its_record(event: Event, kind: str) -> None:
    assert kind_of(event) == kind
    assert event_of(kind, json.loads(body_of(event))) == event


def test_the_fields_of_a_grant_stand_beside_those_of_its_event() -> None:
    event = Granted(1.0, Grant("g_1", "shell", "git *", Scope.WORKSPACE, 9.5, "/ws/a"), "/ws", "call_1")
    assert body_of(event) == (
        '{"at":1.0,"call":"call_1","command":null,"effect":"","files":null,"folder":"/ws/a","id":"g_1",'
        '"mark":0,"match":"git *","scope":"workspace","stored":false,"tool":"shell",'
        '"until":9.5,"workspace":"/ws"}'
    )


def test_every_kind_and_every_event_is_covered() -> None:
    assert {kind for _, kind in EXAMPLES} == set(KINDS)
    assert set(KINDS.values()) == set(Event.__args__)


@given(EVENTS)
@example(TurnStarted(0.1 + 0.2))
@example(Finished(0.0, "a", "b", "d", Status.OK, result="\ud800\U0001f600\0"))
def test_any_event_comes_back_from_its_record(event: Event) -> None:
    body = body_of(event)
    assert body.isascii()
    again = event_of(kind_of(event), json.loads(body))
    assert again == event
    assert type(again) is type(event)
    assert body_of(again) == body


@given(st.lists(EVENTS, max_size=30))
def test_a_session_is_the_fold_over_its_records(events: list[Event]) -> None:
    again = [event_of(kind_of(event), json.loads(body_of(event))) for event in events]
    assert fold(again) == fold(events)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("decision", {"at": 1.0}),
        ("turn", {"at": 1.0, "later": 2}),
        ("outcome", {**json.loads(body_of(FINISHED)), "status": "fine"}),
        ("trust", {"at": 1.0, "tool": "t", "level": 9, "cause": ""}),
        ("session", {"workspace": "/w"}),
        ("given", {"at": 1.0, "urls": None, "provenance": "person"}),
        ("forgot", [["at", 1.0]]),
        ("forgot", 1.0),
    ],
)
def test_what_is_no_event_is_not_taken_for_one(kind: str, body: dict) -> None:
    with pytest.raises(ValueError):
        event_of(kind, body)


async def test_a_session_is_read_back_from_the_file(audit: AuditLogger) -> None:
    port: Audit = audit
    events = [event for event, _ in EXAMPLES]
    await audit.start_session("s", "/w", "c0ffee", {"autonomy": "full"})
    await port.append("s", *events[:5])
    await port.append("other", TurnStarted(9.0))
    await port.append("s", *events[5:])
    await port.append("s")
    assert await audit.events_of("s") == events
    assert fold(await audit.events_of("s")) == fold(events)
    assert await audit.events_of("nobody") == []


async def test_the_history_of_a_session_leads_where_its_events_do(audit: AuditLogger) -> None:
    events = [event for event, _ in EXAMPLES]
    await audit.append("s", *events)
    history = list(await audit.history_of("s"))
    assert list(map(type, history)) == list(map(type, events))
    for number in range(len(events) + 1):
        assert fold(history[:number]) == fold(events[:number])
    (decided,) = (event for event in history if isinstance(event, Decided) and event.call == DECIDED.call)
    assert decided == replace(DECIDED, words=(), reading=None, always=()) != DECIDED


@given(st.lists(EVENTS, max_size=12), st.integers(0, 12))
def test_events_may_be_folded_one_by_one_or_together(events: list[Event], cut: int) -> None:
    then = apply_events(START, *events[:cut])
    start_was, then_was = replace(START), replace(then)
    assert apply_events(then, *events[cut:]) == reduce(apply_events, events, START)
    assert (START, then) == (start_was, then_was), "a session that somebody holds never changes"


async def test_records_stand_in_the_order_of_the_calls(audit: AuditLogger) -> None:
    async with trio.open_nursery() as nursery:
        order: list[float] = []

        async def caller(number: float) -> None:
            order.append(number)
            await audit.append("s", TurnStarted(number), TurnStarted(number + 0.5))

        for number in range(30):
            nursery.start_soon(caller, number)
    assert [event.at for event in await audit.events_of("s")] == [
        at + half for at in order for half in (0, 0.5)
    ]


async def test_a_record_says_what_it_is_about(audit: AuditLogger, clock) -> None:
    await audit.start_session("s", "/w", "c0ffee", {"autonomy": "full"})
    await audit.append("s", DECIDED, FINISHED, ConversationCleared(4.0))
    start, decided, finished, forgot = await audit.list_records()
    assert (start.kind, start.at, start.call, start.tool) == ("session", clock.time, None, None)
    assert start.body == {"workspace": "/w", "config_hash": "c0ffee", "autonomy": "full"}
    assert (decided.kind, decided.at, decided.session, decided.call, decided.tool) == (
        "decision",
        2.5,
        "s",
        "call_1",
        "shell",
    )
    assert [word["word"] for word in decided.body["words"]] == ["allow", "deny"]
    assert (finished.kind, finished.body["category"], forgot.call) == ("outcome", "timeout", None)
    assert start.seq < decided.seq < finished.seq < forgot.seq
    with pytest.raises(TypeError):
        decided.body["allowed"] = True


async def test_listing_narrows(audit: AuditLogger) -> None:
    for session in ("a", "b"):
        await audit.append(session, *(TurnStarted(float(number)) for number in range(5)))
        await audit.append(session, ConversationCleared(5.0))

    async def listed(*args, **kwargs) -> list[tuple[str, str, float]]:
        return [
            (record.session, record.kind, record.at) for record in await audit.list_records(*args, **kwargs)
        ]

    assert len(await listed()) == 12
    assert await listed("a", 2) == [("a", "turn", 4.0), ("a", "forgot", 5.0)]
    assert await listed(kinds=["forgot"]) == [("a", "forgot", 5.0), ("b", "forgot", 5.0)]
    assert await listed("b", since=4.0) == [("b", "turn", 4.0), ("b", "forgot", 5.0)]
    assert await listed("b", 1, kinds=["turn", "grant"], since=1.0) == [("b", "turn", 4.0)]
    assert await listed(None, 3, kinds=["turn", "forgot"]) == await listed(None, 3)
    assert await listed(None, 2, kinds=["turn", "grant"]) == [("b", "turn", 3.0), ("b", "turn", 4.0)]
    assert await listed(kinds=["turn", "turn"], since=4.0) == [("a", "turn", 4.0), ("b", "turn", 4.0)]
    last = (await audit.list_records("a"))[-2]
    assert await listed("a", after=last.seq) == [("a", "forgot", 5.0)]
    assert (
        await listed(kinds=[]) == await listed("c") == await listed(limit=0) == await listed(limit=-1) == []
    )


async def test_showing_a_call_takes_the_beginning_of_its_id(audit: AuditLogger) -> None:
    for call in ("call_1", "call_10", "call_2", "call%", "Call_1", "\ud800x"):
        await audit.append("s", Decided(1.0, call, "t", "d", True), Finished(2.0, call, "t", "d", Status.OK))
    await audit.append("s", TurnStarted(3.0))

    async def shown(call: str) -> list[str | None]:
        return [record.call for record in await audit.show(call)]

    assert await shown("call_1") == ["call_1"] * 2, "an exact id is not a prefix"
    assert await shown("call_") == ["call_1"] * 2 + ["call_10"] * 2 + ["call_2"] * 2
    assert await shown("call%") == ["call%"] * 2
    assert await shown("\ud800") == ["\\ud800x"] * 2
    assert await shown("call_3") == await shown("") == await shown("' OR 1 --") == []


async def test_what_is_appended_again_for_want_of_certainty_stands_there_once(
    audit: AuditLogger, database: Database
) -> None:
    """A caller whose patience ends while the disk is slow, and who makes sure later."""
    events = [ConversationCleared(1.0), TurnStarted(2.0), TurnStarted(2.0)]
    gate = threading.Event()
    database._writer.connection.start(lambda _: gate.wait())
    try:
        with trio.move_on_after(0.01) as scope:
            await audit.append("s", *events)
    finally:
        gate.set()
    assert scope.cancelled_caught
    await audit.append("s", *events, BreakerReset(3.0))
    assert await audit.events_of("s") == [*events, BreakerReset(3.0)]
    await audit.append("s", events[0])
    assert len(await audit.events_of("s")) == 5, "what is known to be there may happen again"
    assert len({name for (name,) in await database.read("SELECT id FROM audit")}) == 5


async def test_what_was_given_up_and_then_could_not_be_written_gets_in_when_it_is_appended_again(
    audit: AuditLogger, database: Database
) -> None:
    event = TurnStarted(1.0)
    gate = threading.Event()
    database._writer.connection.start(lambda _: gate.wait())
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        try:
            with trio.move_on_after(0.01):
                await audit.append("s", event)
            other.execute("BEGIN IMMEDIATE")
        finally:
            gate.set()
        with pytest.raises(RecordError, match="locked"):
            await audit.append("s", ConversationCleared(2.0))
        other.execute("ROLLBACK")
    await audit.append("s", event, ConversationCleared(2.0))
    assert await audit.events_of("s") == [event, ConversationCleared(2.0)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
async def test_what_json_cannot_say_is_refused_in_words(audit: AuditLogger, bad: float) -> None:
    with pytest.raises(RecordError, match="cannot be written as JSON"):
        await audit.append("s", TurnStarted(1.0), TurnStarted(bad))
    with pytest.raises(RecordError, match="cannot be written as JSON"):
        await audit.start_session("s", "/w", "", {"limit": bad})
    assert await audit.list_records() == []


@pytest.mark.parametrize("kind", ["turn", "decision"])
@pytest.mark.parametrize(
    "body",
    ["{not json", "", '{"at": 1.0},{"at": 2.0}', '{"at":1.0} x', "[" * 100_000, '["at", 1.0]', "null"],
)
async def test_a_damaged_record_is_told(audit: AuditLogger, database: Database, kind: str, body: str) -> None:
    await database.write(drafts=[RecordRow(1.0, "s", kind, None, None, body, "x")])
    with pytest.raises(RecordError, match="the audit of session 's' cannot be read back"):
        await audit.events_of("s")
    with pytest.raises(RecordError, match="cannot be read back|could not be read"):
        list(await audit.history_of("s"))


async def test_a_second_program_reads_while_one_writes(
    audit: AuditLogger, database: Database, asyncio_thread, clock
) -> None:
    async with Database.open(database.path, asyncio_thread) as other:
        reader = AuditLogger(other, clock)
        for number in range(1, 6):
            await audit.append("s", TurnStarted(float(number)))
            assert len(await reader.list_records("s")) == number


async def test_every_query_finds_its_rows_by_an_index(audit: AuditLogger, database: Database) -> None:
    listing = records.listing

    async def plan(sql: str, values) -> str:
        return "; ".join(row[-1] for row in await database.read(f"EXPLAIN QUERY PLAN {sql}", values))

    session = "SEARCH audit USING INDEX audit_by_session (session=?"
    kind = "SEARCH audit USING COVERING INDEX audit_by_kind (kind=?"
    for (sql, values), expected in (
        (listing("s", 10), f"{session})"),
        (listing("s", 10, kinds=["turn"]), f"{session})"),
        (listing("s", 10, since=1.0), f"{session} AND rowid>?)"),
        (listing("s", 10, after=5), f"{session} AND rowid>?)"),
        (listing(None, 10, after=5), "SEARCH audit USING INTEGER PRIMARY KEY (rowid>?)"),
        (listing(None, 10, since=1.0), "SEARCH audit USING INTEGER PRIMARY KEY (rowid>?)"),
        (listing(None, 10, since=1.0), "SEARCH audit USING COVERING INDEX audit_by_time (at>?)"),
        (listing(None, 10, kinds=["egress", "block"]), f"{kind})"),
        (listing(None, 10, kinds=["egress"], after=5), f"{kind} AND rowid>?)"),
        ((records.EVENTS, ("s",)), f"{session})"),
        ((records.FOLDED, ("s",)), f"{session})"),
        ((records.OF_CALL, ("c",)), "SEARCH audit USING INDEX audit_by_call (call=?)"),
        ((records.OF_PREFIX, ("c",)), "SEARCH audit USING INDEX audit_by_call (call>? AND call<?)"),
        ((UNFINISHED, ("s",)), "SEARCH decided USING INDEX audit_by_session (session=?)"),
        ((UNFINISHED, ("s",)), "SEARCH ended USING INDEX audit_by_call (call=? AND rowid>?)"),
        ((notary._HEADS, (1.0, 3)), "SEARCH audit USING INDEX audit_by_kind (kind=?)"),
        ((notary._IS_HEAD, (3,)), "SEARCH audit USING INTEGER PRIMARY KEY (rowid=?)"),
        ((notary._COUNT, (3,)), "SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)"),
        ((verify._PAGE, (3, 10)), "SEARCH audit USING INTEGER PRIMARY KEY (rowid>?)"),
    ):
        steps = await plan(sql, values)
        assert expected in steps
        assert "SCAN audit" not in steps
        # Sorted are only the calls whose ids begin alike, and the few newest of each kind.
        assert "TEMP B-TREE" not in steps or sql == records.OF_PREFIX or "json_each" in sql
    # Without a condition the table itself is walked from its end, and no further than the limit.
    assert await plan(*listing(None, 10)) == await plan(chain._TIP, ()) == "SCAN audit"
