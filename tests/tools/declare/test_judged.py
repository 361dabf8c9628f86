"""A function receives the judged value at every declared place, never the text."""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    Base64Bytes,
    Base64Str,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    StringConstraints,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from typing_extensions import TypedDict

from leeward.security.call import Cleared
from leeward.security.kinds import Effect, Kind, Unreadable
from leeward.security.outcome import Category, Output, PolicyBlocked
from leeward.security.paths import ResolvedPath
from leeward.security.url import Url as JudgedUrl
from leeward.tools.declare import (
    ResourceId,
    Secret,
    ShellCommand,
    SourcePath,
    Text,
    Url,
    WorkspacePath,
    guarded,
    tool,
    validation,
)
from leeward.tools.declare.decorator import SingleTool
from leeward.tools.declare.kinds import Declared
from leeward.tools.files.guard import Guard
from leeward.tools.files.read_tools import Files


class Page(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Url]

    link: Url = Field("HTTPS://Default.Example:443", alias="Link")
    files: list[list[WorkspacePath]] = []


class Row(NamedTuple):
    number: int
    url: Url


class Paths(RootModel[list[WorkspacePath]]):
    pass


class Target(TypedDict):
    to: SourcePath


@dataclass(frozen=True, slots=True)
class Pair:
    path: WorkspacePath
    link: Url | None = None


class Size(enum.IntEnum):
    BIG = 7


def receiver(hints: dict[str, Any], **defaults: Any) -> tuple[SingleTool, dict[str, Any]]:
    """A tool with these annotations, and what its function got."""
    got: dict[str, Any] = {}

    async def take(**arguments: Any) -> str:
        got.update(arguments)
        return ""

    names = ", ".join(f"{name}={name}_" if name in defaults else name for name in hints)
    given = ", ".join(f"{name}={name}" for name in hints)
    scope: dict[str, Any] = {"take": take, **{f"{name}_": value for name, value in defaults.items()}}
    exec(f"async def receive({names}): return await take({given})", scope)
    scope["receive"].__annotations__ = hints
    return tool(scope["receive"]), got


def place(root: Path, name: str) -> ResolvedPath:
    real = os.path.realpath(root / name)
    return ResolvedPath(real, real)


A, SHOWN = "HTTPS://GOOD.Example:443/%7ea?", "https://good.example/~a"

# What is declared, what a model sends, and how what arrives is told: by its texts, nested as it is.
SHAPES: dict[str, tuple[Any, Any, Any]] = {
    "a path": (WorkspacePath, "a/../b", "b"),
    "a url": (Url, A, SHOWN),
    "an optional": (Url | None, A, SHOWN),
    "none of it": (Url | None, None, None),
    "a union": (Url | int, A, SHOWN),
    "the other of a union": (Url | int, 5, 5),
    "a union with text": (Text | Url, A, SHOWN),
    "lists in lists": (list[list[WorkspacePath]], [["a"], [], ["b", "a"]], [["a"], [], ["b", "a"]]),
    "a tuple": (tuple[int, Url], [1, A], (1, SHOWN)),
    "a named tuple": (Row, [1, A], (1, SHOWN)),
    "a deque": (deque[Url], [A], deque([SHOWN])),
    "a mapping": (dict[str, WorkspacePath], {"a/b~": "a"}, {"a/b~": "a"}),
    "a mapping by number": (dict[int, Url], {"5": A}, {5: SHOWN}),
    "a mapping by word": (dict[Size, Url], {"7": A}, {Size.BIG: SHOWN}),
    "a root model": (Paths, ["a"], Paths.model_construct(["a"])),
    "a typed dictionary": (Target, {"to": "a"}, {"to": "a"}),
    "a frozen data class": (Pair, {"path": "a", "link": A}, Pair("a", SHOWN)),
    "data classes in a mapping": (dict[str, list[Pair]], {"x": [{"path": "a"}]}, {"x": [Pair("a")]}),
    "a fixed word": (Literal["-"] | WorkspacePath, "-", "-"),
    "no fixed word": (Literal["-"] | WorkspacePath, "a", "a"),
    "a pattern": (Annotated[WorkspacePath, Field(pattern=r"\.md$", max_length=9)], "a.md", "a.md"),
    "a constraint": (Annotated[Url, StringConstraints(min_length=9)], A, SHOWN),
    "a validator": (Annotated[WorkspacePath, AfterValidator(lambda text: text.strip("\0"))], "a", "a"),
    "an identifier": (ResourceId, "A-1", "A-1"),
    "a secret": (Secret, "not-a-real-one", "not-a-real-one"),
}


