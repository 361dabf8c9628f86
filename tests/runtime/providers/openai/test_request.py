"""The Chat Completions dialect against real servers: TLS, HTTP/2, and any bytes they send."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
import trio

from leeward.runtime.providers.interface import (
    CallRequested,
    ErrorKind,
    Message,
    ModelError,
    ModelEvent,
    Provider,
    ProviderSetupError,
    Request,
    Stopped,
    StopReason,
    TextDelta,
    ToolView,
    Usage,
)
from leeward.runtime.providers.registry import open_provider
from leeward.runtime.providers.settings import NetworkSettings, ProviderSettings
from leeward.security.call import ToolCall

KEY = "sk-test-" + "0" * 32
HELLO = Request((Message("user", "hello"),))


NETWORK = ("proxy", "connect_timeout", "stall_timeout")


@asynccontextmanager
async def opened(server: Any, **more: Any) -> AsyncIterator[Provider]:
    network = NetworkSettings(server.ca_file, **{name: more.pop(name) for name in NETWORK if name in more})
    settings = ProviderSettings(base_url=server.url, api_key=KEY, **more)
    async with open_provider("openai:some-model", settings, network) as provider:
        yield provider


async def ask(provider: Provider, request: Request = HELLO) -> list[ModelEvent]:
    async with provider.stream(request) as events:
        return [event async for event in events]


async def asked(server: Any, **more: Any) -> list[ModelEvent]:
    with trio.fail_after(30):
        async with opened(server, **more) as provider:
            return await ask(provider)


async def failure(server: Any, **more: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await asked(server, **more)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def text(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls(events: list[ModelEvent]) -> list[ToolCall]:
    return [event.requested for event in events if isinstance(event, CallRequested)]


async def test_text_arrives_in_pieces_and_the_request_is_what_the_dialect_wants(
    model_server: ModuleType,
) -> None:
    history = (
        Message("system", "rules"),
        Message("user", "look"),
        Message(
            "assistant", "", (ToolCall("c1", "read", '{"path": "a"}'), ToolCall("c2", "read", "{broken"))
        ),
        Message("tool", "data \ud800", call_id="c1"),
        Message("tool", "no", call_id="c2"),
    )
    tool = ToolView("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
    async with model_server.serve(model_server.Answer(model_server.says("Hel", "lo"))) as server:
        async with opened(server) as provider:
            events = await ask(provider, Request(history, (tool,), max_tokens=9))
        assert (text(events), events[-2:]) == ("Hello", [Usage(11, 7), Stopped(StopReason.STOP)])
        assert server.versions == {"2"}
        assert server.heads[0]["authorization"] == f"Bearer {KEY}"
        assert server.heads[0][":path"] == "/v1/chat/completions"
        body = server.bodies[0]
    assert (body["model"], body["stream"], body["max_tokens"]) == ("some-model", True, 9)
    assert body["stream_options"] == {"include_usage": True}
    assert body["tools"][0]["function"]["parameters"]["properties"] == {"path": {"type": "string"}}
    assistant, first = body["messages"][2:4]
    assert assistant["content"] is None
    assert assistant["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "a"}'}
    # A server that parses old arguments must not refuse the conversation over a broken one.
    assert json.loads(assistant["tool_calls"][1]["function"]["arguments"]) == {"invalid_json": "{broken"}
    assert first == {"role": "tool", "tool_call_id": "c1", "content": "data ?"}


async def test_no_tools_no_bound_and_no_key_are_left_out(model_server: ModuleType) -> None:
    async with model_server.serve(model_server.Answer(model_server.says("hi"))) as server:
        settings, network = ProviderSettings(base_url=f"{server.url}/"), NetworkSettings(server.ca_file)
        async with open_provider("openai:m", settings, network) as provider:
            await ask(provider)
        assert not {"tools", "max_tokens", "max_completion_tokens"} & server.bodies[0].keys()
        assert "authorization" not in server.heads[0]
        assert server.heads[0][":path"] == "/v1/chat/completions"


async def test_calls_are_assembled_from_pieces_in_the_order_asked(model_server: ModuleType) -> None:
    delta = model_server.call_delta
    batches = [
        [delta(0, id="a", name="read", arguments=""), delta(1, id="b", name="grep", arguments='{"pat')],
        [delta(1, arguments='tern": "x"}')],
        [delta(0, arguments='{"path": "p"}')],
    ]
    async with model_server.serve(model_server.Answer(model_server.says(calls=batches))) as server:
        events = await asked(server)
    assert calls(events) == [
        ToolCall("a", "read", '{"path": "p"}'),
        ToolCall("b", "grep", '{"pattern": "x"}'),
    ]
    assert events[-1] == Stopped(StopReason.TOOL_CALLS)


async def test_64_parallel_calls_with_their_pieces_interleaved(model_server: ModuleType) -> None:
    delta = model_server.call_delta
    batches = [[delta(n, id=f"id{n}", name="read", arguments='{"n": ') for n in range(64)]]
    batches += [[delta(n, arguments=f"{n}}}")] for n in reversed(range(64))]
    async with model_server.serve(model_server.Answer(model_server.says(calls=batches))) as server:
        found = calls(await asked(server))
    assert found == [ToolCall(f"id{n}", "read", f'{{"n": {n}}}') for n in range(64)]


async def test_a_stream_in_pieces_of_one_byte(model_server: ModuleType) -> None:
    whole = b"".join(model_server.says("na\u00efve \U0001f600", "!"))
    answer = model_server.Answer([whole[n : n + 1] for n in range(len(whole))])
    async with model_server.serve(answer) as server:
        assert text(await asked(server)) == "na\u00efve \U0001f600!"


async def test_two_requests_share_one_connection_and_so_do_siblings(model_server: ModuleType) -> None:
    async with (
        model_server.serve(model_server.Answer(model_server.says("hi"))) as server,
        opened(server) as provider,
    ):
        await ask(provider)
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(ask, provider)
        assert len(server.bodies) == 9
        assert len(server.clients) == 1


@pytest.mark.parametrize("early", ["cancel", "break"])
async def test_a_reply_given_up_closes_its_connection_and_the_next_is_fine(
    model_server: ModuleType, early: str
) -> None:
    hang = model_server.Answer([model_server.event(model_server.chunk({"content": "one"}))], hang=True)
    async with (
        model_server.serve(hang, model_server.Answer(model_server.says("two"))) as server,
        opened(server) as provider,
    ):
        with trio.fail_after(30):
            with trio.CancelScope() as scope:
                async with provider.stream(HELLO) as events:
                    assert await anext(aiter(events)) == TextDelta("one")
                    if early == "cancel":
                        scope.cancel()
                        await anext(aiter(events))
            await server.left.wait()
            assert text(await ask(provider)) == "two"
        assert len(server.clients) == 2


async def test_a_sibling_survives_a_reply_that_is_given_up(model_server: ModuleType) -> None:
    says, serve, answer = model_server.says, model_server.serve, model_server.Answer
    first = model_server.event(model_server.chunk({"content": "one"}))
    async with (
        serve(answer([first], hang=True), answer([first], hang=True), answer(says("two"))) as server,
        opened(server) as provider,
    ):
        with trio.fail_after(30):
            async with provider.stream(HELLO) as staying:
                assert await anext(aiter(staying)) == TextDelta("one")
                async with provider.stream(HELLO) as leaving:
                    assert await anext(aiter(leaving)) == TextDelta("one")
                assert not server.left.is_set()
                assert text(await ask(provider)) == "two"
                assert len(server.clients) == 2
            await server.left.wait()


async def test_cancelled_before_the_answer_begins(model_server: ModuleType) -> None:
    async def never(stream: trio.SocketStream) -> None:
        assert await stream.receive_some() == b""

    async with (
        model_server.serve_bytes(never) as server,
        opened(server) as provider,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(ask, provider)
        with trio.fail_after(30):
            await server.asked.wait()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await server.left.wait()


ERRORS = [
    (401, {"error": {"message": f"Incorrect key: {KEY}"}}, ErrorKind.AUTH, "[key]"),
    (403, {"error": "not in your country"}, ErrorKind.AUTH, "not in your country"),
    (429, {"error": {"message": "slow\ndown \x1b[31m"}}, ErrorKind.RATE_LIMITED, "slow down \\x1b[31m"),
    (400, [{"error": {"message": "bad schema"}}], ErrorKind.BAD_REQUEST, "bad schema"),
    (404, {"error": {"message": "no model m"}}, ErrorKind.BAD_REQUEST, "no model m"),
    (500, "<html>oops</html>", ErrorKind.UNAVAILABLE, "failed (500)"),
    (503, {"detail": "busy"}, ErrorKind.UNAVAILABLE, "busy"),
    (302, "", ErrorKind.BAD_REQUEST, "base_url"),
    (204, "", ErrorKind.PROTOCOL, "(204)"),
]


@pytest.mark.parametrize(("status", "body", "kind", "words"), ERRORS, ids=[str(row[0]) for row in ERRORS])
async def test_http_errors_become_one_clear_line(
    model_server: ModuleType, status: int, body: object, kind: ErrorKind, words: str
) -> None:
    sent = body if isinstance(body, str) else json.dumps(body)
    media = "text/html" if sent.startswith("<") else "application/json"
    pieces = [sent.encode()] if sent else []
    async with model_server.serve(model_server.Answer(pieces, status, media, {"location": "/x"})) as server:
        error = await failure(server)
    assert error.kind is kind
    assert words in str(error)
    assert "<html>" not in str(error)
    assert len(str(error)) < 400


async def test_an_endless_error_page_is_not_read_to_its_end(model_server: ModuleType) -> None:
    async with model_server.serve(
        model_server.Answer([b"x" * 60_000] * 3, 500, "text/plain", hang=True)
    ) as server:
        assert (await failure(server)).kind is ErrorKind.UNAVAILABLE
        with trio.fail_after(30):
            await server.left.wait()


START = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
HALF_CALL = (
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"shell",'
    b'"arguments":"{}"}}]}}]}\n\n'
)


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"", ErrorKind.UNAVAILABLE),
        (b"SSH-2.0-something\r\n", ErrorKind.UNAVAILABLE),
        (START + chunked(HALF_CALL), ErrorKind.UNAVAILABLE),
        (START + chunked(HALF_CALL) + b"0\r\n\r\n", ErrorKind.UNAVAILABLE),
        (START + chunked(HALF_CALL[:-30]) + b"0\r\n\r\n", ErrorKind.UNAVAILABLE),
        (START + b"0\r\n\r\n", ErrorKind.UNAVAILABLE),
        (START + chunked(b"data: [1]\n\n") + b"0\r\n\r\n", ErrorKind.PROTOCOL),
        (START + chunked(b"data: " + b"[" * 100_000 + b"\n\n") + b"0\r\n\r\n", ErrorKind.PROTOCOL),
        (START.replace(b"event-stream", b"html") + chunked(b"<p>") + b"0\r\n\r\n", ErrorKind.PROTOCOL),
    ],
    ids=["hang-up", "no-http", "cut", "no-end", "half-event", "empty", "no-object", "too-deep", "html"],
)
async def test_a_reply_that_breaks_off_tells_no_call(
    model_server: ModuleType, sent: bytes, kind: ErrorKind
) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(sent)

    seen: list[ModelEvent] = []
    async with model_server.serve_bytes(answer) as server, opened(server) as provider:
        with pytest.raises(ModelError) as caught:
            async with provider.stream(HELLO) as events:
                async for event in events:
                    seen.append(event)
    assert caught.value.kind is kind
    assert seen == []


async def test_a_stream_broken_off_over_http2(model_server: ModuleType) -> None:
    answer = model_server.Answer([HALF_CALL], fail=True)
    async with model_server.serve(answer) as server:
        assert (await failure(server)).kind in (ErrorKind.UNAVAILABLE, ErrorKind.PROTOCOL)


async def test_nonsense_in_place_of_http2_frames(model_server: ModuleType) -> None:
    async def nonsense(stream: trio.SocketStream) -> None:
        await stream.send_all(b"\xff" * 4096)

    async with model_server.serve_bytes(nonsense, tls=True) as server:
        assert (await failure(server)).kind is ErrorKind.UNAVAILABLE


async def test_silence_nobody_there_and_a_stranger_s_certificate(model_server: ModuleType) -> None:
    async with model_server.serve(model_server.Answer([b": wait\n\n"], hang=True)) as server:
        error = await failure(server, stall_timeout=0.05)
        assert (error.kind, "silent" in str(error)) == (ErrorKind.UNAVAILABLE, True)
        server.ca_file = None
        error = await failure(server)
        assert (error.kind, "certificate" in str(error)) == (ErrorKind.UNAVAILABLE, True)
    error = await failure(server)
    assert (error.kind, "could not be reached" in str(error)) == (ErrorKind.UNAVAILABLE, True)


async def test_a_server_that_does_not_stream_or_never_closes(model_server: ModuleType) -> None:
    whole = {
        "choices": [
            {
                "message": {
                    "content": "hi",
                    "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}],
                },
                "finish_reason": "tool_calls",
            }
        ]
    }
    async with model_server.serve(
        model_server.Answer([json.dumps(whole).encode()], media_type="application/json")
    ) as s:
        events = await asked(s)
        assert (text(events), calls(events)) == ("hi", [ToolCall("a", "f", "{}")])
    async with model_server.serve(model_server.Answer(model_server.says("done"), hang=True)) as server:
        assert (await asked(server))[-1] == Stopped(StopReason.STOP)


async def test_the_proxy_is_the_one_configured_and_never_the_environment_s(
    model_server: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    seen: list[bytes] = []

    async def answer(stream: trio.SocketStream) -> None:
        seen.append(b"asked")
        await stream.send_all(START + chunked(b"".join(model_server.says("hi"))) + b"0\r\n\r\n")

    async with model_server.serve_bytes(answer) as server:
        assert text(await asked(server)) == "hi"
        proxy = server.url.removesuffix("/v1")
        server.url = "http://model.invalid/v1"
        assert text(await asked(server, proxy=proxy)) == "hi"
    assert len(seen) == 2


async def test_an_error_in_mid_stream(model_server: ModuleType) -> None:
    told = {"error": {"message": f"overloaded, {KEY}", "code": "rate_limit_exceeded"}}
    pieces = [model_server.event(model_server.chunk({"content": "He"})), model_server.event(told)]
    async with model_server.serve(model_server.Answer(pieces)) as server:
        assert (await failure(server)).kind is ErrorKind.RATE_LIMITED


@pytest.mark.parametrize(
    ("spec", "more", "words"),
    [
        ("nobody", {}, "openai:MODEL"),
        ("openai:", {}, "openai:MODEL"),
        ("offline:x", {}, "offline"),
        ("scripted:", {}, "scripted:FILE"),
        ("openai:m", {"base_url": "ftp://x/"}, "base_url"),
        ("openai:m", {"base_url": "https://me:secret@x/v1"}, "user name"),
        ("openai:m", {"base_url": "x/v1"}, "base_url"),
        ("openai:m", {"api_key": "two words"}, "API key"),
        ("openai:m", {"api_key": "sk\u2026"}, "API key"),
        ("openai:m", {"ca_file": "/does/not/exist"}, "ca_file"),
        ("openai:m", {"proxy": "what"}, "proxy"),
    ],
)
async def test_a_model_that_cannot_be_opened_says_what_to_change(
    spec: str, more: dict[str, str], words: str
) -> None:
    with pytest.raises(ProviderSetupError, match=words) as caught:
        network = NetworkSettings(**{name: more.pop(name) for name in ("ca_file", "proxy") if name in more})
        async with open_provider(spec, ProviderSettings(**more), network):
            pass
    assert "secret" not in str(caught.value)


async def test_without_a_key_nothing_is_sent_and_the_key_is_never_shown() -> None:
    async with open_provider("openai:m", ProviderSettings()) as provider:
        with pytest.raises(ModelError) as caught:
            await ask(provider)
    assert caught.value.kind is ErrorKind.AUTH
    assert KEY not in repr(ProviderSettings(api_key=KEY))
    async with open_provider("openai:m", ProviderSettings(api_key=KEY)) as provider:
        assert KEY not in repr(provider)
