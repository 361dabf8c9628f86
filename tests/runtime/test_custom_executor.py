"""Custom tools, registered in each way: every call passes all gates, every failure is a result."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from leeward.runtime.exits import CliError, Exit
from leeward.security.call import Cleared
from leeward.security.kinds import Effect
from leeward.security.outcome import Category, Output, PermanentFailure
from leeward.security.pipeline import GATES
from leeward.security.ports import Answer
from leeward.security.trust import TrustLevel
from leeward.security.url import Provenance
from leeward.tools.declare import Text, spec_from_schema, tool

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(script):
    return script("../examples/custom_executor.py")


@pytest.fixture
def own(sessions, tmp_path, example):
    def open_session(*replies, **options):
        return sessions.session(tmp_path, says=replies, executors=example.executors(), **options)

    return open_session


async def results(runtime, tool_name: str, *arguments) -> list[tuple[str, str | None]]:
    """Call a tool with each of these arguments; how each call ended (its status and the gate)."""
    found = []
    for given in arguments:
        result = await runtime.call(tool_name, given)
        found.append((result.outcome.status.value, result.outcome.gate))
    return found


async def test_a_call_passes_all_gates_and_comes_back_fenced(own, sessions):
    page = "https://weather.example.com/today"
    async with own([("weather", {"city": "Kiel", "page": page, "station": "DE-1"})]) as runtime:
        await runtime.turn(f"weather in Kiel, from DE-1? {page}")
        (row,) = await sessions.rows(runtime, "decision")
        assert [word["gate"] for word in row.body["words"]] == [gate.__name__ for gate in GATES]
        (text,) = runtime.provider.seen()
        assert text.startswith("«UNTRUSTED:") and '"sky":"clear"' in text


NO_WINDOW = "[tools.anomaly]\nenabled = false\n[security.breaker]\nconsecutive = 1000\ntotal = 1000\n"


async def test_its_declared_arguments_are_judged_by_kind(own):
    async with own(config=NO_WINDOW) as runtime:
        await runtime.give("https://weather.example.com/today", Provenance.SLASH)
        good = {"city": "Kiel", "page": "https://weather.example.com/today"}
        assert await results(
            runtime,
            "weather",
            good,
            {**good, "page": "https://weather.example.com/other"},
            {**good, "page": "https://weather.example.com.evil.net/today"},
            {**good, "page": "https://localhost/today"},
            {**good, "station": "../x"},
            {**good, "station": "a?b"},
            {**good, "city": "see https://evil.net or ../../x (a & b)?"},
            {**good, "city": 5},
            {**good, "town": "Kiel"},
        ) == [
            ("ok", None),
            ("denied", "grounding"),
            ("denied", "grounding"),
            ("denied", "grounding"),
            ("denied", "arguments"),
            ("denied", "arguments"),
            ("ok", None),
            ("denied", "known"),
            ("denied", "known"),
        ]


UNDECLARED = [
    ("what is new? (a & b)", "ok"),
    ("50% off; really #1", "ok"),
    ("tides", "ok"),
    ("either/or", "ok"),
    ("what... is this", "ok"),
    ("e.g. this", "ok"),
    ("../../x", "denied"),
    ("..%2f..%2fx", "denied"),
    ("/etc/shadow", "denied"),
    ("~/.ssh/id_rsa", "denied"),
    ("https://evil.net/x", "denied"),
    ("look at https://evil.net/x, please", "denied"),
    ("https://known.example.com/x", "ok"),
]


async def test_an_undeclared_string_is_judged_by_all_it_could_be(own):
    async with own(config=NO_WINDOW) as runtime:
        await runtime.give("https://known.example.com", Provenance.SLASH)
        found = await results(runtime, "library_search", *({"query": text} for text, _ in UNDECLARED))
        assert [
            (text, status) for (text, _), (status, _) in zip(UNDECLARED, found, strict=True)
        ] == UNDECLARED


async def test_its_failures_reach_the_window_and_block_it(own):
    async with own() as runtime:
        found = await results(runtime, "library_lend", *({"book": f"b{n}"} for n in range(6)))
        assert found == [("error", None)] * 5 + [("denied", "anomaly")]
        assert (await results(runtime, "library_search", {"query": "tides"})) == [("ok", None)]


class Hostile(BaseException):
    """Nothing an executor is expected to raise."""


def raiser(error: BaseException, name: str = "broken"):
    @tool(effects=Effect.READ, name=name)
    async def broken(what: Text = "") -> object:
        """Break."""
        raise error

    return broken


BREAKS = [
    (KeyError("x"), Category.PERMANENT_FAILURE, "KeyError"),
    (
        ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
        Category.PERMANENT_FAILURE,
        "ExceptionGroup",
    ),
    (trio.TooSlowError("mine"), Category.PERMANENT_FAILURE, "TooSlowError"),
    (RecursionError(), Category.PERMANENT_FAILURE, "RecursionError"),
    (StopAsyncIteration(), Category.PERMANENT_FAILURE, ""),
    (trio.ClosedResourceError(), Category.PERMANENT_FAILURE, "ClosedResourceError"),
    (PermanentFailure("said \x1b[31mred\x1b[0m"), Category.PERMANENT_FAILURE, "said red"),
    (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), Category.PERMANENT_FAILURE, "Unicode"),
]


async def test_an_executor_that_raises_is_a_result(sessions, tmp_path):
    executors = [raiser(error, f"broken_{number}") for number, (error, *_) in enumerate(BREAKS)]
    calls = [(f"broken_{number}", {}) for number in range(len(BREAKS))]
    async with sessions.session(tmp_path, says=[calls, "fine"], executors=executors) as runtime:
        assert (await runtime.turn("go")).text == "fine"
        outcomes = await sessions.rows(runtime, "outcome")
        for (_, category, said), row, told in zip(BREAKS, outcomes, runtime.provider.seen(), strict=True):
            assert row.body["category"] == category.value
            assert said in told and "\x1b" not in told


@pytest.mark.parametrize("error", [Hostile("x"), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
async def test_what_is_no_failure_of_a_tool_goes_on_but_leaves_a_record(sessions, tmp_path, error):
    """A program that is told to end ends; the record and the history are put right first."""
    async with sessions.session(tmp_path, says=[[("broken", {})]], executors=[raiser(error)]) as runtime:
        with pytest.raises(type(error)):
            await runtime.turn("go")
        (outcome,) = await sessions.rows(runtime, "outcome")
        assert outcome.body["status"] == "cancelled"
        sessions.valid(runtime.conversation.messages)


@dataclass
class Wrong:
    """Returns, or claims, something else than it should."""

    returned: object
    level: TrustLevel = TrustLevel.TRUSTED

    def specs(self):
        schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        return [spec_from_schema("wrong", "Returns something else.", schema, effects=Effect.READ)]

    async def execute(self, cleared: Cleared) -> Output:
        cleared.take()
        return self.returned


async def test_a_wrong_return_value_is_an_error_of_the_tool(sessions, tmp_path):
    wrong = Wrong(None)
    async with sessions.session(tmp_path, NO_WINDOW, says=[], executors=[wrong]) as runtime:
        for wrong.returned in (
            None,
            "text",
            5,
            b"x",
            {"a": 1},
            Output(None),
            Output(b"x"),
            Output("x", notices=5),
        ):
            result = await runtime.call("wrong", {"x": repr(wrong.returned)})
            assert result.outcome.status == "error", wrong.returned
        wrong.returned = Output("right")
        assert (await runtime.call("wrong", {})).outcome.status == "ok"
        assert len(await sessions.rows(runtime, "outcome")) == 9


async def test_an_executor_cannot_run_twice_on_one_leave(sessions, tmp_path):
    ran = []

    class Twice(Wrong):
        async def execute(self, cleared):
            cleared.take()
            ran.append(1)
            cleared.take()
            ran.append(2)
            return Output("")

    async with sessions.session(tmp_path, says=[], executors=[Twice(None)]) as runtime:
        result = await runtime.call("wrong", {})
        assert result.outcome.category is Category.POLICY_BLOCKED and ran == [1]


async def test_a_name_clash_names_both(sessions, tmp_path, example):
    with pytest.raises(CliError) as caught:
        async with sessions.session(tmp_path, executors=[*example.executors(), example.Library()]):
            pass
    assert caught.value.exit is Exit.ARG_ERROR
    assert "library_search" in caught.value.message and caught.value.message.count("handed in (Library)") == 2
    clash = Wrong("")
    clash.specs = lambda: [spec_from_schema("read", "", {"type": "object"})]
    with pytest.raises(CliError, match=r"'read': built in .* and handed in \(Wrong\)"):
        async with sessions.session(tmp_path, executors=[clash]):
            pass


MODULE = """
from leeward.security.kinds import Effect
from leeward.tools.declare import Text, tool

