from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal

import pytest

from leeward.security.call import Cleared
from leeward.security.kinds import KIND_KEY, Effect, Kind
from leeward.security.outcome import Output, ToolNotFound
from leeward.security.schema import leaves
from leeward.security.trust import TrustLevel
from leeward.tools.composite import URL_RULE, CompositeExecutor, NameClash, Registered
from leeward.tools.declare import Destination, ResourceId, Text, Url, guarded, spec_from_schema, tool
from leeward.tools.declare.schema import nodes


@tool(effects=Effect.READ)
async def one(word: str) -> str:
    return f"one {word}"


@tool(effects=Effect.READ, name="docs_fetch")
async def docs(page: str, at: ResourceId, note: Text, more: list[str] | None = None, size: int = 1) -> str:
    return page


@dataclass
class Named:
    names: tuple[str, ...]

    def specs(self):
        return [spec_from_schema("x", "", {"type": "object"})] if not self.names else [
            type(one.spec)(name, "", {"type": "object"}, one.spec.check) for name in self.names
        ]  # fmt: skip

    async def execute(self, cleared: Cleared) -> Output:
        return Output(cleared.action.call.tool)


async def test_a_call_goes_to_the_executor_that_has_the_tool(run):
    both = CompositeExecutor([one, Named(("two", "three"))])
    assert [spec.name for spec in both.specs()] == ["one", "two", "three"]
    assert both.spec("two") is both.specs()[1] and both.spec("four") is None
    assert (await run(both, {"word": "x"}, tool="one")).text == "one x"
    assert (await run(both, {"word": "x"}, tool="three")).text == "three"


async def test_a_call_judged_for_another_declaration_is_not_run(clear):
    with pytest.raises(ToolNotFound):
        await CompositeExecutor([docs]).execute(await clear(one, {"word": "x"}))
    cleared = await clear(docs, {"page": "/x", "at": "1", "note": ""})
    with pytest.raises(ToolNotFound):
        await CompositeExecutor([docs]).execute(cleared)


def test_a_clash_names_both_sources():
    with pytest.raises(NameClash) as caught:
        CompositeExecutor(
            [Registered(one, source="plug-in A"), Registered(Named(("zwei", "one")), source="plug-in B")]
        )
    assert all(
        word in str(caught.value) for word in ("'one'", "plug-in A", "plug-in B", "SingleTool", "Named")
    )


def test_one_executor_can_clash_with_itself():
    with pytest.raises(NameClash):
        CompositeExecutor([Named(("one", "one"))])


@pytest.mark.parametrize("name", ["", "One", "a-b", "a.b", "a" * 65, "ä", "a\n"])
def test_a_name_no_model_can_be_told_names_its_source(name):
    with pytest.raises(ValueError, match="plug-in A: .*1 to 64"):
        CompositeExecutor([Registered(Named((name,)), source="plug-in A")])


def test_registration_sets_source_and_never_raises_trust():
    def level(registered):
        (spec,) = CompositeExecutor([registered]).specs()
        return spec.source, spec.level

    assert level(one) == ("built in", TrustLevel.TRUSTED)
    assert level(Registered(one, "plug-in A", TrustLevel.VERIFIED)) == ("plug-in A", TrustLevel.VERIFIED)
    lowered = type(one)(type(one.spec)("one", "", {}, one.spec.check, level=TrustLevel.QUARANTINED), one.run)
    assert level(Registered(lowered, level=TrustLevel.VERIFIED)) == ("built in", TrustLevel.QUARANTINED)


def kinds_of(spec, arguments):
    return {leaf.pointer: set(leaf.kinds) for leaf in leaves(arguments, spec.schema)}


def test_strings_of_guarded_tools_are_urls_unless_they_say_what_they_are():
    (spec,) = CompositeExecutor([docs]).specs()
    found = kinds_of(spec, {"page": "p", "at": "1", "note": "n", "more": ["a", "b"]})
    assert found == {
        "/page": {Kind.URL}, "/at": {Kind.RESOURCE_ID}, "/note": {Kind.TEXT},
        "/more/0": {Kind.URL}, "/more/1": {Kind.URL},
    }  # fmt: skip
    assert kinds_of(docs.spec, {"page": "p"}) == {"/page": {Kind.UNDECLARED}}


async def plain_fetch(url: Text, at: ResourceId, how: Literal["a", "b"] = "a") -> str:
    """Open a page."""
    return url + at + how