def told(value: Any, root: str) -> Any:
    """What arrived, with what was judged as text: a path as it lies in the workspace."""
    match value:
        case JudgedUrl():
            return value.text
        case ResolvedPath():
            return os.path.relpath(value.real, root)
        case Paths():
            return Paths.model_construct(told(value.root, root))
        case Pair():
            return Pair(told(value.path, root), told(value.link, root))
        case dict():
            return {key: told(child, root) for key, child in value.items()}
        case tuple() | list() | deque():
            children = [told(child, root) for child in value]
            return tuple(children) if isinstance(value, Row) else type(value)(children)
        case _:
            return value


def judged_in(value: Any) -> int:
    match value:
        case JudgedUrl() | ResolvedPath():
            return 1
        case dict():
            return sum(map(judged_in, value.values()))
        case Paths():
            return judged_in(value.root)
        case Pair():
            return judged_in([value.path, value.link])
        case tuple() | list() | deque():
            return sum(map(judged_in, value))
        case _:
            return 0


@pytest.mark.parametrize("shape", SHAPES)
async def test_each_shape_holds_what_was_judged(run, workspace, shape):
    declared, sent, expected = SHAPES[shape]
    executor, got = receiver({"value": declared})
    await run(executor, {"value": sent})
    assert told(got["value"], os.path.realpath(workspace)) == expected
    texts = [node for node in (str(expected), str(sent)) if "a" in node or "b" in node]
    plain = {"none of it", "the other of a union", "a fixed word", "an identifier", "a secret"}
    assert bool(judged_in(got["value"])) == (shape not in plain), texts


async def test_handing_over_the_text_is_found_wrong(run, workspace, planted, monkeypatch):
    monkeypatch.setattr(validation, "with_judged", planted("raw").with_judged)
    executor, got = receiver({"path": WorkspacePath})
    await run(executor, {"path": "a"})
    assert got["path"] == "a" and not judged_in(got["path"])


async def test_fields_with_other_names_and_fields_that_nobody_named(run, workspace):
    executor, got = receiver({"page": Page})
    await run(executor, {"page": {"Link": A, "files": [["a"]], "more": "https://MORE.example"}})
    page = got["page"]
    assert (page.link.text, page.more.host) == (SHOWN, "more.example")
    assert page.files == [[place(workspace, "a")]]


async def test_defaults_are_judged_and_arrive_as_what_was_judged(clear, workspace):
    hints = {
        "there": Annotated[WorkspacePath, Field(default="x")],
        "link": Annotated[Url | None, Field(default=A)],
        "page": Page,
        "here": WorkspacePath,
        "none": SourcePath | None,
        "many": list[WorkspacePath],
    }
    executor, got = receiver(hints, here=".", none=None, many=["m"])
    assert executor.spec.schema["required"] == ["page"]
    assert executor.spec.schema["properties"]["there"]["default"] == "x"
    cleared = await clear(executor, {"page": {}})
    pointers = {atom.pointer for atom in cleared.action.atoms}
    assert pointers == {"/there", "/link", "/page/Link", "/here", "/many/0"}
    await executor.execute(cleared)
    assert (got["there"], got["here"]) == (place(workspace, "x"), place(workspace, ""))
    assert (got["link"].text, got["page"].link.text) == (SHOWN, "https://default.example/")
    assert got["none"] is None and got["many"] == [place(workspace, "m")]


def test_a_default_that_does_not_fit_is_told_wherever_it_stands():
    with pytest.raises(TypeError, match="default of 'path'"):
        receiver({"path": Annotated[WorkspacePath, Field(default=5)]})
    with pytest.raises(TypeError, match="default of 'path'"):
        receiver({"path": WorkspacePath}, path=ResolvedPath("/x", "/x"))


async def test_a_link_swapped_after_judging_leads_nowhere_else(clear, workspace, tmp_path):
    (tmp_path / "secret").write_text("KEY fake")
    (workspace / "a").write_text("judged")
    (workspace / "link").symlink_to("a")

    @tool(effects=Effect.READ)
    async def reads(path: WorkspacePath) -> str:
        with open(path) as file:  # noqa: PTH123 — any way of opening a file leads to what was judged
            return (
                file.read()
                + Path(path).read_text()
                + Path(str(path)).read_text()
                + Path(path.real).read_text()
            )

    cleared = await clear(reads, {"path": "link"})
    (workspace / "link").unlink()
    (workspace / "link").symlink_to(tmp_path / "secret")
    assert (await reads.execute(cleared)).text == "judged" * 4


