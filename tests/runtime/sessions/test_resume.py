"""Resume: messages, reads, URLs and grants come back, or lapse as they must."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from leeward.memory.sessions import Line
from leeward.runtime.app import Runtime
from leeward.runtime.config import load
from leeward.runtime.events import Alert, EndReason
from leeward.runtime.exits import CliError, Exit
from leeward.runtime.providers.interface import TextDelta, Usage
from leeward.security.call import Status
from leeward.security.kinds import Effect
from leeward.security.ports import Answer, RecordError
from leeward.security.session import ConversationCleared, Grant, Granted, LevelSet, Session, TextSeen
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Provenance
from leeward.tools.declare import Text, tool

PRICED = '[[cost.prices]]\nmodel = "says"\ninput = 1000.0\noutput = 2000.0\n'


@tool(effects=Effect.READ)
async def moody(word: Text = "") -> str:
    """Fail when told to."""
    if word == "fail":
        raise RuntimeError("no")
    return f"seen {word}"


@tool(effects=Effect.WRITE)
async def act(word: Text = "") -> str:
    """Do something."""
    return f"did {word}"


TOOLS = {"executors": [moody, act]}


def state(session: Session, *without: str) -> dict[str, object]:
    """All that a gate may see of the past, but for the time."""
    fields = {
        name: getattr(session, name)
        for name in session.__dataclass_fields__
        if name not in {"now", "secrets", "policy", *without}
    }
    return fields | {"ledger": session.ledger.entries(), "seen": set(session.seen)}


def alerts(runtime) -> list[str]:
    return [event.message for event in runtime.heard if isinstance(event, Alert)]


async def test_everything_comes_back(sessions, tmp_path) -> None:
    says = [
        [("moody", {"word": "key=hunter2hunter2"}), Usage(10, 5)],
        "first answer",
        [("moody", {"word": "fail"})],
        "sorry",
        [("act", {"word": "x"})],
        "done",
    ]
    async with sessions.session(
        tmp_path, PRICED, says, approver=sessions.Answers(Answer.ALWAYS), **TOOLS
    ) as runtime:
        await runtime.turn("look at https://docs.example.com/a and moody")
        await runtime.give("https://slash.example.com/", Provenance.SLASH)
        await runtime.set_trust("moody", TrustLevel.VERIFIED)
        await runtime.turn("again")
        await runtime.turn("act now")
        before, spent, messages = (
            runtime.pipeline.session,
            runtime.talk.meter.session,
            list(runtime.conversation.messages),
        )
        name = runtime.session_id
    assert before.grants and before.labels and before.seen and before.anomaly.windows and before.levels
    async with sessions.session(
        tmp_path, PRICED, ["and on"], approver=sessions.Answers(Answer.NO), **TOOLS
    ) as runtime:
        left = await runtime.resume()
        assert runtime.session_id == name and left.conversation.title.startswith("look at https")
        assert state(runtime.pipeline.session) == state(before)
        assert runtime.talk.meter.session == spent and spent.cost > 0
        assert [(m.role, m.text, m.calls, m.call_id) for m in runtime.conversation.messages] == [
            (m.role, m.text, m.calls, m.call_id) for m in messages
        ]
        assert (await runtime.turn("go on")).reason is EndReason.DONE
        assert [m.text for m in runtime.provider.requests[0].messages if m.role == "user"] == [
            "look at https://docs.example.com/a and moody",
            "again",
            "act now",
            "go on",
        ]
        assert alerts(runtime) == []
        entries = await runtime.transcript.entries(name)
        assert [entry.place for entry in entries] == list(range(1, len(entries) + 1))
        assert [entry.turn for entry in entries if entry.role == "user"] == [1, 2, 3, 4]


async def test_what_was_given_and_granted_still_decides(sessions, tmp_path) -> None:
    async with sessions.web(tmp_path, {"/a": "hello"}) as web:
        url = web.url("/a")
        async with sessions.session(
            tmp_path, web.config, ["ok"], resolve=web.resolve, approver=sessions.Answers(Answer.NO), **TOOLS
        ) as runtime:
            await runtime.turn(f"remember {url}")
            await runtime.pipeline.note(Granted(1.0, Grant("g_1", "act", None)))
        says = [[("act", {"word": "y"}), ("fetch", {"url": url})], "done"]
        async with sessions.session(
            tmp_path, web.config, says, resolve=web.resolve, approver=sessions.Answers(Answer.NO), **TOOLS
        ) as runtime:
            assert (await runtime.call("fetch", {"url": url})).outcome.status is Status.DENIED, (
                "a new session knows nothing"
            )
            await runtime.resume()
            ended = await runtime.turn("now read it, and act")
            assert (ended.calls, ended.refused) == (2, 0)
            assert "hello" in runtime.provider.seen()[1]


CHANGES = {"configuration": ("[agent]\nmax_turns = 7\n", ""), "workspace": ("", "elsewhere")}


@pytest.mark.parametrize("change", CHANGES)
async def test_elsewhere_what_was_allowed_lapses_and_what_was_read_does_not(
    sessions, tmp_path, change
) -> None:
    config = '[security.pre_execution_verify.url_grounding]\nurls = ["https://configured.example.com/"]\n'
    async with sessions.session(tmp_path, config, ["ok"], **TOOLS) as runtime:
        await runtime.turn("look at https://docs.example.com/a")
        await runtime.set_trust("moody", TrustLevel.TRUSTED)
        now = runtime.pipeline.session.now
        await runtime.pipeline.note(
            Granted(now, Grant("g_1", "act", None)),
            TextSeen(now, (Origin.WEB,)),
            LevelSet(now, "act", TrustLevel.BLOCKED, "anomaly window"),
        )
        name = runtime.session_id
    more, folder = CHANGES[change]
    if folder:
        home = sessions.places(tmp_path)
        moved = replace(home, workspace=tmp_path / folder)
        moved.workspace.mkdir()
        options = {"places": moved}
    else:
        options, config = {}, more
    async with resumable(sessions, tmp_path, config, options) as runtime:
        await runtime.resume(name)
        session = runtime.pipeline.session
        assert session.grants == () and session.labels == {Origin.WEB}
        assert session.level_of("act") == (TrustLevel.BLOCKED, "anomaly window")
        assert session.capped == {"moody", "act"}
        known = [known.text for known, _ in session.ledger.entries()]
        assert known == ["https://docs.example.com/a"] + (
            ["https://configured.example.com/"] if folder else []
        )
        assert any("no longer counts" in told for told in alerts(runtime))
    async with resumable(sessions, tmp_path, config, options) as runtime:
        await runtime.resume(name)
        assert runtime.pipeline.session.grants == (), "what has lapsed stays so"
        assert not any("no longer counts" in told for told in alerts(runtime))


def resumable(sessions, tmp_path, config, options):
    where = options.get("places") or sessions.places(tmp_path.resolve())
    (where.config / "config.toml").write_text(config)

    @asynccontextmanager
    async def opened():
        heard = []
        async with Runtime.open(
            load(config_dir=where.config, environment={}),
            places=where,
            provider=sessions.Says("ok"),
            listener=heard.append,
            **TOOLS,
        ) as runtime:
            runtime.heard = heard
            yield runtime

    return opened()


async def test_back_under_the_first_configuration_lapsed_grants_stay_away(sessions, tmp_path) -> None:
    """Under A, then B, then A again: the grant of the first A was taken back by the B in between."""
    async with sessions.session(tmp_path, "", ["ok"], **TOOLS) as runtime:
        await runtime.turn("hello")
        await runtime.pipeline.note(Granted(runtime.pipeline.session.now, Grant("g_1", "act", None)))
    async with sessions.session(tmp_path, "[agent]\nmax_turns = 7\n", ["ok"], **TOOLS) as runtime:
        await runtime.resume()
    async with sessions.session(tmp_path, "", ["ok"], **TOOLS) as runtime:
        await runtime.resume()
        assert runtime.pipeline.session.grants == ()


async def test_what_was_forgotten_stays_forgotten(sessions, tmp_path) -> None:
    async with sessions.session(
        tmp_path, "", [[("moody", {"word": "plan"})], "one", "two"], **TOOLS
    ) as runtime:
        await runtime.turn("the plan is at https://plan.example.com/")
        await runtime.clear()
        await runtime.turn("something else")
    async with sessions.session(tmp_path, "", ["on"], **TOOLS) as runtime:
        await runtime.resume()
        assert [m.text for m in runtime.conversation.messages] == ["something else", "two"]
        assert (
            runtime.pipeline.session.ledger.entries() == () and runtime.pipeline.session.labels == frozenset()
        )
        assert runtime.conversation.turn == 2
        assert len(await runtime.transcript.entries(runtime.session_id)) == 7, "the store keeps all of it"


async def test_what_cannot_be_kept_as_forgotten_is_not_forgotten_in_the_record_either(
    sessions, tmp_path
) -> None:
    """Else the words would come back without their labels."""
    async with sessions.session(tmp_path, "", [[("moody", {"word": "x"})], "one"], **TOOLS) as runtime:
        await runtime.turn("hello")
        labels = runtime.pipeline.session.labels
        add, runtime.transcript.add = runtime.transcript.add, failing
        with pytest.raises(Exception, match="could not"):
            await runtime.clear()
        assert runtime.pipeline.session.labels == labels and runtime.conversation.messages == []
        runtime.transcript.add = add
        await runtime.clear()
        assert runtime.pipeline.session.labels == frozenset()


def failing(*_):
    raise RecordError("no room")


async def test_words_come_back_with_their_labels_where_the_record_of_those_was_lost(
    sessions, tmp_path
) -> None:
    async with sessions.session(tmp_path, "", [[("moody", {"word": "x"})], "one"], **TOOLS) as runtime:
        await runtime.turn("hello")
        await runtime.pipeline.note(ConversationCleared(runtime.pipeline.session.now))
    async with sessions.session(tmp_path, "", [], **TOOLS) as runtime:
        await runtime.resume()
        assert runtime.pipeline.session.labels == {Origin.WORKSPACE}


async def test_the_limit_of_cost_is_that_of_the_whole_session(sessions, tmp_path) -> None:
    config = f"[cost]\nmax_session = 5.0\n{PRICED}"
    async with sessions.session(tmp_path, config, [[TextDelta("one"), Usage(6000, 0)]]) as runtime:
        await runtime.turn("go")
    async with sessions.session(tmp_path, config, ["never"]) as runtime:
        await runtime.resume()
        assert (await runtime.turn("again")).reason is EndReason.COST and runtime.provider.requests == []


async def test_a_session_is_open_once(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, "", ["one"]) as first:
        await first.turn("hello")
        async with sessions.session(tmp_path, "", ["two"]) as second:
            was = second.session_id
            for name in ("", first.session_id):
                with pytest.raises(CliError, match="is open already, by process") as refused:
                    await second.resume(name)
                assert (refused.value.exit, refused.value.code) == (Exit.PRECONDITION, "SESSION_IN_USE")
            assert second.session_id == was, "the session before goes on"
            await first.new_session()
            assert (await second.resume()).conversation.title == "hello"
            assert (await second.turn("again")).text == "two"


async def test_there_must_be_one(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, "", ["one"]) as runtime:
        for name in ("", "s_none", "%"):
            with pytest.raises(CliError) as refused:
                await runtime.resume(name)
            assert refused.value.exit is Exit.NOT_FOUND
        await runtime.turn("hello")
        with pytest.raises(CliError, match="no session to resume"):
            await runtime.resume()


async def test_one_whose_records_were_cut_is_not_gone_on_with(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, "", ["one"]) as runtime:
        await runtime.turn("hello")
        name = runtime.session_id
        await runtime.new_session()
        await runtime.transcript.start("s_orphan", "/w")
        await runtime.transcript.append("s_orphan", Line(1, 1, "user", {"text": "x"}, Origin.PERSON))
        with pytest.raises(CliError, match="was cut") as refused:
            await runtime.resume("s_orphan")
        assert refused.value.exit is Exit.PRECONDITION
        await runtime.resume(name)
