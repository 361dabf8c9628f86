"""The Messages dialect against real servers over TLS and HTTP/2 that are as strict as the service."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from leeward.runtime.providers.anthropic.response import MessageReader
from leeward.runtime.providers.interface import (
    ErrorKind,
    Message,
    ModelError,
    ModelInfo,
    Reasoning,
    Request,
    Stopped,
    StopReason,
    TextDelta,
    ToolView,
    Usage,
    Verbatim,
)
from leeward.runtime.providers.registry import open_provider
from leeward.runtime.providers.settings import ProviderSettings
from leeward.security.call import ToolCall

SPEC = "anthropic:some-model"
OWN = "some-model@127.0.0.1/v1/messages"
TOOL = ToolView("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
THOUGHT = {"type": "thinking", "thinking": "let me see", "signature": "c2lnbmVk"}
HIDDEN = {"type": "redacted_thinking", "data": "aGlkZGVu"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}
OTHER = {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}}
SAYS = {"type": "text", "text": "I will look."}


@pytest.fixture
def asked(model_server: ModuleType):
    """Return what a model tells that answers with these pieces, and what it was asked."""

    async def run(*pieces: bytes, request: Request = model_server.HELLO, **more: Any):
        async with (
            model_server.serve(model_server.Answer(pieces)) as server,
            model_server.opened(server, SPEC, **more) as provider,
        ):
            try:
                return await model_server.ask(provider, request), server
            except ModelError as error:
                failure = error
        raise failure

    return run


async def test_a_reply_with_everything_and_the_request_for_it(model_server: ModuleType, asked) -> None:
    pieces = model_server.message(THOUGHT, HIDDEN, SAYS, CALL, OTHER, stop="tool_use")
    events, server = await asked(
        *pieces, request=Request((Message("system", "rules"), Message("user", "go")), (TOOL,))
    )
    parts = (THOUGHT, HIDDEN, SAYS, {"type": "tool_use"}, {"type": "tool_use"})
    assert events[:2] == [Reasoning("let me"), Reasoning(" see")]
    assert model_server.text(events) == "I will look."
    assert model_server.calls(events) == [
        ToolCall("toolu_1", "read", '{"path": "a"}'),
        ToolCall("toolu_2", "read", "{}"),
    ]
    assert events[-3:] == [
        Verbatim(OWN, parts),
        Usage(125, 9, 100, 20),
        Stopped(StopReason.TOOL_CALLS),
    ]
    head, body = server.heads[0], server.bodies[0]
    assert (head[":path"], head["x-api-key"], head["anthropic-version"]) == (
        "/v1/messages",
        model_server.KEY,
        "2023-06-01",
    )
    assert "authorization" not in head and server.versions == {"2"}
    marked = {"cache_control": {"type": "ephemeral"}}
    assert body["system"] == [{"type": "text", "text": "rules", **marked}]
    assert body["tools"] == [{"name": "read", "description": "Reads.", "input_schema": TOOL.schema, **marked}]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "go", **marked}]}]


async def test_thoughts_go_back_word_for_word_but_only_to_their_own_model(
    model_server: ModuleType, asked
) -> None:
    pieces = model_server.message(THOUGHT, SAYS, CALL, HIDDEN, OTHER, stop="tool_use")
    events, _ = await asked(*pieces)
    kept = next(event for event in events if isinstance(event, Verbatim))
    # The conversation may have given a call another id; that is the one its result has.
    calls = (ToolCall("toolu_9", "read", '{"path": "a"}'), ToolCall("toolu_2", "read", "{}"))
    history = (
        Message("user", "go"),
        Message("assistant", "I will look.", calls, verbatim=kept),
        Message("tool", "one", call_id="toolu_9"),
        Message("tool", "", call_id="toolu_2"),
    )
    for owner, expected in (
        (OWN, [THOUGHT, SAYS, {**CALL, "id": "toolu_9"}, HIDDEN, OTHER]),
        ("other-model@127.0.0.1/v1/messages", [SAYS, {**CALL, "id": "toolu_9"}, OTHER]),
    ):
        replaced = Message("assistant", history[1].text, calls, verbatim=Verbatim(owner, kept.parts))
        _, server = await asked(*pieces, request=Request((history[0], replaced, *history[2:])))
        turns = server.bodies[0]["messages"]
        assert turns[1]["content"] == expected
        assert [block["content"] for block in turns[2]["content"]] == ["one", "(no output)"]


@pytest.mark.parametrize(("owned", "thinks"), [(True, True), (False, False)])
async def test_it_thinks_only_where_the_last_calls_have_their_thoughts(
    asked, model_server, owned, thinks
) -> None:
    kept = Verbatim(OWN, (THOUGHT, {"type": "tool_use"})) if owned else None
    history = (
        Message("user", "go"),
        Message("assistant", "", (ToolCall("c", "read", "{}"),), verbatim=kept),
        Message("tool", "x", call_id="c"),
    )
    fields = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}
    _, server = await asked(*model_server.message(SAYS), request=Request(history), body=fields)
    assert ("thinking" in server.bodies[0], server.bodies[0]["max_tokens"]) == (thinks, 4000)
    _, server = await asked(
        *model_server.message(SAYS), request=Request(history[:1], max_tokens=7), body=fields
    )
    assert ("thinking" in server.bodies[0], server.bodies[0]["max_tokens"]) == (True, 7)


async def test_marks_stand_at_the_ends_of_the_last_two_turns_of_the_user(
    model_server: ModuleType, asked
) -> None:
    history = [Message("system", "rules"), Message("user", "go")]
    for n in range(3):
        calls = tuple(ToolCall(f"c{n}_{k}", "read", "{}") for k in range(30))
        history += [
            Message("assistant", "", calls),
            *(Message("tool", "x", call_id=call.id) for call in calls),
        ]
    _, server = await asked(
        *model_server.message(SAYS), request=Request((*history, Message("user", "and?")), (TOOL,))
    )
    body = server.bodies[0]
    ends = [turn["content"][-1] for turn in body["messages"] if turn["role"] == "user"]
    assert ["cache_control" in end for end in ends] == [False, False, True, True]
    assert ends[-1]["text"] == "and?"
    assert json.dumps(body).count("cache_control") == 4


async def test_the_prefix_is_the_same_bytes_in_the_next_request(model_server: ModuleType, asked) -> None:
    history = (
        Message("user", "go"),
        Message("assistant", "", (ToolCall("bad id!", "re ad", "{broken"),)),
        Message("tool", "x", call_id="bad id!"),
    )
    later = (*history, Message("assistant", "done"), Message("user", "more"))
    (_, first), (_, second) = [
        await asked(*model_server.message(SAYS), request=Request(h)) for h in (history, later)
    ]
    plain = [
        json.dumps(s.bodies[0]["messages"]).replace(', "cache_control": {"type": "ephemeral"}', "")
        for s in (first, second)
    ]
    assert plain[1].startswith(plain[0][:-1])


ENDS = [
    ("end_turn", (SAYS,), StopReason.STOP),
    ("end_turn", (CALL,), StopReason.TOOL_CALLS),
    ("tool_use", (SAYS,), StopReason.STOP),
    ("max_tokens", (SAYS,), StopReason.LENGTH),
    ("model_context_window_exceeded", (SAYS,), StopReason.LENGTH),
    ("refusal", (SAYS,), StopReason.CONTENT_FILTER),
    ("something_new", (SAYS,), StopReason.STOP),
]


@pytest.mark.parametrize(("stop", "blocks", "reason"), ENDS)
async def test_how_a_reply_ends(model_server: ModuleType, asked, stop, blocks, reason) -> None:
    events, _ = await asked(*model_server.message(*blocks, stop=stop))
    assert events[-1] == Stopped(reason)


IN_STREAM = [
    ("overloaded_error", ErrorKind.UNAVAILABLE, True),
    ("api_error", ErrorKind.UNAVAILABLE, True),
    ("timeout_error", ErrorKind.UNAVAILABLE, True),
    ("rate_limit_error", ErrorKind.RATE_LIMITED, True),
    ("billing_error", ErrorKind.RATE_LIMITED, False),
    ("authentication_error", ErrorKind.AUTH, False),
    ("permission_error", ErrorKind.AUTH, False),
    ("invalid_request_error", ErrorKind.BAD_REQUEST, False),
    ("request_too_large", ErrorKind.BAD_REQUEST, False),
    ("not_found_error", ErrorKind.BAD_REQUEST, False),
]


@pytest.mark.parametrize(("kind", "expected", "passing"), IN_STREAM)
async def test_an_error_in_mid_stream(model_server: ModuleType, asked, kind, expected, passing) -> None:
    told = {"type": "error", "error": {"type": kind, "message": f"no\nluck, {model_server.KEY}"}}
    with pytest.raises(ModelError) as caught:
        await asked(*model_server.message(SAYS, CALL, end=False), model_server.event(told))
    assert (caught.value.kind, caught.value.passing) == (expected, passing)
    assert str(caught.value) == "the model's server reports: no luck, [key]"


STATUS = [
    (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ErrorKind.UNAVAILABLE,
        True,
    ),
    (
        401,
        {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
        ErrorKind.AUTH,
        False,
    ),
    (
        402,
        {"type": "error", "error": {"type": "billing_error", "message": "pay"}},
        ErrorKind.RATE_LIMITED,
        False,
    ),
    (
        413,
        {"type": "error", "error": {"type": "request_too_large", "message": "x"}},
        ErrorKind.BAD_REQUEST,
        False,
    ),
]


@pytest.mark.parametrize(("status", "body", "kind", "passing"), STATUS)
async def test_an_error_before_the_stream(model_server: ModuleType, status, body, kind, passing) -> None:
    answer = model_server.Answer([json.dumps(body).encode()], status, "application/json")
    async with model_server.serve(answer) as server, model_server.opened(server, SPEC) as provider:
        with pytest.raises(
            ModelError, match=rf"127.0.0.1 .* \({status}\): {body['error']['message']}"
        ) as caught:
            await model_server.ask(provider)
    assert (caught.value.kind, caught.value.passing) == (kind, passing)


@pytest.mark.parametrize("whole", [True, False], ids=["arguments", "nothing"])
async def test_a_call_that_was_cut_is_not_made_to_look_whole(model_server: ModuleType, asked, whole) -> None:
    cut = {**CALL, "input": '{"path": "/e' if whole else ""}
    events, _ = await asked(*model_server.message(OTHER, cut, stop="max_tokens"))
    assert [call.arguments for call in model_server.calls(events)] == ["{}", cut["input"]]
    assert events[-1] == Stopped(StopReason.LENGTH)


async def test_64_calls_a_byte_at_a_time_and_ids_given_twice(model_server: ModuleType, asked) -> None:
    blocks = [{**CALL, "id": f"toolu_{n % 32}", "input": {"n": n}} for n in range(64)]
    whole = b"".join(
        model_server.message({"type": "text", "text": "naïve \U0001f600"}, *blocks, stop="tool_use")
    )
    events, _ = await asked(*(whole[n : n + 3] for n in range(0, len(whole), 3)))
    found = model_server.calls(events)
    assert [json.loads(call.arguments)["n"] for call in found] == list(range(64))
    assert len({call.id for call in found}) == 64
    assert model_server.text(events) == "naïve \U0001f600"


def test_no_half_reply_is_told_whatever_is_missing(model_server: ModuleType) -> None:
    pieces = [piece.decode() for piece in model_server.message(THOUGHT, SAYS, CALL, stop="tool_use")]
    whole = [piece.partition("data: ")[2].strip() for piece in pieces]
    for count in range(len(whole) - 2):
        reader = MessageReader()
        seen = [event for data in whole[:count] for event in model_server.fed(reader, data)]
        assert all(isinstance(event, TextDelta | Reasoning) for event in seen)
        with pytest.raises(ModelError) as caught:
            list(reader.finish())
        assert caught.value.passing


NONSENSE: list[Any] = [
    {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
    [1],
    "{",
]


@pytest.mark.parametrize("data", NONSENSE, ids=["never-begun", "no-object", "no-json"])
def test_what_is_not_the_dialect_is_said_to_be(data) -> None:
    with pytest.raises(ModelError) as caught:
        MessageReader().feed(data if isinstance(data, str) else json.dumps(data))
    assert caught.value.kind is ErrorKind.PROTOCOL


def test_values_of_any_kind_in_any_place_raise_nothing_else() -> None:
    names = ("type", "index", "delta", "content_block", "message", "usage", "error", "content")
    told = []
    for kind in (
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_delta",
        "message",
        "error",
        "new",
    ):
        for name in names:
            for value in (None, 3, "x", [], ["x"], {}, {"type": 3}, {"type": "text_delta", "text": 3}):
                reader = MessageReader()
                try:
                    reader.feed(json.dumps({"type": kind, name: value}))
                    list(reader.finish())
                except ModelError as error:
                    told.append(error)
    assert ErrorKind.PROTOCOL in {error.kind for error in told}
    assert all(str(error) for error in told)


async def test_a_reply_that_was_not_streamed(model_server: ModuleType) -> None:
    whole = {
        "type": "message",
        "content": [SAYS, CALL],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    answer = model_server.Answer([json.dumps(whole).encode()], media_type="application/json")
    async with model_server.serve(answer) as server, model_server.opened(server, SPEC) as provider:
        events = await model_server.ask(provider)
    assert model_server.text(events) == "I will look."
    assert model_server.calls(events) == [ToolCall("toolu_1", "read", '{"path": "a"}')]
    assert events[-2:] == [Usage(3, 4), Stopped(StopReason.TOOL_CALLS)]


async def test_the_models_are_listed_page_by_page(model_server: ModuleType) -> None:
    pages = [
        {
            "data": [{"id": "a", "display_name": "A", "max_input_tokens": 200_000}],
            "has_more": True,
            "last_id": "a",
        },
        {
            "data": [{"id": "b", "display_name": "B"}, {"display_name": "no id"}, 3],
            "has_more": False,
            "last_id": "b",
        },
    ]
    answers = [
        model_server.Answer([json.dumps(page).encode()], media_type="application/json") for page in pages
    ]
    async with model_server.serve(*answers) as server, model_server.opened(server, SPEC) as provider:
        assert await provider.list_models() == (ModelInfo("a", "A", 200_000), ModelInfo("b", "B"))
        assert [(head[":method"], head[":path"], head[":query"]) for head in server.heads] == [
            ("GET", "/v1/models", ""),
            ("GET", "/v1/models", "after_id=a"),
        ]


@pytest.mark.parametrize("written", ["", "/", "/v1", "/v1/", "/v1/messages"])
async def test_however_much_of_the_address_is_written(model_server: ModuleType, written) -> None:
    async with model_server.serve(model_server.Answer(model_server.message(SAYS))) as server:
        base = server.url.removesuffix("/v1") + "/gateway" + written
        async with model_server.opened(server, SPEC, base_url=base, auth_header="Authorization") as provider:
            await model_server.ask(provider)
        assert server.heads[0][":path"] == "/gateway/v1/messages"
        assert server.heads[0]["authorization"] == f"Bearer {model_server.KEY}"
        assert "x-api-key" not in server.heads[0]


async def test_without_a_key_nothing_is_sent(model_server: ModuleType) -> None:
    async with open_provider(SPEC, ProviderSettings()) as provider:
        with pytest.raises(ModelError, match="ANTHROPIC_API_KEY") as caught:
            await model_server.ask(provider)
    assert caught.value.kind is ErrorKind.AUTH
