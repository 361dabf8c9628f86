"""The gate `known`: unknown tools, and all schema errors at once."""

from __future__ import annotations

import json

import pytest

from leeward.security.action import ActionBuilder
from leeward.security.call import Checked, SchemaProblem
from leeward.security.gates import known
from leeward.security.kinds import KIND_KEY
from leeward.security.outcome import Category
from leeward.security.verdict import Allow, Deny

TWO = (SchemaProblem("/a", "is missing"), SchemaProblem("/b", "is no integer", Category.TYPE_MISMATCH))

# name, arguments, the validator's problems → code (None: allowed), pointers told, suggestion
TABLE = [
    ("read", "{}", (), None, [], None),
    ("read", "", (), None, [], None),
    ("read", '{"a": 1}', TWO, "ARG_ERROR", ["/a", "/b"], None),
    (
        "read",
        '{"a": 1, "path": "..%2fx", "b": ["%2e%2e/y"]}',
        TWO,
        "ARG_ERROR",
        ["/a", "/b", "/path", "/b/0"],
        None,
    ),
    ("read", "{", (), "ARG_ERROR", [""], None),
    ("read", "[]", (), "ARG_ERROR", [""], None),
    ("rea", "{}", (), "TOOL_NOT_FOUND", [], "read"),
    ("rea", "{", (), "TOOL_NOT_FOUND", [], "read"),
    ("frobnicate", "{}", (), "TOOL_NOT_FOUND", [], None),
    ("Read", "{}", (), "TOOL_NOT_FOUND", [], "read"),
    ("read\n", "{}", (), "TOOL_NOT_FOUND", [], "read"),
    ("Frob-Nicate", "{", (), "TOOL_NOT_FOUND", [], None),
    ("\x1b[2J", "{}", (), "TOOL_NOT_FOUND", [], None),
    ("x" * 65, "{}", (), "TOOL_NOT_FOUND", [], None),
    ("", "{}", (), "TOOL_NOT_FOUND", [], None),
]


def judge(make, gate, name, arguments, problems):
    tool = make.spec("read", schema={}, check=lambda given: Checked(given, problems))
    return gate(
        ActionBuilder.of(make.call(name, arguments), {"read": tool}).read(make.policy(), {}), make.session()
    )


def failures(make, gate):
    found = []
    for name, arguments, problems, code, pointers, suggestion in TABLE:
        verdict = judge(make, gate, name, arguments, problems)
        if code is None:
            right = isinstance(verdict, Allow)
        else:
            told = (
                [error["pointer"] for error in verdict.detail.get("errors", [])]
                if isinstance(verdict, Deny)
                else None
            )
            right = told == pointers and (verdict.code, verdict.suggestion) == (code, suggestion)
        found += [] if right else [(name, arguments)]
    return found


def test_only_a_tool_there_is_called_by_its_schema_passes(make) -> None:
    assert failures(make, known) == []


def test_the_obvious_wrong_gate_is_caught(make, planted) -> None:
    caught = failures(make, planted("known").known)
    assert {("rea", "{}"), ("read", '{"a": 1}')} <= set(caught)


@pytest.mark.parametrize(
    ("name", "problems", "category"),
    [
        ("rea", (), Category.TOOL_NOT_FOUND),
        ("a b", (), Category.TOOL_NOT_FOUND),
        ("read", TWO, Category.INVALID_PARAMETERS),
        ("read", TWO[::-1], Category.TYPE_MISMATCH),
    ],
)
def test_the_category_is_that_of_the_first_problem(make, name, problems, category) -> None:
    assert judge(make, known, name, "{}", problems).category is category


def test_a_rejected_pattern_is_reported_beside_a_schema_error_and_a_secret_is_not_quoted(make) -> None:
    text = {"type": "string"}
    properties = {"id": {**text, KIND_KEY: "resource_id"}, "token": {**text, KIND_KEY: "secret"}}
    tool = make.spec("read", schema={"properties": properties}, check=lambda given: Checked(given, TWO))
    call = make.call("read", '{"id": "a41?offset=2", "token": "T\\u0000K"}')
    verdict = known(ActionBuilder.of(call, {"read": tool}).read(make.policy(), {}), make.session())
    errors = verdict.detail["errors"]
    assert [error.get("rejected_pattern") for error in errors] == [None, None, "embedded_query"]
    assert errors[2]["pointer"] == "/id" and errors[2]["suggestion"] == "a41"
    assert ("rejected pattern", "/id embedded_query") in verdict.facts and "K" not in json.dumps(errors)


def test_no_value_stands_in_the_reason_and_the_detail_is_json(make) -> None:
    verdict = judge(make, known, "read", '{"\\u001b[2J": 1}', (SchemaProblem("/\x1b[2J", "\x1b is unknown"),))
    assert "\x1b" not in verdict.reason and verdict.facts == (("argument", "/\x1b[2J \x1b is unknown"),)
    assert "\x1b" not in json.dumps(dict(verdict.detail))
    assert verdict.detail["phase"] == "validation"
