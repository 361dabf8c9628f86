"""The tools behind the real gates. Nothing is configured: the fixtures come with Leeward."""

from __future__ import annotations

from leeward_tides import tide_log, tide_page, tide_times

from leeward.testing import Answer, TrustLevel

PAGE = "https://tides.example.com/DE-HUS"


async def test_reading_asks_nobody(tool_bench) -> None:
    bench = tool_bench(tide_times, level=TrustLevel.VERIFIED)
    assert (await bench.call("tide_times", {"port": "DE-HUS"})).shown == "01:12, 13:38"
    assert bench.questions == []


async def test_a_code_that_is_none_never_gets_there(tool_bench) -> None:
    bench = tool_bench(tide_times)
    assert (await bench.call("tide_times", {"port": "../etc"})).outcome.gate == "arguments"
    failed = await bench.call("tide_times", {"port": "XX-XXX"})
    assert "there are DE-HUS, DK-ESB" in str(failed.error)


async def test_writing_is_asked_about(tool_bench, leeward_workspace) -> None:
    bench = tool_bench(tide_log, level=TrustLevel.VERIFIED, answers=[Answer.NO, Answer.YES])
    line = {"path": "tides.log", "line": "high water 13:38"}
    assert (await bench.call("tide_log", line)).outcome.status == "denied"
    assert not (leeward_workspace / "tides.log").exists()
    assert (await bench.call("tide_log", line)).shown == f"added to {leeward_workspace / 'tides.log'}"
    assert (leeward_workspace / "tides.log").read_text() == "high water 13:38\n"
    assert len(bench.questions) == 2


async def test_a_page_that_nobody_gave_is_not_opened(tool_bench) -> None:
    bench = tool_bench(tide_page)
    assert (await bench.call("tide_page", {"page": PAGE})).outcome.gate == "grounding"
    await bench.say(f"which station is {PAGE}?")
    assert (await bench.call("tide_page", {"page": PAGE})).shown == "the station DE-HUS"


async def test_installed_is_not_enabled(leeward_session) -> None:
    async with leeward_session() as at:
        assert at.runtime.tools.spec("tide_times") is None


async def test_a_whole_turn_with_the_plugin_enabled(leeward_session) -> None:
    calls = [("tide_times", {"port": "DE-HUS"}), ("tide_log", {"path": "a.log", "line": "x"})]
    config = {"tools.plugins": ["tides"]}
    async with leeward_session(says=[calls, "noted"], answers=[Answer.NO], config=config) as at:
        spec = at.runtime.tools.spec("tide_log")
        assert (spec.level, spec.source) == (TrustLevel.VERIFIED, "plug-in tides")
        assert (await at.turn("note the tide of DE-HUS in a.log")).text == "noted"
        await at.assert_allowed("tide_times")
        await at.assert_denied("tide_log")
        assert [question.action.call.tool for question in at.person.questions] == ["tide_log"]
        assert "01:12" in at.model.results[0]
        assert not (at.workspace / "a.log").exists()
