"""Gemini through its own Chat Completions dialect, with the quirks its service shows, over TLS and HTTP/2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.runtime.providers.interface import (
    ErrorKind,
    Message,
    ModelError,
    ModelInfo,
    Reasoning,
    Request,
    Stopped,
    StopReason,
    ToolView,
    Usage,
    Verbatim,
)
from leeward.runtime.providers.openai.gemini import narrowed
from leeward.runtime.providers.registry import open_provider
from leeward.runtime.providers.settings import ProviderSettings
from leeward.security.call import ToolCall

SPEC = "gemini:gemini-9-some"
SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}


@pytest.fixture(autouse=True)
def strict(model_server: ModuleType, dialect_rules: ModuleType) -> Iterator[None]:
    """The servers refuse what Google refuses."""
    model_server.RULES["/chat/completions"] = dialect_rules.check_gemini
    yield
    model_server.RULES["/chat/completions"] = dialect_rules.check_chat


def call(name: str, arguments: object, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, "type": "function", **more}


def piece(model_server: ModuleType, delta: dict[str, Any], **choice: Any) -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 33}
    return model_server.event(
        {**model_server.chunk({"role": "assistant", **delta}, **choice), "usage": usage}
    )


async def asked(model_server: ModuleType, *pieces: bytes, request: Request | None = None, spec: str = SPEC):
    async with (
        model_server.serve(model_server.Answer(pieces)) as server,
        model_server.opened(server, spec) as provider,
    ):
        try:
            return await model_server.ask(provider, request or model_server.HELLO), server
        except ModelError as error:
            failure = error
    raise failure


QUIRKS = {
    "no-index": [[call("f", '{"a": 1}', id="x")], [call("g", "{}", id="y")]],
    "no-id": [[call("f", '{"a": 1}', id="")], [call("g", "{}", id="")]],
    "one-delta": [[call("f", '{"a": 1}'), call("g", "{}")]],
    "all-at-index-0": [[call("f", '{"a": 1}', index=0)], [call("g", "{}", index=0)]],
    "one-id-for-all": [[call("f", '{"a": 1}', id="x")], [call("g", "{}", id="x")]],
    "objects": [[call("f", {"a": 1}, id="x"), call("g", {}, id="y")]],
    "nothing": [[call("f", '{"a": 1}', id="x"), call("g", "", id="y")]],
}


@pytest.mark.parametrize("deltas", QUIRKS.values(), ids=QUIRKS)
@pytest.mark.parametrize("finish", ["stop", "STOP", "tool_calls"])
async def test_calls_however_they_are_told(model_server: ModuleType, deltas, finish) -> None:
    pieces = [piece(model_server, {"tool_calls": batch}) for batch in deltas]
    pieces += [
        model_server.event({"choices": []}),
        piece(model_server, {}, finish_reason=finish),
        model_server.event("[DONE]"),
    ]
    events, _ = await asked(model_server, *pieces)
    found = model_server.calls(events)
    assert [(one.tool, json.loads(one.arguments)) for one in found] == [("f", {"a": 1}), ("g", {})]
    assert all(one.id for one in found) and len({one.id for one in found}) == 2
    assert events[-2:] == [Usage(10, 23), Stopped(StopReason.TOOL_CALLS)]


async def test_signatures_go_back_on_the_calls_they_came_with(model_server: ModuleType) -> None:
    pieces = [
        piece(model_server, {"tool_calls": [call("f", "{}", id="x", extra_content=SIGNED)]}),
        piece(model_server, {"tool_calls": [call("g", "{}", id="y")]}, finish_reason="stop"),
    ]
    events, _ = await asked(model_server, *pieces)
    kept = next(event for event in events if isinstance(event, Verbatim))
    calls = tuple(model_server.calls(events))
    results = tuple(Message("tool", "ok", call_id=one.id) for one in calls)
    message = Message("assistant", "", calls, verbatim=kept)
    _, server = await asked(
        model_server, *pieces, request=Request((Message("user", "go"), message, *results))
    )
    sent = server.bodies[0]["messages"][1]["tool_calls"]
    assert [one.get("extra_content") for one in sent] == [SIGNED, None]


@pytest.mark.parametrize(("spec", "signed"), [(SPEC, True), ("gemini:gemini-2.5-pro", False)])
async def test_calls_of_another_model_go_under_the_documented_word(
    model_server, dialect_rules, spec, signed
) -> None:
    model_server.RULES["/chat/completions"] = dialect_rules.check_chat
    calls = (ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}"))
    verbatim = Verbatim(
        "claude@elsewhere", ({"type": "thinking"}, {"type": "tool_use"}, {"type": "tool_use"})
    )
    history = (
        Message("user", "go"),
        Message("assistant", "", calls, verbatim=verbatim),
        *(Message("tool", "ok", call_id=one.id) for one in calls),
    )
    _, server = await asked(model_server, *model_server.says("yes"), request=Request(history), spec=spec)
    sent = server.bodies[0]["messages"][1]["tool_calls"]
    word = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [one.get("extra_content") for one in sent] == ([word, None] if signed else [None, None])


async def test_thoughts_marked_in_the_content_are_no_answer(model_server: ModuleType) -> None:
    thought = {"content": "<thought>hm, ", "extra_content": {"google": {"thought": True}}}
    said = {"content": "yes", "extra_content": SIGNED}
    events, _ = await asked(
        model_server, piece(model_server, thought), piece(model_server, said, finish_reason="stop")
    )
    assert events[0] == Reasoning("hm, ")
    assert model_server.text(events) == "yes"
    (kept,) = [event for event in events if isinstance(event, Verbatim)]
    message = Message("assistant", "yes", verbatim=kept)
    history = (Message("user", "go"), message, Message("user", "on"))
    _, server = await asked(model_server, *model_server.says("x"), request=Request(history))
    assert server.bodies[0]["messages"][1]["extra_content"] == SIGNED


async def test_a_reply_of_nothing_is_one_that_passes(model_server: ModuleType) -> None:
    pieces = [
        piece(model_server, {}, finish_reason="function_call_filter: MALFORMED_FUNCTION_CALL"),
        model_server.event("[DONE]"),
    ]
    with pytest.raises(ModelError) as caught:
        await asked(model_server, *pieces)
    assert caught.value.passing


ERRORS = [
    (
        400,
        {
            "code": 400,
            "message": "API key not valid.",
            "status": "INVALID_ARGUMENT",
            "details": [{"reason": "API_KEY_INVALID"}],
        },
        ErrorKind.AUTH,
    ),
    (400, {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}, ErrorKind.BAD_REQUEST),
    (429, {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}, ErrorKind.RATE_LIMITED),
    (503, {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}, ErrorKind.UNAVAILABLE),
]


@pytest.mark.parametrize(("status", "error", "kind"), ERRORS, ids=["key", "request", "rate", "overload"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_errors_in_google_s_words(model_server: ModuleType, status, error, kind, streamed) -> None:
    body = json.dumps([{"error": error}] if not streamed else {"error": error})
    answer = (
        model_server.Answer([model_server.event(body)])
        if streamed
        else model_server.Answer([body.encode()], status, "application/json")
    )
    async with model_server.serve(answer) as server, model_server.opened(server, SPEC) as provider:
        with pytest.raises(ModelError, match=error["message"]) as caught:
            await model_server.ask(provider)
    assert caught.value.kind is kind


async def test_models_are_listed_as_they_are_asked_for(model_server: ModuleType) -> None:
    answer = model_server.Answer(
        [b'{"data": [{"id": "models/gemini-9-some"}]}'], media_type="application/json"
    )
    async with model_server.serve(answer) as server, model_server.opened(server, SPEC) as provider:
        assert await provider.list_models() == (ModelInfo("gemini-9-some"),)


async def test_without_a_key_nothing_is_sent(model_server: ModuleType) -> None:
    async with open_provider(SPEC, ProviderSettings()) as provider:
        with pytest.raises(ModelError, match="GEMINI_API_KEY"):
            await model_server.ask(provider)


NESTED = {
    "$schema": "x",
    "type": "object",
    "additionalProperties": False,
    "$defs": {
        "Place": {"type": "object", "properties": {"lat": {"type": "number", "exclusiveMinimum": -90}}}
    },
    "properties": {
        "additionalProperties": {"type": "string", "description": "a property of that name"},
        "limit": {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
            "default": None,
            "title": "Limit",
        },
        "where": {"$ref": "#/$defs/Place", "description": "d"},
        "kind": {"const": "a"},
        "size": {"type": "integer", "enum": [1, 2]},
        "tags": {"type": ["array", "null"], "items": {"oneOf": [{"type": "string"}, {"type": "number"}]}},
    },
    "required": ["where"],
}


async def test_schemas_are_put_into_words_google_knows(model_server: ModuleType) -> None:
    assert narrowed(NESTED) == {
        "type": "object",
        "properties": {
            "additionalProperties": {"type": "string", "description": "a property of that name"},
            "limit": {"type": "integer", "minimum": 1, "nullable": True, "title": "Limit"},
            "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "description": "d"},
            "kind": {"enum": ["a"]},
            "size": {"type": "integer"},
            "tags": {
                "type": "array",
                "nullable": True,
                "items": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
        },
        "required": ["where"],
    }
    bare = ToolView("now", "Says the time.", {"type": "object", "properties": {}})
    properties = {
        name: value for name, value in NESTED["properties"].items() if name != "additionalProperties"
    }
    tool = ToolView("go", "Goes.", {**NESTED, "properties": properties})
    _, server = await asked(
        model_server, *model_server.says("x"), request=Request(model_server.HELLO.messages, (tool, bare))
    )
    assert [sorted(one["function"]) for one in server.bodies[0]["tools"]] == [
        ["description", "name", "parameters"],
        ["description", "name"],
    ]


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    tree = {
        "$ref": "#/$defs/T",
        "$defs": {"T": {"type": "object", "properties": {"of": {"$ref": "#/$defs/T"}}}},
    }
    assert len(json.dumps(narrowed(tree))) < 10_000


WORDS = st.sampled_from(
    ["type", "properties", "items", "anyOf", "oneOf", "enum", "const", "$ref", "$defs", "default", "required"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["string", "null", "#/$defs/x", "object"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(WORDS, VALUES, max_size=5))
@settings(max_examples=settings().max_examples * 2)
def test_any_schema_becomes_one_of_words_google_knows(schema) -> None:
    def check(told: dict[str, Any]) -> None:
        assert not told.keys() & {"oneOf", "const", "$ref", "$defs"}
        for inner in (
            *([told["items"]] if "items" in told else []),
            *told.get("properties", {}).values(),
            *told.get("anyOf", ()),
        ):
            check(inner)

    told = narrowed(schema)
    check(told)
    json.dumps(told)
