from __future__ import annotations

import enum
import json
import threading
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, StringConstraints
from typing_extensions import TypedDict

from leeward.security.action import ActionBuilder
from leeward.security.call import Asker, Cleared, ToolCall
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Category, Output, PermanentFailure, PolicyBlocked, ServerError
from leeward.security.schema import leaves
from leeward.tools.declare import (
    Destination,
    ResourceId,
    Secret,
    ShellCommand,
    Text,
    Url,
    WorkspacePath,
    tool,
)


class Page(BaseModel):
    url: Url
    depth: int = 1


class Target(TypedDict):
    to: Destination


@dataclass
class Login:
    token: Secret


class Colour(enum.Enum):
    RED = "red"


@tool(effects=Effect.SEND, timeout=7, idempotent=True)
async def everything(
    plain: str,
    path: WorkspacePath,
    urls: list[Url],
    ids: dict[str, ResourceId],
    page: Page,
    target: Target,
    login: Login,
    line: ShellCommand | None = None,
    note: Text | None = None,
    count: Annotated[int, Field(ge=0)] = 3,
    colour: Colour = Colour.RED,
    mode: Literal["a", "b"] = "a",
    day: date | None = None,
    pairs: list[tuple[int, Url]] = [],
) -> dict[str, Any]:
    """Takes everything.

    And says so.
    """
    return {"page": page, "target": target, "login": login, "colour": colour, "day": day, "pairs": pairs}


GOOD: dict[str, Any] = {
    "plain": "x",
    "path": "a/b",
    "urls": ["https://GOOD.com/%7e", "not one"],
    "ids": {"one": "1"},
    "page": {"url": "HTTPS://a.example"},
    "target": {"to": "me@a.example"},
    "login": {"token": "sk-test-" + "0" * 32},
    "day": "2024-02-29",
    "pairs": [[1, "https://b.example"]],
}


def check(arguments):
    return everything.spec.check(arguments)


def problems(arguments):
    return {(p.pointer, p.category) for p in check(arguments).problems}


def test_the_spec_says_what_the_function_says():
    spec = everything.spec
    assert (spec.name, spec.effects, spec.timeout, spec.idempotent) == ("everything", Effect.SEND, 7.0, True)
    assert spec.description == "Takes everything.\n\nAnd says so."
    assert spec.schema["additionalProperties"] is False
    assert set(spec.schema["required"]) == {"plain", "path", "urls", "ids", "page", "target", "login"}


def test_kinds_reach_every_leaf_that_declares_one():
    call = ToolCall("1", "everything", json.dumps({**GOOD, "line": "ls", "note": "hm"}), Asker.MODEL)
    draft = ActionBuilder.of(call, {"everything": everything.spec})
    assert draft.problems == ()
    kinds = {leaf.pointer: set(leaf.kinds) for leaf in leaves(draft.arguments, everything.spec.schema)}
    assert kinds["/plain"] == {Kind.UNDECLARED} and kinds["/mode"] == {Kind.TEXT}
    expected = {
        "/path": Kind.PATH, "/urls/0": Kind.URL, "/urls/1": Kind.URL, "/ids/one": Kind.RESOURCE_ID,
        "/page/url": Kind.URL, "/target/to": Kind.DESTINATION, "/login/token": Kind.SECRET,
        "/line": Kind.COMMAND, "/note": Kind.TEXT, "/pairs/0/1": Kind.URL,
    }  # fmt: skip
    assert {pointer: kinds[pointer] for pointer in expected} == {p: {k} for p, k in expected.items()}


