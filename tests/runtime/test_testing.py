"""`leeward.testing`: the real gates, a folder, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from leeward import Cleared, Effect, Output, PermanentFailure, Text, TrustLevel, Url, WorkspacePath, tool
from leeward.security.call import Asker, Status
from leeward.security.outcome import Category
from leeward.security.session import Decided, Finished
from leeward.testing import Answer, Autonomy, FakeWeb, ToolBench, open_session
from leeward.tools.composite import NameClash


@tool(effects=Effect.READ)
async def count_lines(path: WorkspacePath, cleared: Cleared) -> Output:
    """Count the lines of a file."""
    await cleared.emit(f"counting {Path(path).name}\n")
    try:
        return Output(str(len(Path(path).read_text().splitlines())))
    except OSError as error:
        raise PermanentFailure(f"{path} cannot be read: {error.strerror}") from error


@tool(effects=Effect.WRITE)
async def note(words: Text) -> str:
    """Note something."""
    return f"noted {words}"


@tool(effects=Effect.SEND | Effect.BRING_IN)
async def weather(page: Url) -> str:
    """Tell the weather."""
    return f"clear, says {page}"


@tool(effects=Effect.READ, timeout=1)
async def endless(words: Text = "") -> str:
    """Never end."""
    await trio.sleep_forever()
    return words


@pytest.fixture
def bench(tmp_path):
    def made(*answers, **options) -> ToolBench:
        (tmp_path / "ws").mkdir(exist_ok=True)
        (tmp_path / "ws" / "notes.md").write_text("one\ntwo\n")
        (tmp_path / "outside.md").write_text("elsewhere\n")
        return ToolBench(
            count_lines, note, weather, endless, workspace=tmp_path / "ws", answers=answers, **options
        )

    return made


OUTSIDE = object()
TABLE = [
    ("count_lines", {"path": "notes.md"}, (), (Status.OK, None, "2")),
    ("count_lines", {"path": "missing.md"}, (), (Status.ERROR, None, "missing.md cannot be read")),
    ("count_lines", {"path": OUTSIDE}, (Answer.NO,), (Status.DENIED, "paths", "")),
    ("count_lines", {"path": OUTSIDE}, (Answer.YES,), (Status.OK, None, "1")),
    ("count_lines", {"path": "../outside.md"}, (), (Status.DENIED, "arguments", "")),
    ("count_lines", {"path": 7}, (), (Status.DENIED, "known", "")),
    ("count_lines", "{", (), (Status.DENIED, "known", "")),
    ("cuont_lines", {}, (), (Status.DENIED, "known", "count_lines")),
    ("note", {"words": "x"}, (), (Status.DENIED, "permissions", "")),
    ("note", {"words": "x"}, (Answer.YES,), (Status.OK, None, "noted x")),
    (
        "weather",
        {"page": "https://weather.example.com/now"},
        (),
        (Status.DENIED, "grounding", "not provided by the user"),
    ),
]


@pytest.mark.parametrize(("name", "arguments", "answers", "wanted"), TABLE)
async def test_a_call_ends_as_it_would_in_the_product(
    bench, tmp_path, name, arguments, answers, wanted
) -> None:
    at = bench(*answers)
    if isinstance(arguments, dict):
        arguments = {
            key: str(tmp_path / "outside.md") if value is OUTSIDE else value
            for key, value in arguments.items()
        }
    result = await at.call(name, arguments)
    status, gate, said = wanted
    assert (result.outcome.status, result.outcome.gate) == (status, gate), result
    assert said in result.shown + json.dumps(dict(result.error or {}), default=str)
    (decided,) = [event for event in at.record if isinstance(event, Decided)]
    assert decided.allowed == (status is not Status.DENIED)
    assert [event for event in at.record if isinstance(event, Finished)] or status is Status.DENIED
    assert len(at.questions) >= len(answers)


async def test_what_the_person_says_grounds_urls_and_begins_a_turn(bench) -> None:
    at = bench()
    await at.say("how is it there? https://weather.example.com/now")
    assert (
        await at.call("weather", {"page": "https://weather.example.com/now"})
    ).shown == "clear, says https://weather.example.com/now"
    assert (
        await at.call("weather", {"page": "https://weather.example.com/then"})
    ).outcome.gate == "grounding"


async def test_rules_trust_and_autonomy_are_those_of_the_product(bench) -> None:
    assert (await bench(allow=[("note", None)]).call("note", {"words": "x"})).outcome.status is Status.OK
    assert (await bench(autonomy=Autonomy.FULL).call("note", {"words": "x"})).outcome.status is Status.OK
    assert (
        await bench(Answer.YES, autonomy=Autonomy.READONLY).call("note", {"words": "x"})
    ).outcome.status is Status.DENIED
    assert (
        await bench(Answer.YES, level=TrustLevel.QUARANTINED).call("note", {"words": "x"})
    ).outcome.gate == "trust"
    at = bench(level=TrustLevel.VERIFIED)
    await at.say("https://weather.example.com/now")
    assert (
        await at.call("weather", {"page": "https://weather.example.com/now"})
    ).outcome.status is Status.DENIED


async def test_what_is_shown_is_screened_and_what_is_long_is_kept(bench) -> None:
    at = bench(*[Answer.YES] * 2)
    assert (await at.call("note", {"words": "\N{BULLET}"})).text.startswith("«UNTRUSTED:")
    long = await at.call("note", {"words": "word " * 20_000}, Asker.PERSON)
    assert at.kept[long.overflow_id] == "noted " + "word " * 20_000
    assert len(long.shown) < 60_000
    await at.call("count_lines", {"path": "notes.md"})
    assert "".join(at.live) == "counting notes.md\n"


async def test_what_is_emitted_as_the_output_is_kept_as_it_came(tmp_path) -> None:
    @tool(effects=Effect.READ)
    async def count(cleared: Cleared) -> Output:
        """Count aloud."""
        for number in range(20_000):
            await cleared.emit(f"{number}\n")
        return Output("", emitted=True)

    at = ToolBench(count, workspace=tmp_path)
    result = await at.call("count", {})
    assert (
        at.kept[result.overflow_id] == "".join(at.live) == "".join(f"{number}\n" for number in range(20_000))
    )


async def test_a_tool_that_hangs_is_ended_and_one_that_keeps_failing_blocked(bench, autojump_clock) -> None:
    at = bench()
    ended = [await at.call("endless", {"words": str(number)}) for number in range(6)]
    assert [result.outcome.category for result in ended[:5]] == [Category.TIMEOUT] * 5
    assert ended[5].outcome.gate == "anomaly"
    assert "endless" in at.alerts[0]


def test_names_that_clash_are_told(tmp_path) -> None:
    with pytest.raises(NameClash):
        ToolBench(note, note, workspace=tmp_path)


async def test_a_whole_session_is_scripted_and_on_record(tmp_path) -> None:
    says = [[("note", {"words": "x"}), ("note", {"words": "y"})], "noted one"]
    async with open_session(tmp_path, note, says=says, answers=[Answer.YES, Answer.NO]) as at:
        assert (await at.turn("note x and y")).text == "noted one"
        assert "noted x" in at.model.results[0] and "person said no" in at.model.results[1]
        assert [decided.allowed for decided in await at.decisions("note")] == [True, False]
        await at.assert_denied("note")
        with pytest.raises(AssertionError, match="note was denied by permissions"):
            await at.assert_allowed("note")
        with pytest.raises(AssertionError, match="not grounding"):
            await at.assert_denied("note", by="grounding")
        with pytest.raises(AssertionError, match="peek was never called; known: .*note"):
            await at.assert_denied("peek")
        assert (await at.call("note", {"words": "z"})).outcome.status is Status.DENIED, "no answer is left"
        assert len(at.person.questions) == 3
        await at.call("read", {"path": "nothing.md"})
        with pytest.raises(AssertionError, match="allowed by ''"):
            await at.assert_allowed("read", by="the person")
        with pytest.raises(AssertionError, match="read was allowed"):
            await at.assert_denied("read")
        assert (await at.turn("more")).text == "(script ended)"


async def test_the_web_of_a_test_is_judged_like_any_and_reaches_no_network(tmp_path, monkeypatch) -> None:
    async def dialled(*_):
        raise AssertionError("a connection left the process")

    monkeypatch.setattr(trio, "open_tcp_stream", dialled)
    monkeypatch.setattr(trio.socket, "getaddrinfo", dialled)
    pages = {"https://docs.example.com/a": "the ferry", "http://docs.example.com/b": "<p>a page</p>"}
    async with open_session(tmp_path, pages=pages) as at:
        await at.turn(
            "see https://docs.example.com/a, https://docs.example.com/c and https://other.example.com/"
        )
        at.web.addresses["inside.example.com"] = "10.0.0.1"
        await at.turn("and https://inside.example.com/")
        assert "the ferry" in (await at.call("fetch", {"url": "https://docs.example.com/a"})).shown
        assert "404" in (await at.call("fetch", {"url": "https://docs.example.com/c"})).shown
        failed = await at.call("fetch", {"url": "https://other.example.com/"})
        assert "no page of this test" in json.dumps(dict(failed.error))
        blocked = await at.call("fetch", {"url": "https://inside.example.com/"})
        assert blocked.outcome.category is Category.POLICY_BLOCKED and "10.0.0.1" in json.dumps(
            dict(blocked.error)
        )
        assert (await at.call("fetch", {"url": "https://ungiven.example.com/"})).outcome.gate == "grounding"
        assert at.web.asked == ["https://docs.example.com/a", "https://docs.example.com/c"]
        assert at.web.resolved.count("other.example.com") >= 1
    with pytest.raises(ValueError, match="not a url"):
        FakeWeb({"not a url": ""})


async def test_the_fixtures_are_there_without_configuration(
    tool_bench, leeward_session, leeward_workspace
) -> None:
    (leeward_workspace / "notes.md").write_text("one\n")
    assert (await tool_bench(count_lines).call("count_lines", {"path": "notes.md"})).shown == "1"
    async with leeward_session(count_lines) as at:
        assert at.workspace == leeward_workspace
        assert (await at.call("count_lines", {"path": "notes.md"})).outcome.status is Status.OK


ASYNC_TESTS = """
import asyncio, pytest, trio
from sniffio import current_async_library

async def test_ours(tool_bench):
    assert current_async_library() == "trio"

async def test_nobodys():
    assert False, "never runs"

@pytest.mark.asyncio
async def test_anothers(tool_bench):
    assert False, "never runs"
"""


def test_the_plugin_runs_its_own_async_tests_only(tmp_path) -> None:
    (tmp_path / "test_these.py").write_text(ASYNC_TESTS)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:trio", "-p", "no:anyio", "-p", "no:cacheprovider"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in done.stdout and "2 failed" in done.stdout, done.stdout
    assert "never runs" not in done.stdout.partition("short test summary")[2]


def test_pytest_starts_without_loading_what_no_test_needs(tmp_path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import sys\ndef test():\n    assert not {'pydantic', 'trio', 'leeward.testing'} & {*sys.modules}\n"
    )
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:trio",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:anyio",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