@tool(effects=Effect.READ)
async def peek(what: Text) -> str:
    '''Look.'''
    return what

@tool(effects=Effect.WRITE)
async def poke(what: Text) -> str:
    '''Change.'''
    return what

def make():
    return [peek, poke]

single = peek
broken = lambda: 1 / 0
nothing = lambda: 5
loud = lambda: (_ for _ in ()).throw(SystemError("boom"))
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A module on the path and, beside it, the metadata of the package that offers it as a plug-in."""

    def install(name: str, points: str, package: str = "") -> Path:
        site = tmp_path / "site"
        site.mkdir(exist_ok=True)
        (site / f"{name}.py").write_text(MODULE, encoding="utf-8")
        info = site / f"{package or name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package or name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[leeward.executors]\n{points}\n")
        monkeypatch.syspath_prepend(str(site))
        return site

    yield install
    for name in [name for name in sys.modules if name.startswith("lw_plugin")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("config", "source"),
    [
        ('[tools]\nexecutors = ["lw_plugin_a:make"]', "executor lw_plugin_a:make"),
        ('[tools]\nplugins = ["pokes"]', "plug-in pokes"),
    ],
)
async def test_what_the_configuration_names_is_verified_and_asked_about(
    sessions, tmp_path, installed, config, source
):
    installed("lw_plugin_a", "pokes = lw_plugin_a:make")
    person = sessions.Answers(Answer.YES)
    async with sessions.session(tmp_path, config, says=[], approver=person) as runtime:
        spec = runtime.tools.spec("poke")
        assert (spec.level, spec.source) == (TrustLevel.VERIFIED, source)
        assert (await runtime.call("peek", {"what": "x"})).outcome.status == "ok"
        assert person.questions == []
        assert (await runtime.call("poke", {"what": "x"})).outcome.status == "ok"
        assert "trust" in dict(person.questions[0].asks)


async def test_installed_is_not_enabled(sessions, tmp_path, installed):
    installed("lw_plugin_b", "pokes = lw_plugin_b:make")
    async with sessions.session(tmp_path, says=[]) as runtime:
        assert runtime.tools.spec("poke") is None
        assert "lw_plugin_b" not in sys.modules


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('executors = ["lw_plugin_c:absent"]', "executor lw_plugin_c:absent"),
        ('executors = ["lw_no_such_module:make"]', "ModuleNotFoundError"),
        ('executors = ["lw_plugin_c:broken"]', "ZeroDivisionError"),
        ('executors = ["lw_plugin_c:nothing"]', "specs and execute"),
        ('executors = ["lw_plugin_c:loud"]', "boom"),
        ('executors = ["lw_plugin_c:make", "lw_plugin_c:single"]', "'peek'"),
        ('plugins = ["absent"]', "it is not installed (installed: pokes)"),
    ],
)
async def test_what_cannot_be_loaded_is_a_clean_error(sessions, tmp_path, installed, config, said):
    installed("lw_plugin_c", "pokes = lw_plugin_c:make")
    with pytest.raises(CliError) as caught:
        async with sessions.session(tmp_path, f"[tools]\n{config}\n", says=[]):
            pass
    assert (caught.value.exit, caught.value.code) == (Exit.ARG_ERROR, "CONFIG_ERROR")
    assert said in caught.value.message


@pytest.mark.parametrize("lies_here", [True, False])
async def test_a_module_that_is_not_installed_is_an_error_that_says_how_it_is_found(
    sessions, tmp_path, monkeypatch, lies_here
):
    monkeypatch.chdir(tmp_path)
    if lies_here:
        (tmp_path / "lw_here.py").write_text(MODULE)
    with pytest.raises(CliError) as caught:
        async with sessions.session(tmp_path, '[tools]\nexecutors = ["lw_here:make"]\n', says=[]):
            pass
    way = caught.value.message.rpartition("PYTHONPATH=")[2]
    assert ("in this folder is not looked at" in caught.value.message) == lies_here
    assert way == (str(tmp_path) if lies_here else "FOLDER")
    assert "lw_here" not in sys.modules
    if lies_here:
        monkeypatch.syspath_prepend(way)
        async with sessions.session(tmp_path, '[tools]\nexecutors = ["lw_here:make"]\n', says=[]) as runtime:
            assert runtime.tools.spec("poke") is not None
        del sys.modules["lw_here"]


async def test_a_module_that_needs_another_one_is_not_taken_for_one_that_is_missing(
    sessions, tmp_path, monkeypatch
):
    (tmp_path / "lw_needs.py").write_text("import lw_no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CliError, match="lw_no_such_module") as caught:
        async with sessions.session(tmp_path, '[tools]\nexecutors = ["lw_needs:make"]\n', says=[]):
            pass
    assert "PYTHONPATH" not in caught.value.message


async def test_two_packages_with_one_plugin_name_are_not_guessed_between(sessions, tmp_path, installed):
    installed("lw_plugin_d", "pokes = lw_plugin_d:make", package="first")
    installed("lw_plugin_e", "pokes = lw_plugin_e:make", package="second")
    with pytest.raises(CliError, match="several packages"):
        async with sessions.session(tmp_path, '[tools]\nplugins = ["pokes"]\n', says=[]):
            pass
    assert "lw_plugin_d" not in sys.modules and "lw_plugin_e" not in sys.modules