def test_values_come_out_as_they_went_in_with_defaults_added():
    checked = check(GOOD)
    assert checked.problems == ()
    assert {key: checked.arguments[key] for key in ("plain", "path", "urls", "ids", "day", "pairs")} == {
        key: GOOD[key] for key in ("plain", "path", "urls", "ids", "day", "pairs")
    }
    assert checked.arguments["page"] == {"url": "HTTPS://a.example", "depth": 1}
    assert checked.arguments["count"] == 3 and checked.arguments["colour"] == "red"
    assert check(checked.arguments) == checked


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"plain": 5}, {("/plain", Category.TYPE_MISMATCH)}),
        ({"count": "5"}, {("/count", Category.TYPE_MISMATCH)}),
        ({"count": True}, {("/count", Category.TYPE_MISMATCH)}),
        ({"count": -1}, {("/count", Category.INVALID_PARAMETERS)}),
        ({"urls": "https://a.example"}, {("/urls", Category.TYPE_MISMATCH)}),
        (
            {"urls": ["a", 5, None]},
            {("/urls/1", Category.TYPE_MISMATCH), ("/urls/2", Category.TYPE_MISMATCH)},
        ),
        (
            {"page": {"depth": "1"}},
            {("/page/url", Category.INVALID_PARAMETERS), ("/page/depth", Category.TYPE_MISMATCH)},
        ),
        ({"line": 5}, {("/line", Category.TYPE_MISMATCH)}),
        ({"mode": "c"}, {("/mode", Category.INVALID_PARAMETERS)}),
        ({"colour": "blue"}, {("/colour", Category.INVALID_PARAMETERS)}),
        ({"extra": 1}, {("/extra", Category.INVALID_PARAMETERS)}),
        ({"a/b~": 1}, {("/a~1b~0", Category.INVALID_PARAMETERS)}),
        ({"day": "yesterday"}, {("/day", Category.INVALID_PARAMETERS)}),
        ({"day": 1709164800}, {("/day", Category.TYPE_MISMATCH)}),
        ({"page": {"url": "u", "more": 1}}, {("/page/more", Category.TYPE_MISMATCH)}),
        (
            {"plain": None, "path": 1, "count": 1.5},
            {
                ("/plain", Category.TYPE_MISMATCH), ("/path", Category.TYPE_MISMATCH),
                ("/count", Category.TYPE_MISMATCH),
            },
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_in_full(change, expected):
    found = problems({**GOOD, **change})
    if "day" in change and change["day"] == 1709164800:
        assert {pointer for pointer, _ in found} == {"/day"}
    else:
        assert found == expected


def test_all_that_is_missing_is_told_and_a_near_name_is_meant():
    told = {p.pointer: p.message for p in check({"pth": "x"}).problems}
    assert set(told) == {"/plain", "/path", "/urls", "/ids", "/page", "/target", "/login", "/pth"}
    assert told["/path"] == "is required" and "did you mean 'path'" in told["/pth"]


async def lower(name: Annotated[str, StringConstraints(to_lower=True)], size: float = 0.5) -> str:
    return name


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"name": "Ada"}, "/name"),
        ({"name": "ada", "size": float("nan")}, ""),
        ({"name": "ada", "size": 2**53 + 1}, "/size"),
        ({"name": "\ud800"}, ""),
        ({"name": "ada"}, None),
        ({"name": "ada", "size": 5}, None),
        ({"name": "ada\0é😀"}, None),
    ],
)
def test_a_value_that_checking_would_change_is_refused(arguments, pointer):
    found = tool(lower).spec.check(arguments).problems
    assert [p.pointer for p in found] == ([] if pointer is None else [pointer])
    assert all(p.category is Category.TYPE_MISMATCH for p in found if p.pointer)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "count", "note", "zz"]), json_values))
@example({"count": 1.0})
@example({"page": {"url": "u", "depth": 1.0}})
@example({"pairs": [[1, "u"], [True, "u"]]})
def test_checking_is_a_fixed_point_or_a_problem(changes):
    arguments = {**GOOD, **changes}
    checked = check(arguments)
    if not checked.problems:
        again = check(checked.arguments)
        assert again.problems == () and again.arguments == checked.arguments
        assert all(checked.arguments[key] == value for key, value in changes.items() if key != "page")
    assert all(isinstance(problem.message, str) for problem in checked.problems)


async def test_the_function_gets_what_it_declares_and_its_answer_becomes_json(run):
    output = await run(everything, {**GOOD, "urls": [], "line": "ls"})
    assert output.text == (
        '{"page":{"url":"https://a.example/","depth":1},"target":{"to":"me@a.example"},'
        '"login":{"token":"sk-test-' + "0" * 32 + '"},"colour":"red","day":"2024-02-29",'
        '"pairs":[[1,"https://b.example/"]]}'
    )


async def test_the_leave_is_injected_and_used_up_once(clear):
    chunks: list[str] = []

    @tool(effects=Effect.READ)
    async def live(cleared: Cleared, text: Text = "a") -> Output:
        await cleared.emit(text)
        with pytest.raises(PolicyBlocked):
            cleared.take()
        return Output(text, notices=("done",))

    assert list(live.spec.schema["properties"]) == ["text"]

    async def emit(chunk: str) -> None:
        chunks.append(chunk)

    cleared = await clear(live, {}, emit=emit)
    assert await live.execute(cleared) == Output("a", notices=("done",))
    assert chunks == ["a"]
    with pytest.raises(PolicyBlocked):
        await live.execute(cleared)


