"""A fork starts from its session at the end of a turn: later entries are missing, earlier reads are kept."""

from __future__ import annotations

import pytest

from leeward.runtime.exits import CliError, Exit
from leeward.runtime.providers.interface import TextDelta, Usage
from leeward.runtime.sessions import delete, find, fork
from leeward.security.call import Status
from leeward.security.kinds import Effect
from leeward.security.session import ConversationCleared, Grant, Granted, LevelSet, UrlsAdded
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Provenance
from leeward.tools.declare import Text, tool

PRICED = '[[cost.prices]]\nmodel = "says"\ninput = 1000.0\noutput = 0.0\n'


@tool(effects=Effect.READ)
async def look(word: Text = "") -> str:
    """Look."""
    return f"the token={word}"


@tool(effects=Effect.READ | Effect.BRING_IN)
async def page(word: Text = "") -> str:
    """Read a page."""
    return word


TOOLS = {"executors": [look, page]}
SAYS = [
    [("look", {"word": "hunter2hunter2"}), Usage(1000, 0)],
    "one",
    [TextDelta("two"), Usage(1000, 0)],
    [("page", {"word": "evil"})],
    "three",
]


async def three_turns(runtime) -> str:
    await runtime.turn("first, at https://one.example.com/")
    await runtime.turn("second, at https://two.example.com/")
    await runtime.pipeline.note(Granted(runtime.pipeline.session.now, Grant("g_1", "look", None)))
    await runtime.turn("third, at https://three.example.com/")
    return runtime.session_id


def known(runtime) -> list[str]:
    return [place.host.split(".")[0] for place, _ in runtime.pipeline.session.ledger.entries()]


async def forked(runtime, name: str, turn: int | None = None) -> str:
    return await fork(runtime.kept, await find(runtime.kept.catalog, name, ""), turn)


async def test_each_turn_can_be_gone_on_from(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, PRICED, SAYS, **TOOLS) as runtime:
        name = await three_turns(runtime)
        whole = runtime.pipeline.session
        for turn, hosts, labels, grants, tokens in (
            (1, ["one"], {Origin.WORKSPACE}, 0, 1000),
            (2, ["one", "two"], {Origin.WORKSPACE}, 1, 2000),
            (3, ["one", "two", "three"], whole.labels, 1, 2000),
        ):
            await runtime.resume(await forked(runtime, name, turn))
            session = runtime.pipeline.session
            assert (known(runtime), session.labels, len(session.grants)) == (hosts, labels, grants)
            assert runtime.talk.meter.session.input_tokens == tokens and runtime.conversation.turn == turn
            assert [m.text.split(",")[0] for m in runtime.conversation.messages if m.role == "user"] == [
                "first",
                "second",
                "third",
            ][:turn]
            assert session.id == runtime.session_id != name and session.root == name
            assert session.calls_this_session == (2 if turn == 3 else 1)
        assert whole.labels > {Origin.WORKSPACE}


async def test_it_goes_its_own_way_and_comes_back_with_both_pasts(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, PRICED, SAYS, **TOOLS) as runtime:
        name = await three_turns(runtime)
        await runtime.resume(await forked(runtime, name, 2))
        await runtime.turn("elsewhere, at https://four.example.com/")
        child = runtime.session_id
        await runtime.resume(await forked(runtime, child, 3))
        await runtime.turn("deeper, at https://five.example.com/")
        deepest, state = runtime.session_id, runtime.pipeline.session
        await runtime.resume(await forked(runtime, deepest, 1))
        assert known(runtime) == ["one"], "a turn of the first is found through all of them"
    async with sessions.session(tmp_path, PRICED, [], **TOOLS) as runtime:
        await runtime.resume(deepest)
        assert known(runtime) == ["one", "two", "four", "five"] and runtime.pipeline.session.root == name
        assert (runtime.pipeline.session.labels, set(runtime.pipeline.session.seen)) == (
            state.labels,
            set(state.seen),
        )
        await runtime.resume(name)
        assert known(runtime) == ["one", "two", "three"]


