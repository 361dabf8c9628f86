"""A string has every kind that any branch of its schema declares."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.kinds import EFFECT_KEY, KIND_KEY, Kind
from leeward.security.schema import Leaf, leaves

P, U, T, N = Kind.PATH, Kind.URL, Kind.TEXT, Kind.UNDECLARED


def string(kind=None, **more):
    return {"type": "string", **({KIND_KEY: kind} if kind else {}), **more}


def obj(**properties):
    return {"type": "object", "properties": properties}


PATH = string("path")
URL = string("url")

TREE = {
    "type": "object",
    "properties": {
        "p": PATH,
        "below": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "array", "items": {"$ref": "#/$defs/T"}}]},
    },
}

CASES = {
    "declared": (obj(p=PATH), {"p": "x"}, {"/p": {P}}),
    "undeclared": (obj(p=string()), {"p": "x"}, {"/p": {N}}),
    "no schema at all": ({}, {"p": "x"}, {"/p#": {N}, "/p": {N}}),
    "a kind nobody knows": (obj(p=string("colour")), {"p": "x"}, {"/p": {N}}),
    "a kind that is no string": (obj(p=string(7)), {"p": "x"}, {"/p": {N}}),
    "one of fixed words": (obj(p=string(enum=["x", "y"])), {"p": "x"}, {"/p": {T}}),
    "one fixed word": (obj(p={"const": "x"}), {"p": "x"}, {"/p": {T}}),
    "optional": (obj(p={"anyOf": [PATH, {"type": "null"}]}), {"p": "x"}, {"/p": {P}}),
    "optional, short": (obj(p={**PATH, "type": ["string", "null"]}), {"p": "x"}, {"/p": {P}}),
    "anyOf": (obj(p={"anyOf": [PATH, URL]}), {"p": "x"}, {"/p": {P, U}}),
    "oneOf": (obj(p={"oneOf": [PATH, string()]}), {"p": "x"}, {"/p": {P, N}}),
    "allOf": (obj(p={"allOf": [PATH, {"minLength": 1}]}), {"p": "x"}, {"/p": {P, N}}),
    "a branch that is no string": (obj(p={"anyOf": [PATH, {"type": "integer"}]}), {"p": "x"}, {"/p": {P}}),
    "kind beside anyOf": (
        obj(p={KIND_KEY: "path", "anyOf": [{"type": "string"}, {"type": "null"}]}),
        {"p": "x"},
        {"/p": {P, N}},
    ),
    "$ref": ({**obj(p={"$ref": "#/$defs/P"}), "$defs": {"P": PATH}}, {"p": "x"}, {"/p": {P}}),
    "$ref with a description": (
        {**obj(p={"$ref": "#/$defs/P", "description": "d"}), "$defs": {"P": PATH}},
        {"p": "x"},
        {"/p": {P}},
    ),
    "$ref escaped": (
        {**obj(p={"$ref": "#/$defs/a~1b~0c"}), "$defs": {"a/b~c": PATH}},
        {"p": "x"},
        {"/p": {P}},
    ),
    "$ref into a list": ({**obj(p={"$ref": "#/x/1"}), "x": [URL, PATH]}, {"p": "x"}, {"/p": {P}}),
    "$ref through two": (
        {**obj(p={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/B"}, "B": PATH}},
        {"p": "x"},
        {"/p": {P}},
    ),
    "$ref in a circle": (
        {**obj(p={"$ref": "#/$defs/A"}), "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, PATH]}}},
        {"p": "x"},
        {"/p": {P}},
    ),
    "$ref to itself": (
        {**obj(p={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"p": "x"},
        {"/p": {N}},
    ),
    "$ref to nothing": (obj(p={"$ref": "#/$defs/none"}), {"p": "x"}, {"/p": {N}}),
    "$ref elsewhere": (obj(p={"$ref": "https://s.example/p.json"}), {"p": "x"}, {"/p": {N}}),
    "$ref by anchor": ({**obj(p={"$ref": "#here"}), **PATH}, {"p": "x"}, {"/p": {N}}),
    "the whole by $ref": ({"$ref": "#/$defs/A", "$defs": {"A": obj(p=PATH)}}, {"p": "x"}, {"/p": {P}}),
    "recursive": (
        {"$ref": "#/$defs/T", "$defs": {"T": TREE}},
        {"p": "a", "below": {"p": "b", "below": [{"p": "c", "below": []}]}},
        {"/p": {P}, "/below/p": {P}, "/below/below/0/p": {P}},
    ),
    "recursive by #": (
        {**obj(p=PATH, below={"$ref": "#"})},
        {"below": {"below": {"p": "x"}}},
        {"/below/below/p": {P}},
    ),
    "properties beside anyOf": (
        {**obj(p=PATH), "anyOf": [{"required": ["p"]}, {"required": ["q"]}]},
        {"p": "x"},
        {"/p": {P}},
    ),
    "properties beside allOf": (
        {**obj(p=PATH), "allOf": [obj(q=URL)]},
        {"p": "x", "q": "y"},
        {"/p": {P}, "/q": {U}},
    ),
    "properties beside $ref": (
        {**obj(p=PATH), "$ref": "#/$defs/A", "$defs": {"A": obj(q=URL)}},
        {"p": "x", "q": "y"},
        {"/p": {P}, "/q": {U}},
    ),
    "if, then, else": (
        {"if": obj(k=string()), "then": obj(p=PATH), "else": obj(p=URL)},
        {"p": "x"},
        {"/p": {P, U}},
    ),
    "if beside a string": (obj(p=string(**{"if": {"const": "x"}})), {"p": "x"}, {"/p": {N}}),
    "if that names the word": (
        obj(p={"type": "string", "if": {"enum": ["x", "y"]}}),
        {"p": "x"},
        {"/p": {N}},
    ),
    "if that declares a kind": (obj(p={"type": "string", "if": string("text")}), {"p": "x"}, {"/p": {N}}),
    "if and then": (
        obj(p=string(**{"if": {"minLength": 9}, "then": string("text")})),
        {"p": "x"},
        {"/p": {N, T}},
    ),
    "if, then and else": (
        obj(p={"if": {"minLength": 9}, "then": PATH, "else": URL}),
        {"p": "x"},
        {"/p": {P, U}},
    ),
    "then without if": (
        obj(p=string(then=string("text"), **{"else": string("text")})),
        {"p": "x"},
        {"/p": {N}},
    ),
    "if that names a property": ({"if": obj(p={"const": "x"})}, {"p": "x"}, {"/p#": {N}, "/p": {N}}),
    "a fixed word of another branch": (obj(p={"anyOf": [{"const": "y"}, string()]}), {"p": "x"}, {"/p": {N}}),
    "the fixed word of a branch": (obj(p={"anyOf": [{"const": "x"}, PATH]}), {"p": "x"}, {"/p": {T, P}}),
    "words of a consequence that may not hold": (
        {"if": obj(k=string()), "then": obj(p={"enum": ["y"]})},
        {"p": "x"},
        {"/p": {N}},
    ),
    "dependentSchemas": ({"dependentSchemas": {"q": obj(p=PATH)}}, {"p": "x"}, {"/p": {P}}),
    "items": (obj(p={"type": "array", "items": PATH}), {"p": ["x", "y"]}, {"/p/0": {P}, "/p/1": {P}}),
    "prefixItems": (
        obj(p={"prefixItems": [PATH], "items": URL}),
        {"p": ["x", "y"]},
        {"/p/0": {P}, "/p/1": {U}},
    ),
    "prefixItems only": (obj(p={"prefixItems": [PATH]}), {"p": ["x", "y"]}, {"/p/0": {P}, "/p/1": {N}}),
    "items as a list": (
        obj(p={"items": [PATH], "additionalItems": URL}),
        {"p": ["x", "y"]},
        {"/p/0": {P}, "/p/1": {U}},
    ),
    "contains": (obj(p={"type": "array", "contains": PATH}), {"p": ["x"]}, {"/p/0": {P}}),
    "unevaluatedItems": (obj(p={"type": "array", "unevaluatedItems": PATH}), {"p": ["x"]}, {"/p/0": {P}}),
    "items that are no schema": (obj(p={"type": "array", "items": True}), {"p": ["x"]}, {"/p/0": {N}}),
    "additionalProperties": ({"additionalProperties": PATH}, {"k": "x"}, {"/k#": {N}, "/k": {P}}),
    "unevaluatedProperties": ({"unevaluatedProperties": PATH}, {"k": "x"}, {"/k#": {N}, "/k": {P}}),
    "additionalProperties: true": ({"additionalProperties": True}, {"k": "x"}, {"/k#": {N}, "/k": {N}}),
    "patternProperties": (
        {"patternProperties": {"^f_": PATH}, "additionalProperties": URL},
        {"f_a": "x", "g": "y"},
        {"/f_a#": {N}, "/f_a": {P}, "/g#": {N}, "/g": {U}},
    ),
    "two patterns": (
        {"patternProperties": {"^f": PATH, "a$": URL}},
        {"fa": "x"},
        {"/fa#": {N}, "/fa": {P, U}},
    ),
    "a pattern beside a name": (
        {**obj(f=PATH), "patternProperties": {"^f": URL}},
        {"f": "x"},
        {"/f": {P, U}},
    ),
    "a pattern not readable here": (
        {"patternProperties": {"\\p{L}(": PATH}},
        {"k": "x"},
        {"/k#": {N}, "/k": {P}},
    ),
    "a property that is true": (obj(p=True), {"p": "x"}, {"/p": {N}}),
    "a string where an object is declared": (obj(p=obj(q=PATH)), {"p": "x"}, {"/p": {N}}),
    "an object where a string is declared": (obj(p=PATH), {"p": {"q": "x"}}, {"/p/q#": {N}, "/p/q": {N}}),
    "a key like a pointer": (obj(), {"a/b~c": "x"}, {"/a~1b~0c#": {N}, "/a~1b~0c": {N}}),
    "numbers, booleans and null are no strings": (obj(p={}), {"p": [1, 1.5, True, None]}, {}),
}


@pytest.mark.parametrize(("schema", "arguments", "kinds"), CASES.values(), ids=CASES)
def test_each_leaf_has_the_kinds_its_schema_declares(schema, arguments, kinds) -> None:
    found = list(leaves(arguments, schema))
    assert {leaf.pointer: set(leaf.kinds) for leaf in found} == kinds
    assert len({leaf.pointer for leaf in found}) == len(found)


READ = {EFFECT_KEY: "read"}


@pytest.mark.parametrize(
    ("declared", "only_read"),
    [
        ({**PATH, **READ}, True),
        (PATH, False),
        ({**PATH, EFFECT_KEY: "write"}, False),
        ({**PATH, EFFECT_KEY: ["read", "write"]}, False),
        ({"anyOf": [{**PATH, **READ}, {"type": "null"}]}, True),
        ({"anyOf": [{**PATH, **READ}, PATH]}, False),
        ({"anyOf": [{**PATH, **READ}, {"type": "string"}]}, False),
        ({"anyOf": [PATH], **READ}, False),
    ],
)
def test_only_what_every_branch_says_is_only_read_is(declared, only_read) -> None:
    (leaf,) = leaves({"p": "x"}, obj(p=declared))
    assert leaf.only_read is only_read


def test_a_schema_cannot_make_reading_slow() -> None:
    """Each definition refers to the next one twice: followed path by path, that would be 2**40 branches."""
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    schema = {**obj(p={"$ref": "#/$defs/d0"}), "$defs": {**twice, "d40": PATH}}
    below = {"below": {"anyOf": [{"$ref": "#"}] * 4, "p": PATH}}
    deep: object = {"p": "x"}
    for _ in range(60):
        deep = {"below": deep}
    began = time.process_time()
    assert list(leaves({"p": "x"}, schema)) == [Leaf("/p", "x", frozenset({P}))]
    assert [leaf.kinds for leaf in leaves(deep, obj(p=PATH, **below))] == [{P}]
    assert time.process_time() - began < 1


VALUES = st.recursive(
    st.text(max_size=3) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
SCHEMAS = st.recursive(
    st.sampled_from(
        [{}, PATH, URL, string(), {"type": "integer"}, {"$ref": "#"}, {"$ref": "#/$defs/x"}, True]
    ),
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["anyOf", "allOf", "prefixItems"]), st.lists(inner, max_size=2), max_size=2
        )
        | st.dictionaries(st.sampled_from(["items", "additionalProperties", "then"]), inner, max_size=2)
    ),
)


@given(
    st.dictionaries(st.text(max_size=3), VALUES, max_size=3),
    SCHEMAS.filter(lambda schema: isinstance(schema, dict)),
)
def test_no_string_is_left_out(arguments, schema) -> None:
    def strings(value):
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, child in value.items():
                yield from (key, *strings(child))
        elif isinstance(value, list):
            for child in value:
                yield from strings(child)

    found = list(leaves(arguments, schema))
    assert sorted(leaf.text for leaf in found) == sorted(strings(arguments))
    assert all(leaf.kinds for leaf in found)


def test_a_tools_pattern_takes_linear_time_for_any_key():
    """The pattern is a stranger's, the key the model's; what cannot be read in linear time may match all."""
    for pattern in ("^(a+)+$", "^(?=(a+)+$)", "(a|a)*b"):
        schema = {"type": "object", "patternProperties": {pattern: {"type": "string", KIND_KEY: "path"}}}
        assert list(leaves({"a" * 60 + "!": "x"}, schema))