@pytest.mark.parametrize(
    ("value", "text"),
    [("s", "s"), (None, "null"), ([1, "é"], '[1,"é"]'), (Page(url="u"), '{"url":"u","depth":1}')],
)  # fmt: skip
async def test_whatever_json_can_say_is_an_answer(run, value, text):
    async def answer() -> object:
        return value

    assert (await run(tool(answer), {})).text == text


async def test_what_json_cannot_say_is_a_failure(run):
    async def answer() -> object:
        return object()

    with pytest.raises(PermanentFailure, match="neither text nor JSON"):
        await run(tool(answer), {})


async def test_a_function_that_blocks_runs_in_a_thread_and_nobody_waits_for_one_that_hangs(run):
    go_on, main = threading.Event(), threading.current_thread()

    @tool
    def blocks(x: Text) -> dict[str, object]:
        """Return what it got, and where it ran."""
        if x == "hang":
            go_on.wait(60)
        if x == "fail":
            raise ServerError("broken")
        return {"got": x, "beside": threading.current_thread() is not main}

    assert json.loads((await run(blocks, {"x": "a"})).text) == {"got": "a", "beside": True}
    with pytest.raises(ServerError):
        await run(blocks, {"x": "fail"})
    with trio.move_on_after(0.05) as scope:
        await run(blocks, {"x": "hang"})
    assert scope.cancelled_caught
    go_on.set()


def sync(x: Text, cleared: Cleared) -> str:
    return x


async def stream(x: Text):
    yield x


async def star(*x: str) -> str:
    return ""


async def stars(**x: str) -> str:
    return ""


async def positional(x: Text, /) -> str:
    return ""


async def bare(x) -> str:
    return ""


async def lost(x: Nowhere) -> str:  # noqa: F821
    return ""


async def keyed(x: dict[Url, int]) -> str:
    return ""


async def unordered(x: set[str]) -> str:
    return ""


async def opaque(x: object.__class__) -> str:
    return ""


async def wrong_default(x: Text = None) -> str:  # type: ignore[assignment]
    return ""


async def not_text(x: Annotated[int, *Text.__metadata__]) -> str:
    return ""


async def twice(a: Cleared, b: Cleared) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (sync, "Cleared, so it must be an 'async def'"), (stream, "yields"),
        (star, "takes \\*x"), (stars, "takes \\*\\*x"),
        (positional, "positional-only 'x'"), (bare, "'x' of bare has no annotation"), (lost, "Nowhere"),
        (keyed, "keys of a mapping"), (unordered, "take a list"), (wrong_default, "default of 'x'"),
        (not_text, "only a str"), (twice, "Cleared twice"), (opaque, "says nothing about JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_tool_is_told_at_declaration(function, why):
    with pytest.raises(TypeError, match=why):
        tool(function)


@pytest.mark.parametrize("name", ["Weather", "a-b", "", "a" * 65, "wëather", "a b", "a\n"])
def test_names_that_models_cannot_be_told(name):
    with pytest.raises(ValueError, match="1 to 64 characters"):
        tool(name=name or " ")(lower)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with pytest.raises(ValueError, match="seconds"):
        tool(timeout=timeout)(lower)


def test_nothing_declared_means_every_effect_and_any_parameter_name_will_do():
    async def odd(json: Text, model_config: Text, _hidden: Text = "x", schema: int = 1) -> str:
        return json

    spec = tool(odd).spec
    assert spec.effects is Effect.ALL and spec.timeout == 30.0 and not spec.idempotent
    assert spec.check({"json": "a", "model_config": "b"}).arguments == {
        "json": "a", "model_config": "b", "_hidden": "x", "schema": 1,
    }  # fmt: skip


def test_a_method_is_one_tool_for_each_object_and_a_changed_schema_is_that_of_one():
    class Greeter:
        def __init__(self, word: str) -> None:
            self.word = word

        async def greet(self, name: Text) -> str:
            return f"{self.word} {name}"

    first, second = (tool(Greeter(word).greet).specs()[0] for word in ("hello", "bye"))
    assert first.schema == second.schema
    assert first.check({"name": "Ada"}).arguments == second.check({"name": "Ada"}).arguments
    untouched = json.dumps(second.schema)
    first.schema["properties"]["name"].clear()
    first.schema["properties"]["more"] = {}
    third = tool(Greeter("well").greet).specs()[0]
    assert json.dumps(second.schema) == json.dumps(third.schema) == untouched
