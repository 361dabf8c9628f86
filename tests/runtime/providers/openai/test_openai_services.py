"""Differences between Chat Completions services, and hard streams, over TLS and HTTP/2."""

from __future__ import annotations

import email.utils
import json
import time
from types import ModuleType
from typing import Any

import pytest
import trio

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
from leeward.runtime.providers.registry import open_models
from leeward.runtime.providers.settings import NetworkSettings, ProviderSettings
from leeward.security.call import ToolCall

SPEC = "openai:some-model"


def body_of(data: object) -> list[bytes]:
    return [json.dumps(data).encode()]


async def failure(model_server: ModuleType, answer: Any, **more: Any) -> ModelError:
    async with model_server.serve(answer) as server, model_server.opened(server, SPEC, **more) as provider:
        with pytest.raises(ModelError) as caught:
            await model_server.ask(provider)
    assert model_server.KEY not in f"{caught.value!r} {caught.value.__cause__!r}"
    return caught.value


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thoughts_are_told_apart_from_the_answer(model_server: ModuleType, field: str) -> None:
    chunk, event = model_server.chunk, model_server.event
    thoughts = [event(chunk({"content": None, field: text})) for text in ("let me ", "see \ud83d")]
    async with model_server.serve(model_server.Answer([*thoughts, *model_server.says("yes")])) as server:
        async with model_server.opened(server, SPEC) as provider:
            events = await model_server.ask(provider)
    assert [e for e in events if isinstance(e, Reasoning | TextDelta)] == [
        Reasoning("let me "),
        Reasoning("see \ufffd"),
        TextDelta("yes"),
    ]


async def test_what_a_service_wants_back_goes_back_and_to_no_other(model_server: ModuleType) -> None:
    details = [
        {"index": 0, "type": "reasoning.text", "text": "a", "signature": None},
        {"index": 0, "type": "reasoning.text", "text": "b", "signature": "s", "format": "x-v1"},
        {"index": 1, "type": "reasoning.encrypted", "data": "ZZ"},
    ]
    pieces = [
        model_server.event(model_server.chunk({"content": "", "reasoning_details": [d]})) for d in details
    ]
    pieces += [
        model_server.event(model_server.chunk({"content": "", "reasoning_content": text}))
        for text in ("th", "ink")
    ]
    async with model_server.serve(model_server.Answer([*pieces, *model_server.says("yes")])) as server:
        async with model_server.opened(server, SPEC) as provider:
            events = await model_server.ask(provider)
            kept = next(event for event in events if isinstance(event, Verbatim))
            for owner in (kept.owner, "some-model@elsewhere"):
                message = Message("assistant", "yes", verbatim=Verbatim(owner, kept.parts))
                await model_server.ask(
                    provider, Request((Message("user", "x"), message, Message("user", "y")))
                )
        own, foreign = (body["messages"][1] for body in server.bodies[1:])
    assert own["reasoning_content"] == "think"
    assert own["reasoning_details"] == [
        {"index": 0, "type": "reasoning.text", "text": "ab", "signature": "s", "format": "x-v1"},
        {"index": 1, "type": "reasoning.encrypted", "data": "ZZ"},
    ]
    assert foreign == {"role": "assistant", "content": "yes"}


async def test_paths_headers_and_fields_as_azure_wants_them(model_server: ModuleType) -> None:
    async with model_server.serve(model_server.Answer(model_server.says("hi"))) as server:
        more = {
            "base_url": server.url.removesuffix("/v1") + "/openai/deployments/mine",
            "auth_header": "api-key",
            "headers": {"X-Title": "Leeward"},
            "query": {"api-version": "2024-10-21"},
            "body": {"reasoning_effort": "low", "model": "not this one", "max_tokens": 5},
            "label": "azure",
        }
        async with model_server.opened(server, SPEC, **more) as provider:
            assert provider.name == "azure:some-model"
            await model_server.ask(provider)
            await model_server.ask(provider, Request(model_server.HELLO.messages, max_tokens=9))
        head, body = server.heads[0], server.bodies[0]
        assert (head[":path"], head[":query"]) == (
            "/openai/deployments/mine/chat/completions",
            "api-version=2024-10-21",
        )
        assert (head["api-key"], head["x-title"]) == (model_server.KEY, "Leeward")
        assert "authorization" not in head
        assert (body["model"], body["reasoning_effort"], body["max_tokens"]) == ("some-model", "low", 5)
        assert server.bodies[1]["max_tokens"] == 9