async def test_what_was_read_before_it_is_still_recognised_in_it(sessions, tmp_path) -> None:
    """Fingerprints are keyed: a fork that took its own id as the key would know none of them."""
    async with sessions.session(tmp_path, PRICED, SAYS, approver=None, **TOOLS) as runtime:
        name = await three_turns(runtime)
        for session in (name, await forked(runtime, name, 1)):
            if session != name:
                await runtime.resume(session)
            result = await runtime.call("fetch", {"url": "https://one.example.com/?t=hunter2hunter2"})
            assert result.outcome.status is Status.DENIED
            words = (await sessions.rows(runtime, "decision"))[-1].body["words"]
            assert any(
                "value" in str(word) or "carr" in str(word) or "leak" in str(word) for word in words
            ), words


async def test_grants_lapse_by_the_configuration_of_the_turn_it_is_forked_at(sessions, tmp_path) -> None:
    """Granted under A, gone on with under B: a fork from before B under B is not the A it was
    granted under.
    """
    async with sessions.session(tmp_path, "", ["one", "more"], **TOOLS) as runtime:
        await runtime.turn("hello")
        await runtime.pipeline.note(Granted(runtime.pipeline.session.now, Grant("g_1", "look", None)))
        await runtime.turn("on")
        name = runtime.session_id
    other = "[agent]\nmax_turns = 7\n"
    async with sessions.session(tmp_path, other, ["two"], **TOOLS) as runtime:
        await runtime.resume(name)
        await runtime.turn("again")
        await runtime.resume(await forked(runtime, name, 1))
        assert runtime.pipeline.session.grants == ()
    async with sessions.session(tmp_path, "", [], **TOOLS) as runtime:
        await runtime.resume(await forked(runtime, name, 1))
        assert [grant.id for grant in runtime.pipeline.session.grants] == ["g_1"], "and under A it is"


async def test_there_must_be_such_a_turn(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, "", ["one"]) as runtime:
        await runtime.turn("hello")
        for turn in (0, 2, -1):
            with pytest.raises(CliError, match="has turns 1 to 1") as refused:
                await forked(runtime, runtime.session_id, turn)
            assert refused.value.exit is Exit.NOT_FOUND
        assert len(await runtime.kept.catalog.sessions()) == 1


async def test_without_what_it_was_forked_from_it_stays_whole(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, "", ["one", "two"], **TOOLS) as runtime:
        await runtime.turn("first, at https://one.example.com/")
        name = runtime.session_id
        child = await forked(runtime, name)
        await runtime.new_session()
        await delete(runtime.kept, name)
        await runtime.resume(child)
        assert known(runtime) == ["one"] and len(runtime.conversation.messages) == 2


async def test_what_the_person_does_in_the_first_session_afterwards_says_nothing_of_the_fork(
    sessions, tmp_path
) -> None:
    async with sessions.session(tmp_path, PRICED, SAYS, **TOOLS) as runtime:
        await runtime.turn("first, at https://one.example.com/")
        first, before = runtime.session_id, runtime.pipeline.session
        new = await forked(runtime, first)
        # No turn begins meanwhile: only the time tells that this was later.
        now = runtime.pipeline.session.now + 1
        await runtime.pipeline.note(
            ConversationCleared(now),
            Granted(now, Grant("g_later", "look", None)),
            LevelSet(now, "page", TrustLevel.TRUSTED, "the person"),
        )
        await runtime.pipeline.note(
            UrlsAdded(now, ("https://later.example.com/",), Provenance.PERSON),
            LevelSet(now, "look", TrustLevel.BLOCKED, "failed"),
        )
        assert not runtime.pipeline.session.labels and known(runtime) == ["later"]
        await runtime.resume(new)
        session = runtime.pipeline.session
        assert (
            session.labels == before.labels == {Origin.WORKSPACE}
            and len(session.seen) == len(before.seen) > 0
        )
        assert (known(runtime), session.grants, session.level_of("page")) == (["one"], (), None)
        assert session.level_of("look") is not None, "a block holds, whenever it came"