def test_a_foreign_tool_cannot_talk_its_way_out_of_the_guard():
    arguments = {"url": "u", "at": "1", "how": "a"}
    for source, kind in (("handed in", Kind.URL), ("plug-in x", Kind.URL), (None, Kind.TEXT)):
        (spec,) = CompositeExecutor([Registered(tool(plain_fetch), source)]).specs()
        assert kinds_of(spec, arguments) == {"/url": {kind}, "/at": {Kind.RESOURCE_ID}, "/how": {Kind.TEXT}}
        assert spec.description == ("Open a page." if source is None else f"Open a page.\n\n{URL_RULE}")
        assert spec.check(arguments).problems == ()
    assert kinds_of(tool(plain_fetch).spec, arguments)["/url"] == {Kind.TEXT}


def test_words_beside_a_declared_url_are_judged_as_words():
    @tool(name="manual_fetch")
    async def both(url: Url, about: Text, to: Destination | None = None) -> str:
        return f"{url}{about}{to}"

    (spec,) = CompositeExecutor([Registered(both, "handed in")]).specs()
    found = kinds_of(spec, {"url": "u", "about": "how (a & b) works", "to": "x"})
    assert found == {"/url": {Kind.URL}, "/about": {Kind.UNDECLARED}, "/to": {Kind.DESTINATION}}
    (other,) = CompositeExecutor([Registered(one, "handed in")]).specs()
    assert other.description == one.spec.description


@pytest.mark.parametrize(
    ("name", "names", "is_guarded"),
    [
        ("fetch", ("fetch",), True), ("web_scrape", ("fetch", "web_scrape"), True), ("x_fetch", (), True),
        ("fetch", (), False), ("fetcher", ("fetch",), False), ("fetch_x", ("fetch",), False),
        ("get", ("get",), True),
    ],
)  # fmt: skip
def test_which_tools_are_guarded(name, names, is_guarded):
    renamed = tool(name=name)(one_word)
    (spec,) = CompositeExecutor([renamed], guarded_tools=names).specs()
    assert kinds_of(spec, {"word": "x"}) == {"/word": {Kind.URL if is_guarded else Kind.UNDECLARED}}


async def one_word(word: str) -> str:
    return word


@pytest.mark.parametrize(
    ("schema", "arguments", "pointer"),
    [
        ({"properties": {"u": {}}}, {"u": "x"}, "/u"),
        ({"properties": {"u": True}}, {"u": "x"}, "/u"),
        ({"properties": {"u": {"type": ["string", "null"]}}}, {"u": "x"}, "/u"),
        ({"properties": {"u": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, {"u": "x"}, "/u"),
        ({"properties": {"u": {"$ref": "#/$defs/u"}}, "$defs": {"u": {"type": "string"}}}, {"u": "x"}, "/u"),
        ({"properties": {"u": {"type": "array"}}}, {"u": ["x"]}, "/u/0"),
        ({"properties": {"u": {"type": "array", "prefixItems": [{"type": "string"}]}}}, {"u": ["x"]}, "/u/0"),
        ({"properties": {"u": {"type": "object"}}}, {"u": {"deep": "x"}}, "/u/deep"),
        ({}, {"surprise": "x"}, "/surprise"),
        ({"patternProperties": {"^u": {"type": "string"}}}, {"u1": "x"}, "/u1"),
        ({"additionalProperties": {"type": "string"}}, {"u": "x"}, "/u"),
        ({"properties": {"u": {"enum": ["x", "y"]}}}, {"u": "x"}, None),
    ],
)
def test_no_string_of_a_guarded_tool_slips_through(schema, arguments, pointer):
    before = copy.deepcopy(schema)
    spec = type(one.spec)("x_fetch", "", {"type": "object", **schema}, one.spec.check)
    (completed,) = CompositeExecutor([type(one)(spec, one.run)]).specs()
    urls = {leaf.pointer for leaf in leaves(arguments, completed.schema) if Kind.URL in leaf.kinds}
    assert urls == ({pointer} if pointer else set())
    assert schema == before


def test_data_in_a_schema_is_not_taken_for_schema():
    schema = {
        "properties": {"properties": {"type": "string"}},
        "default": {"type": "string"},
        "enum": [{"items": {}}],
    }
    assert [node for node in nodes(schema)][1:] == [{"type": "string"}]
    assert guarded({"const": {"type": "string"}}) == {"const": {"type": "string"}}
    assert guarded({"type": "string", KIND_KEY: "text"}) == {"type": "string", KIND_KEY: "text"}


async def test_an_explicit_url_is_left_as_it_is():
    @tool(name="my_fetch")
    async def fetch(url: Url) -> str:
        return url

    (spec,) = CompositeExecutor([fetch]).specs()
    assert spec.schema == fetch.spec.schema