@pytest.mark.parametrize(
    ("refused", "left_out"),
    [
        ("Unrecognized request argument supplied: stream_options", {"stream_options"}),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", {"max_tokens"}),
    ],
)
async def test_a_field_the_server_does_not_know_is_left_out_from_then_on(
    model_server: ModuleType, refused: str, left_out: set[str]
) -> None:
    no = model_server.Answer(body_of({"error": {"message": refused}}), 400, "application/json")
    async with model_server.serve(no, model_server.Answer(model_server.says("hi"))) as server:
        async with model_server.opened(server, SPEC) as provider:
            for _ in range(2):
                asked = Request(model_server.HELLO.messages, max_tokens=9)
                assert model_server.text(await model_server.ask(provider, asked)) == "hi"
        assert [left_out <= body.keys() for body in server.bodies] == [True, False, False]


async def test_the_same_refusal_again_is_told(model_server: ModuleType) -> None:
    no = model_server.Answer(body_of({"error": {"message": "stream_options"}}), 400, "application/json")
    assert (await failure(model_server, no)).kind is ErrorKind.BAD_REQUEST


AFTER: list[tuple[int, dict[str, str], object, float | None, bool]] = [
    (429, {"retry-after": "7"}, {}, 7.0, True),
    (429, {"retry-after": "0.5"}, {}, 0.5, True),
    (429, {"retry-after": "7", "retry-after-ms": "250"}, {}, 0.25, True),
    (503, {"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, {}, 0.0, True),
    (429, {"retry-after": "soon"}, {}, None, True),
    (429, {"retry-after": "-1"}, {}, None, True),
    (429, {"retry-after": "inf"}, {}, None, True),
    (429, {}, [{"error": {"code": 429, "details": [{"retryDelay": "37s"}]}}], 37.0, True),
    (429, {}, {"error": {"code": "insufficient_quota", "message": "no money"}}, None, False),
    (402, {}, {}, None, False),
    (503, {"x-should-retry": "false"}, {}, None, False),
    (409, {}, {}, None, True),
]


@pytest.mark.parametrize(("status", "headers", "body", "seconds", "passing"), AFTER)
async def test_when_to_ask_again(model_server: ModuleType, status, headers, body, seconds, passing) -> None:
    error = await failure(
        model_server, model_server.Answer(body_of(body), status, "application/json", headers)
    )
    assert (error.retry_after, error.passing) == (seconds, passing)


async def test_a_date_to_ask_again_at(model_server: ModuleType) -> None:
    headers = {"retry-after": email.utils.formatdate(time.time() + 60, usegmt=True)}
    error = await failure(model_server, model_server.Answer((), 429, "text/plain", headers))
    assert error.retry_after is not None and 50 < error.retry_after <= 60


async def test_a_secret_in_a_header_is_never_told(model_server: ModuleType) -> None:
    secret = "gateway-" + "0" * 16
    answer = model_server.Answer(
        body_of({"error": {"message": f"no such tenant {secret}"}}), 400, "application/json"
    )
    error = await failure(model_server, answer, headers={"X-Tenant": secret})
    assert str(error).endswith("no such tenant [key]")


LISTS: list[tuple[object, tuple[ModelInfo, ...]]] = [
    (
        {"object": "list", "data": [{"id": "a"}, {"id": "b", "owned_by": "me"}]},
        (ModelInfo("a"), ModelInfo("b")),
    ),
    ({"data": [{"id": "x/y", "name": "Y", "context_length": 8192}]}, (ModelInfo("x/y", "Y", 8192),)),
    ({"data": [{"id": "v", "max_model_len": 4096}, {"id": 3}, "x", {}]}, (ModelInfo("v", "", 4096),)),
    ({}, ()),
]


@pytest.mark.parametrize(("told", "models"), LISTS)
async def test_the_models_a_service_lists(model_server: ModuleType, told, models) -> None:
    answer = model_server.Answer(body_of(told), media_type="application/json")
    async with model_server.serve(answer) as server, model_server.opened(server, SPEC) as provider:
        assert await provider.list_models() == models
        assert (server.heads[0][":method"], server.heads[0][":path"]) == ("GET", "/v1/models")
        assert server.heads[0]["authorization"] == f"Bearer {model_server.KEY}"


@pytest.mark.parametrize(("pieces", "status"), [([b"<p>"], 200), ([b"[]"], 200), ([], 404), ([b"x"], 401)])
async def test_a_list_that_cannot_be_had(model_server: ModuleType, pieces, status) -> None:
    answer = model_server.Answer(pieces, status, "text/plain")
    async with model_server.serve(answer) as server, model_server.opened(server, SPEC) as provider:
        with pytest.raises(ModelError):
            await provider.list_models()


USAGE: list[tuple[dict[str, Any], Usage]] = [
    (
        {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        Usage(9, 2, 4),
    ),
    ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 3}, Usage(9, 2, 3)),
    ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 31}, Usage(9, 22)),
    ({"prompt_tokens": 9, "completion_tokens": None, "prompt_tokens_details": None}, Usage(9, 0)),
    ({"prompt_tokens": -1, "completion_tokens": True, "total_tokens": "x"}, Usage(0, 0)),
]