async def test_a_folder_that_became_a_link_is_not_gone_through(clear, workspace, tmp_path, policy, named):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").write_text("KEY fake")
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("ours")
    read = named(Files(Guard(policy)).tools(), "read")
    cleared = await clear(read, {"path": "d/f"})
    (workspace / "d").rename(workspace / "was")
    (workspace / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PolicyBlocked):
        await read.execute(cleared)


async def test_one_text_declared_twice_arrives_by_each_declaration(clear, workspace):
    executor, got = receiver({"source": SourcePath, "target": WorkspacePath, "link": Url, "note": Text})
    text = "https://a.example/x"
    cleared = await clear(executor, {"source": text, "target": text, "link": text, "note": text})
    assert [atom.only_read for atom in cleared.action.of_kind(Kind.PATH)] == [True, False]
    await executor.execute(cleared)
    assert got["source"] == got["target"] == place(workspace, text.replace("//", "/"))
    assert (got["link"].host, got["note"]) == ("a.example", text)


@pytest.mark.parametrize("hint", [WorkspacePath, Url, list[Url], ShellCommand])
async def test_what_was_not_judged_is_not_run(clear, hint):
    executor, got = receiver({"value": hint})
    cleared = await clear(executor, {"value": ["x.example"] if hint == list[Url] else "x.example"})
    for atoms in (
        (),
        tuple(replace(atom, canonical=Unreadable("no")) for atom in cleared.action.atoms),
        tuple(replace(atom, declared=False) for atom in cleared.action.atoms),
        tuple(replace(atom, pointer="/other") for atom in cleared.action.atoms),
        tuple(replace(atom, kind=Kind.TEXT) for atom in cleared.action.atoms),
    ):
        if hint is ShellCommand and atoms and atoms[0].declared and atoms[0].kind is Kind.COMMAND:
            continue  # A line that cannot be read is run as it was shown, if at all.
        with pytest.raises(PolicyBlocked, match="was judged"):
            await executor.execute(Cleared(replace(cleared.action, atoms=atoms), 5, cleared.emit))
    assert not got


async def test_a_call_that_another_tool_checked_is_not_run(clear):
    executor, got = receiver({"value": Text})
    other, _ = receiver({"value": Text, "more": Text}, more="")
    cleared = await clear(executor, {"value": "x"})
    for typed in (None, "x", (await clear(other, {"value": "x"})).action.typed):
        with pytest.raises(PolicyBlocked, match="not checked by the function"):
            await executor.execute(Cleared(replace(cleared.action, typed=typed), 5, cleared.emit))
    assert not got


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_a_validator_that_makes_something_else_of_a_path_leaves_no_place_for_it(run):
    executor, got = receiver({"path": Annotated[WorkspacePath, AfterValidator(lambda text: Path(text))]})
    with pytest.raises(PolicyBlocked, match="cannot hold the judged value"):
        await run(executor, {"path": "a"})
    assert not got


async def test_validators_see_text_once_and_what_they_checked_is_what_runs(run):
    seen: list[Any] = []
    executor, got = receiver(
        {
            "url": Annotated[Url, AfterValidator(lambda text: seen.append(text) or text)],
            "number": Annotated[int, Field(default_factory=lambda: len(seen) + 40)],
        }
    )
    await run(executor, {"url": A})
    assert seen == [A] and got["number"] == 41 and got["url"].text == SHOWN


async def test_a_command_line_arrives_as_it_was_judged(run):
    executor, got = receiver({"line": ShellCommand, "lines": list[ShellCommand]})
    await run(executor, {"line": "ls   -l", "lines": ["ls $((1+1)) >  /dev/null"]})
    assert got["line"] == "ls -l" and isinstance(got["lines"][0], str)
    assert ">  " not in got["lines"][0]


async def test_a_string_that_only_the_session_calls_a_url_stays_a_string(run):
    executor, got = receiver({"page": str, "words": list[str]})
    executor = SingleTool(replace(executor.spec, schema=guarded(executor.spec.schema)), executor.run)
    await run(executor, {"page": A, "words": ["https://x.example"]})
    assert got == {"page": A, "words": ["https://x.example"]}


