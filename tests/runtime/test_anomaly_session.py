"""A tool that keeps failing is visibly blocked until the person lifts the block."""

from __future__ import annotations

import warnings
from itertools import count

import pytest
import trio

from leeward.runtime.events import Alert
from leeward.security.call import Asker
from leeward.security.kinds import Effect
from leeward.security.outcome import NetworkError, PermanentFailure
from leeward.security.ports import Answer
from leeward.security.session import BreakerReset
from leeward.security.session.anomaly import Breaker
from leeward.security.trust import TrustLevel
from leeward.tools.declare import Text, tool

FAILS = [True]


@tool(effects=Effect.READ)
async def moody(word: Text = "") -> str:
    """Fails while it is in the mood."""
    if FAILS[0]:
        raise PermanentFailure(f"not now: {word}")
    return word


@tool(effects=Effect.READ, timeout=0.01)
async def slow(word: Text = "") -> str:
    """Takes too long."""
    await trio.sleep_forever()
    return word


TRIES = count()


@tool(effects=Effect.READ, idempotent=True)
async def outage(word: Text = "") -> str:
    """Cannot be reached, and tells it in other words each time."""
    raise NetworkError(f"not reached in {next(TRIES)} ms")


@tool(effects=Effect.WRITE)
async def change(word: Text = "") -> str:
    """Change something."""
    return word


async def statuses(runtime, name: str, times: int, start: int = 0) -> list[str]:
    found = []
    for number in range(start, start + times):
        result = await runtime.call(name, {"word": str(number)})
        found.append(result.outcome.status.value)
    return found


def alerts(runtime) -> list[str]:
    return [event.message for event in runtime.heard if isinstance(event, Alert)]


async def test_blocked_told_recorded_and_lifted(sessions, tmp_path):
    FAILS[0] = True
    says = [[("moody", {"word": str(n)})] for n in range(6)]
    async with sessions.session(tmp_path, says=says, executors=[moody]) as runtime:
        ended = await runtime.turn("go")
        assert (ended.calls, ended.refused) == (6, 1)
        cause = "anomaly window: 5 of 5 failed; /trust moody LEVEL lifts it"
        assert alerts(runtime) == [f"critical: moody: {cause}"]
        (block,) = await sessions.rows(runtime, "block")
        assert (block.tool, block.body["cause"]) == ("moody", cause)
        assert runtime.pipeline.session.level_of("moody") == (TrustLevel.BLOCKED, cause)
        assert cause in runtime.provider.seen()[-1]
        # The refusals because of the block are not counted: the window is as it was.
        assert runtime.pipeline.session.anomaly.failures("moody") == (5, 5)

        FAILS[0] = False
        await runtime.set_trust("moody", TrustLevel.TRUSTED)
        assert runtime.pipeline.session.anomaly.failures("moody") == (0, 0)
        assert await statuses(runtime, "moody", 3, start=10) == ["ok"] * 3
        FAILS[0] = True
        assert await statuses(runtime, "moody", 9, start=20) == ["error"] * 7 + ["denied"] * 2
        assert len(alerts(runtime)) == 2 and "7 of 10 failed" in alerts(runtime)[1]


async def test_fourteen_of_twenty(sessions, tmp_path):
    """Below the share nothing happens, however many fail; old outcomes fall out of the window."""
    async with sessions.session(tmp_path, says=[], executors=[moody]) as runtime:
        for number in range(40):
            FAILS[0] = number % 5 in {1, 2, 3}
            assert await statuses(runtime, "moody", 1, start=number) == ["error" if FAILS[0] else "ok"]
        FAILS[0] = True
        assert await statuses(runtime, "moody", 7, start=50) == ["error"] * 5 + ["denied"] * 2
        assert "14 of 20 failed" in alerts(runtime)[0]


async def test_timeouts_and_denials_count(sessions, tmp_path):
    async with sessions.session(tmp_path, says=[], executors=[slow]) as runtime:
        assert await statuses(runtime, "slow", 3) == ["timeout"] * 3
        for number in range(2):
            await runtime.call("slow", {"wrong": number})
        assert runtime.pipeline.session.level_of("slow")[0] is TrustLevel.BLOCKED
        assert await statuses(runtime, "slow", 1, start=9) == ["denied"]


async def test_auto_block_off_only_tells(sessions, tmp_path):
    FAILS[0] = True
    async with sessions.session(
        tmp_path, "[tools.anomaly]\nauto_block = false", says=[], executors=[moody]
    ) as runtime:
        assert await statuses(runtime, "moody", 8) == ["error"] * 8
        assert alerts(runtime) == [
            "critical: moody: anomaly window: 5 of 5 failed; /trust moody LEVEL lifts it"
        ]
        assert await sessions.rows(runtime, "block") == []


async def test_off_is_off_and_says_so(sessions, tmp_path):
    FAILS[0] = True
    async with sessions.session(
        tmp_path, "[tools.anomaly]\nenabled = false", says=[], executors=[moody]
    ) as runtime:
        assert await statuses(runtime, "moody", 8) == ["error"] * 8
        row = (await sessions.rows(runtime, "decision"))[-1]
        assert {"gate": "anomaly", "word": "allow", "rule": "off"} in row.body["words"]


async def test_a_programs_own_exit_code_is_a_success(sessions, tmp_path):
    rule = '[[permissions.rules]]\ntool = "shell"\nmatch = "*"\naction = "allow"\n'
    async with sessions.session(tmp_path, rule, says=[]) as runtime:
        for number in range(1, 7):
            result = await runtime.call("shell", {"command": f"sh -c 'exit {number}'"})
            assert (result.outcome.status, result.outcome.exit_code) == ("ok", number)
        result = await runtime.call("shell", {"command": "no-such-program-anywhere"})
        assert result.outcome.status == "error"
        assert runtime.pipeline.session.anomaly.failures("shell") == (1, 7)