@pytest.mark.parametrize(("told", "usage"), USAGE)
async def test_what_a_reply_cost(model_server: ModuleType, told, usage) -> None:
    pieces = [
        *model_server.says("hi")[:-2],
        model_server.event({"choices": [], "usage": told}),
        model_server.event("[DONE]"),
    ]
    async with (
        model_server.serve(model_server.Answer(pieces)) as server,
        model_server.opened(server, SPEC) as provider,
    ):
        assert usage in await model_server.ask(provider)


async def test_2_000_tokens_in_chunks_of_one_byte(model_server: ModuleType) -> None:
    one = model_server.event({"choices": [{"delta": {"content": "\u00f6"}}]})
    whole = one * 2000 + model_server.event("[DONE]")
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in whole) + b"0\r\n\r\n"

    async def answer(stream: trio.SocketStream) -> None:
        start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        await stream.send_all(start + chunks)

    async with model_server.serve_bytes(answer) as server, model_server.opened(server, SPEC) as provider:
        assert model_server.text(await model_server.ask(provider)) == "\u00f6" * 2000


async def test_invalid_utf_8_and_a_huge_list_of_tools(model_server: ModuleType) -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(50)}}
    tools = tuple(ToolView(f"tool_{n}", "Does it. " * 100, schema) for n in range(500))
    broken = model_server.event(model_server.chunk({"content": "a?b"})).replace(b"?", b"\xff\xfe")
    async with model_server.serve(model_server.Answer([broken, *model_server.says("c")])) as server:
        async with model_server.opened(server, SPEC) as provider:
            events = await model_server.ask(provider, Request(model_server.HELLO.messages, tools))
        assert len(server.bodies[0]["tools"]) == 500
    assert model_server.text(events) == "a\ufffd\ufffdbc"
    assert events[-1] == Stopped(StopReason.STOP)


@pytest.mark.parametrize("busy", [False, True], ids=["alone", "beside-a-busy-reply"])
async def test_a_silent_stream_is_given_up_even_beside_a_busy_one(
    model_server: ModuleType, busy: bool
) -> None:
    chunk = model_server.event(model_server.chunk({"content": "x"}))
    silent = model_server.Answer([chunk], hang=True)
    lively = model_server.Answer([chunk] * 200, pause=0.02, hang=True)
    async with (
        model_server.serve(*([lively] if busy else []), silent) as server,
        model_server.opened(server, SPEC, stall_timeout=0.3) as provider,
        trio.open_nursery() as nursery,
    ):
        if busy:
            nursery.start_soon(model_server.ask, provider)
            await server.asked.wait()
        with trio.fail_after(30), pytest.raises(ModelError, match="silent") as caught:
            async with provider.stream(model_server.HELLO) as events:
                async for _ in events:
                    pass
        assert caught.value.passing
        assert len(server.clients) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("ping", [b": ping\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'])
async def test_signs_of_life_are_believed_for_a_while(model_server: ModuleType, ping: bytes) -> None:
    async with (
        model_server.serve(model_server.Answer([ping] * 1000, pause=0.01, hang=True)) as server,
        model_server.opened(server, SPEC, stall_timeout=0.4) as provider,
    ):
        started = trio.current_time()
        with pytest.raises(ModelError, match="sent only keep-alives"):
            await model_server.ask(provider)
        assert trio.current_time() - started > 1.55


async def test_all_models_of_a_process_share_a_connection(model_server: ModuleType) -> None:
    openai, anthropic = (
        model_server.Answer(model_server.says("a")),
        model_server.Answer(model_server.message()),
    )
    async with (
        model_server.serve(openai, anthropic) as server,
        open_models(NetworkSettings(server.ca_file)) as models,
    ):
        settings = ProviderSettings(base_url=server.url)
        for spec in ("openai:x", "anthropic:y"):
            await model_server.ask(models.provider(spec, settings))
        assert [head[":path"] for head in server.heads] == ["/v1/chat/completions", "/v1/messages"]
        assert len(server.clients) == 1


async def test_calls_that_came_with_nothing_are_told_apart(model_server: ModuleType) -> None:
    piece = model_server.event(
        model_server.chunk({"tool_calls": [model_server.call_delta(0, name="f", arguments='{"a":1}')]})
    )
    async with model_server.serve(model_server.Answer([piece, piece, *model_server.says()])) as server:
        async with model_server.opened(server, SPEC) as provider:
            found = model_server.calls(await model_server.ask(provider))
    assert [(call.tool, call.arguments) for call in found] == [("f", '{"a":1}')] * 2
    assert len({call.id for call in found}) == 2
    assert all(isinstance(call, ToolCall) for call in found)