async def test_what_was_judged_is_returned_as_its_text(run, workspace):
    @tool
    async def echo(url: Url, path: WorkspacePath, page: Page, pair: Pair) -> object:
        return {"url": [url], "path": {path: (path,)}, "page": page, "pair": pair}

    @tool
    async def alone(url: Url) -> object:
        return url

    a = f'"{os.path.realpath(workspace)}/a"'
    given = {"url": A, "path": "a", "page": {"Link": A}, "pair": {"path": "a"}}
    assert (await run(echo, given)).text == (
        f'{{"url":["{SHOWN}"],"path":{{{a}:[{a}]}},"page":{{"Link":"{SHOWN}","files":[]}},"pair":{{"path":{a},"link":null}}}}'
    )
    assert (await run(alone, {"url": A})) == Output(SHOWN)


class Searched(BaseModel):
    at: Url


class Saved(BaseModel):
    at: WorkspacePath


class Nested(BaseModel):
    inner: list[Nested] = []
    to: dict[str, Url | list[WorkspacePath]] = {}


AMBIGUOUS: dict[str, tuple[Any, str]] = {
    "a union": (Url | WorkspacePath, "/value a path and a url"),
    "with none": (WorkspacePath | None | Url, "/value a path and a url"),
    "a command line or a url": (ShellCommand | Url, "/value a command and a url"),
    "a command line or a path": (ShellCommand | SourcePath, "/value a command and a path"),
    "in a list": (list[Url | WorkspacePath], "/value/0 a path and a url"),
    "lists": (list[Url] | list[WorkspacePath], "/value/0 a path and a url"),
    "a tuple and a list": (tuple[int, Url] | list[WorkspacePath], "/value/1 a path and a url"),
    "in a mapping": (dict[str, Url | WorkspacePath], "/value/* a path and a url"),
    "a mapping and a model": (dict[str, Url] | Saved, "/value/at a path and a url"),
    "models": (Searched | Saved, "/value/at a path and a url"),
    "deep in one": (list[Searched | list[dict[str, Saved | Searched]]], "/value/0/0/*/at a path and a url"),
}


@pytest.mark.parametrize("shape", AMBIGUOUS)
def test_what_can_be_two_things_that_are_judged_is_told_at_declaration(shape):
    hint, why = AMBIGUOUS[shape]
    with pytest.raises(TypeError, match=re.escape(f"receive declares {why}")):
        receiver({"value": hint})


@pytest.mark.parametrize(
    "hint",
    [
        WorkspacePath | SourcePath,
        Url | list[WorkspacePath],
        list[Url] | dict[str, WorkspacePath] | ShellCommand,
        tuple[Url, WorkspacePath],
        Literal["-"] | Url,
        Searched | Pair,
        Nested,
    ],
)
def test_kinds_that_meet_nowhere_are_declared_beside_each_other(hint):
    receiver({"value": hint, "other": Url})


def lowered(text: str) -> str:
    return text.lower()


UNDONE = Annotated[str, AfterValidator(str.upper), PlainSerializer(lowered)]


