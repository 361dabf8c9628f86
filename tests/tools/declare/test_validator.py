from __future__ import annotations

from typing import Any

import pytest

from leeward.security.call import Cleared
from leeward.security.kinds import KIND_KEY, Effect
from leeward.security.outcome import Category
from leeward.tools.declare import schema_tool, spec_from_schema

SCHEMA = {
    "properties": {
        "id": {"type": "string", KIND_KEY: "resource_id"},
        "size": {"type": "integer", "default": 3},
        "deep": {"type": "object", "properties": {"x": {"type": "string", "default": "y"}}},
        "word": {"$ref": "#/$defs/word"},
    },
    "$defs": {"word": {"type": "string", "pattern": "^[a-z]+$"}},
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"id": "a"}, set()),
        ({"id": "a", "size": 5.0, "deep": {}, "word": "abc"}, set()),
        ({}, {("", Category.INVALID_PARAMETERS)}),
        ({"id": 5, "size": "5"}, {("/id", Category.TYPE_MISMATCH), ("/size", Category.TYPE_MISMATCH)}),
        (
            {"id": "a", "size": True, "z": 1},
            {("/size", Category.TYPE_MISMATCH), ("", Category.INVALID_PARAMETERS)},
        ),
        ({"id": "a", "word": "A!"}, {("/word", Category.INVALID_PARAMETERS)}),
        ({"id": "\ud800"}, {("", Category.INVALID_PARAMETERS)}),
    ],
)  # fmt: skip
def test_a_schema_of_ones_own_is_checked_in_full(arguments, expected):
    checked = spec_from_schema("own", "", SCHEMA).check(arguments)
    assert {(p.pointer, p.category) for p in checked.problems} == expected
    assert all("A!" not in p.message for p in checked.problems)
    if not expected:
        assert checked.arguments["size"] == arguments.get("size", 3)
        assert checked.arguments.get("deep", {}) == {}


def test_a_schema_cannot_be_changed_once_it_is_declared():
    mine: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    spec = spec_from_schema("own", "", mine)
    mine["properties"]["a"]["type"] = "integer"
    assert spec.schema["properties"]["a"]["type"] == "string" and not spec.check({"a": "x"}).problems


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, "object"),
        ({"properties": {"a": {"$ref": "https://a.example/s.json"}}}, "only references within"),
        ({"properties": {"a": {"items": {"anyOf": [{"$ref": "other.json#/x"}]}}}}, "only references within"),
        ({"$defs": {"a": {"$dynamicRef": "file:///etc/passwd"}}}, "only references within"),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, "not valid"),
        ({"properties": {"a": {"type": "nonsense"}}}, "not valid"),
        ({"$schema": "https://a.example/schema"}, "not valid"),
        ({"properties": {"a": {"pattern": "("}}}, "not valid"),
    ],
)
def test_schemas_that_lead_elsewhere_or_say_nothing(schema, why):
    with pytest.raises(ValueError, match=f"own: .*{why}"):
        spec_from_schema("own", "", schema)


def test_a_property_called_ref_is_no_reference():
    schema = {"properties": {"$ref": {"type": "string"}}, "default": {"$ref": "https://a.example"}}
    assert not spec_from_schema("own", "", schema).check({"$ref": "x"}).problems


def test_a_pattern_cannot_run_for_ever():
    schema = {"properties": {"a": {"type": "string", "pattern": "^(?=a)(a+)+$"}}}
    assert spec_from_schema("own", "", schema).check({"a": "a" * 5000 + "!"}).problems


async def test_a_schema_tool_runs(run):
    async def answer(cleared: Cleared) -> str:
        return f"{cleared.take()['id']}"

    assert (
        await run(schema_tool("own", "Says it.", SCHEMA, answer, effects=Effect.READ), {"id": "a"})
    ).text == "a"