async def test_no_and_nobody_and_cancelled_are_not_counted(sessions, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    person = sessions.Answers(Answer.NO)
    async with sessions.session(
        tmp_path / "a", says=[], executors=[change, slow], approver=person
    ) as runtime:
        assert await statuses(runtime, "change", 7) == ["denied"] * 7
        for _ in range(6):
            with trio.CancelScope() as scope:
                scope.cancel()
                await runtime.call("slow", {})
            assert scope.cancelled_caught
        session = runtime.pipeline.session
        assert session.anomaly.failures("change") == session.anomaly.failures("slow") == (0, 0)
        assert not session.breaker.tripped
    async with sessions.session(tmp_path / "b", says=[], executors=[change]) as runtime:
        assert await statuses(runtime, "change", 7) == ["denied"] * 7
        assert runtime.pipeline.session.anomaly.failures("change") == (0, 0)
        assert alerts(runtime) == []


async def test_the_block_is_the_sessions_and_clear_keeps_it(sessions, tmp_path):
    FAILS[0] = True
    async with sessions.session(tmp_path, says=[], executors=[moody]) as runtime:
        await statuses(runtime, "moody", 5)
        await runtime.clear()
        assert await statuses(runtime, "moody", 1) == ["denied"]
        await runtime.new_session()
        assert await statuses(runtime, "moody", 1) == ["error"]


async def test_the_breaker_asks_a_person_about_every_effect(sessions, tmp_path):
    person = sessions.Answers(Answer.YES)
    rule = '[[permissions.rules]]\ntool = "change"\naction = "allow"\n'
    async with sessions.session(
        tmp_path, rule, says=[], executors=[change, moody], approver=person
    ) as runtime:
        assert await statuses(runtime, "change", 1) == ["ok"] and person.questions == []
        for number in range(3):
            await runtime.call("nonsense", {"x": number})
        assert runtime.pipeline.session.breaker.tripped
        assert await statuses(runtime, "change", 1, start=5) == ["ok"]
        (question,) = person.questions
        assert [(gate, ask.force) for gate, ask in question.asks] == [
            ("anomaly", True)
        ] and question.always is None
        FAILS[0] = False
        assert await statuses(runtime, "moody", 1) == ["ok"] and len(person.questions) == 1
        await runtime.pipeline.note(BreakerReset(runtime.pipeline.session.now))
        assert await statuses(runtime, "change", 1, start=7) == ["ok"] and len(person.questions) == 1


async def test_a_yes_lifts_the_breaker_and_a_new_row_trips_it_again(sessions, tmp_path):
    person = sessions.Answers(Answer.YES)
    rule = '[[permissions.rules]]\ntool = "change"\naction = "allow"\n'
    async with sessions.session(tmp_path, rule, says=[], executors=[change], approver=person) as runtime:
        for asked in (1, 2):
            for number in range(3):
                await runtime.call("nonsense", {"x": number})
            assert await statuses(runtime, "change", 3, start=asked * 10) == ["ok"] * 3
            assert len(person.questions) == asked


async def test_what_the_person_asked_for_counts_neither_for_nor_against_anything(sessions, tmp_path):
    FAILS[0] = True
    async with sessions.session(tmp_path, says=[], executors=[moody]) as runtime:
        for number in range(9):
            failed = await runtime.call("moody", {"word": str(number)}, Asker.PERSON)
            refused = await runtime.call("read", {"path": "~/.ssh/id_rsa"}, Asker.PERSON)
            assert (failed.outcome.status, refused.outcome.status) == ("error", "denied")
        session = runtime.pipeline.session
        assert session.anomaly.windows == {} and session.breaker == Breaker() and session.typed == frozenset()
        assert await statuses(runtime, "moody", 6) == ["error"] * 5 + ["denied"]


@pytest.mark.parametrize("configured", [True, False])
async def test_a_block_is_counted_when_it_comes_and_its_refusals_are_not(sessions, tmp_path, configured):
    settings = '[security.trust]\nmoody = "blocked"\n' if configured else ""
    async with sessions.session(tmp_path, settings, says=[], executors=[moody]) as runtime:
        if not configured:
            await runtime.set_trust("moody", TrustLevel.BLOCKED)
        assert await statuses(runtime, "moody", 9) == ["denied"] * 9
        session = runtime.pipeline.session
        assert session.anomaly.failures("moody") == (0, 0) and session.breaker == Breaker()


async def test_a_page_that_is_down_is_one_failure_and_blocks_nothing(sessions, tmp_path):
    asked = [[("outage", {"word": "same"})] for _ in range(6)]
    settings = "[tools.retry]\nfirst_wait = 0\nlongest_wait = 0\n"
    async with sessions.session(tmp_path, settings, says=[*asked, "done"], executors=[outage]) as runtime:
        ended = await runtime.turn("go")
        assert (ended.calls, ended.refused) == (18, 0)
        assert runtime.pipeline.session.anomaly.told("outage") == "1 of 1 failed"


async def test_a_listener_that_fails_stops_nothing(sessions, tmp_path, recwarn):
    FAILS[0] = True

    def broken(event):
        raise BrokenPipeError("the terminal is gone")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        async with sessions.session(
            tmp_path, says=[[("moody", {})] * 2, "done"], executors=[moody], listener=broken
        ) as runtime:
            ended = await runtime.turn("go")
            assert (ended.text, ended.calls, ended.refused) == ("done", 2, 0)
            assert await statuses(runtime, "moody", 4) == ["error"] * 3 + ["denied"]