class ByField(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def changed(cls, text: str) -> str:
        return f"/etc/{text}"

    @field_serializer("word", when_used="json")
    def undone(self, text: str) -> str:
        return text.removeprefix("/etc/")


class Renamed(BaseModel):
    real: str

    @model_validator(mode="before")
    @classmethod
    def changed(cls, data: Any) -> Any:
        return {"real": data["shown"] + "!"}

    @model_serializer
    def undone(self) -> dict[str, str]:
        return {"shown": self.real.removesuffix("!")}


@dataclass(frozen=True)
class InData:
    word: UNDONE


DIFFERENT: dict[str, tuple[Any, Any, str]] = {
    "a text": (UNDONE, "abc", "/value"),
    "a number": (
        Annotated[int, AfterValidator(lambda number: number + 1), PlainSerializer(lambda number: number - 1)],
        5,
        "/value",
    ),
    "a text in base64": (Base64Str, "aGk=", "/value"),
    "a path": (
        Annotated[Path, AfterValidator(lambda path: "/etc" / path), PlainSerializer(lambda path: path.name)],
        "x",
        "/value",
    ),
    "in a list": (list[UNDONE], ["12", "abc"], "/value/1"),
    "in a tuple": (tuple[int, UNDONE], [1, "abc"], "/value/1"),
    "in a mapping": (dict[str, UNDONE], {"a/b": "abc"}, "/value/a~1b"),
    "a key": (dict[UNDONE, int], {"abc": 1}, "/value"),
    "in a data class": (InData, {"word": "abc"}, "/value/word"),
    "a field": (ByField, {"word": "passwd"}, "/value/word"),
    "a root": (RootModel[UNDONE], "abc", "/value"),
    "a model by another name": (Renamed, {"shown": "x"}, "/value"),
}


@pytest.mark.parametrize("shape", DIFFERENT)
def test_a_serializer_that_undoes_a_validator_is_no_way_past_what_is_judged(shape):
    hint, sent, pointer = DIFFERENT[shape]
    executor, _ = receiver({"value": hint})
    problems = executor.spec.check({"value": sent}).problems
    assert [(problem.pointer, problem.category) for problem in problems] == [
        (pointer, Category.TYPE_MISMATCH)
    ], problems


class Dropping(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_timedelta="float")

    name: str = Field(alias="Name")
    raw: bytes = b"\xff"
    note: str | None = None
    cache: str = Field("", exclude=True)
    pause: timedelta = timedelta(seconds=2)

    @model_validator(mode="after")
    def filled(self) -> Dropping:
        self.cache = self.name.upper()
        return self

    @model_serializer(mode="wrap")
    def without_none(self, inner: Any) -> Any:
        return {key: value for key, value in inner(self).items() if value is not None}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def length(self) -> int:
        return len(self.name)


@pytest.mark.parametrize(
    ("hint", "sent"),
    [
        (Annotated[str, AfterValidator(str.strip)], "abc"),
        (UNDONE, "123"),
        (date, "2026-01-31"),
        (dict[date, float], {"2026-01-31": 1}),
        (UUID, "12345678-1234-5678-1234-567812345678"),
        (Decimal, "1.50"),
        (Path, "a/b"),
        (Size, 7),
        (Base64Bytes, "aGk="),
        (Dropping, {"Name": "x"}),
        (list[Dropping | str | None], [{"Name": "x", "raw": "_w=="}, "y", None]),
    ],
)
def test_values_that_json_writes_in_their_own_way_are_as_they_were_sent(hint, sent):
    executor, _ = receiver({"value": hint})
    assert executor.spec.check({"value": sent}).problems == ()


class Hidden(BaseModel):
    path: WorkspacePath = Field(".", exclude=True)  # type: ignore[assignment]


def test_what_nobody_would_judge_is_told_at_declaration():
    for hint, why in (
        (Hidden, "nobody would judge it"),
        (list[Hidden], "nobody would judge it"),
        (Annotated[WorkspacePath, Field(default=".", exclude=True)], "nobody would judge it"),
        (Iterable[Url], "take a list"),
        (Annotated[str, Declared(Kind.URL)], "only a Url"),
        (Annotated[JudgedUrl, Declared(Kind.PATH)], "only a ResolvedPath"),
    ):
        with pytest.raises(TypeError, match=why):
            receiver({"value": hint})


TYPED = """
from pathlib import Path
from typing import Annotated
from pydantic import BaseModel, Field
from leeward import Cleared, Effect, Output, ShellCommand, SourcePath, Text, Url, WorkspacePath, tool

class Page(BaseModel):
    link: Url
    saved: list[WorkspacePath]

def size(path: SourcePath) -> int:
    return len(Path(path).read_bytes()) + len(Path(path.real).read_bytes())

@tool(effects=Effect.READ)
async def look(
    page: Page, more: dict[str, Url | None], line: ShellCommand, words: Text, cleared: Cleared,
    folder: Annotated[WorkspacePath, Field(default=".")],
) -> Output:
    await cleared.emit(f"{page.link.text} {line.upper()} {words.upper()}")
    hosts = [url.host.upper() for url in more.values() if url is not None]
    with open(folder) as file:
        return Output(file.read() + ",".join(hosts) + str(sum(map(size, page.saved))))
"""

UNTYPED = """
from leeward import Url, WorkspacePath, tool

@tool
async def old(path: WorkspacePath, url: Url) -> None:
    path.strip()
    url.lower()
"""


def test_a_type_checker_knows_what_a_function_gets(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "untyped.py").write_text(UNTYPED)
    root = Path(__file__).parents[3]

    def problems(*files: Path) -> str:
        checker = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}/cache"]
        words = [*checker, *map(str, files)]
        return subprocess.run(words, cwd=root, capture_output=True, text=True, check=False).stdout

    assert problems(tmp_path / "typed.py", root / "examples/custom_executor.py").startswith("Success")
    wrong = problems(tmp_path / "untyped.py")
    assert '"ResolvedPath" has no attribute "strip"' in wrong and '"Url" has no attribute "lower"' in wrong
