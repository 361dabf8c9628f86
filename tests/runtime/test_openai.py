"""The Chat Completions provider against real servers: TLS, HTTP/2, and whatever bytes they send."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.runtime.providers import (
    CallRequested,
    ErrorKind,
    Message,
    ModelError,
    ModelEvent,
    Provider,
    ProviderSettings,
    ProviderSetupError,
    Request,
    Requested,
    Stopped,
    StopReason,
    TextDelta,
    ToolView,
    Usage,
    open_provider,
)
from leeward.runtime.providers.chat import ReplyReader, read_chunk
from leeward.runtime.providers.sse import EventStream

KEY = "sk-test-" + "0" * 32
HELLO = Request((Message("user", "hello"),))


@asynccontextmanager
async def opened(server: Any, **more: Any) -> AsyncIterator[Provider]:
    settings = ProviderSettings(base_url=server.url, api_key=KEY, ca_file=server.ca_file, **more)
    async with open_provider("openai:some-model", settings) as provider:
        yield provider


async def ask(provider: Provider, request: Request = HELLO) -> list[ModelEvent]:
    async with provider.stream(request) as events:
        return [event async for event in events]


async def asked(server: Any, **more: Any) -> list[ModelEvent]:
    with trio.fail_after(10):
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


def calls(events: list[ModelEvent]) -> list[Requested]:
    return [event.requested for event in events if isinstance(event, CallRequested)]


async def test_text_arrives_in_pieces_and_the_request_is_what_the_dialect_wants(model_server: ModuleType) -> None:
    history = (
        Message("system", "rules"),
        Message("user", "look"),
        Message("assistant", "", (Requested("c1", "read", '{"path": "a"}'), Requested("c2", "read", "{broken"))),
        Message("tool", "data \ud800", call_id="c1"),
        Message("tool", "no", call_id="c2"),
    )
    tool = ToolView("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
    async with model_server.serve(model_server.Answer(model_server.says("Hel", "lo"))) as server:
        async with opened(server) as provider:
            events = await ask(provider, Request(history, (tool,), max_tokens=9))
        assert events == [TextDelta("Hel"), TextDelta("lo"), Usage(11, 7), Stopped(StopReason.STOP)]
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
        settings = ProviderSettings(base_url=f"{server.url}/", ca_file=server.ca_file)
        async with open_provider("openai:m", settings) as provider:
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
    assert calls(events) == [Requested("a", "read", '{"path": "p"}'), Requested("b", "grep", '{"pattern": "x"}')]
    assert events[-1] == Stopped(StopReason.TOOL_CALLS)


async def test_64_parallel_calls_with_their_pieces_interleaved(model_server: ModuleType) -> None:
    delta = model_server.call_delta
    batches = [[delta(n, id=f"id{n}", name="read", arguments='{"n": ') for n in range(64)]]
    batches += [[delta(n, arguments=f"{n}}}")] for n in reversed(range(64))]
    async with model_server.serve(model_server.Answer(model_server.says(calls=batches))) as server:
        found = calls(await asked(server))
    assert found == [Requested(f"id{n}", "read", f'{{"n": {n}}}') for n in range(64)]


async def test_a_stream_in_pieces_of_one_byte(model_server: ModuleType) -> None:
    whole = b"".join(model_server.says("na\u00efve \U0001f600", "!"))
    answer = model_server.Answer([whole[n : n + 1] for n in range(len(whole))])
    async with model_server.serve(answer) as server:
        assert text(await asked(server)) == "na\u00efve \U0001f600!"


async def test_two_requests_share_one_connection_and_so_do_siblings(model_server: ModuleType) -> None:
    async with model_server.serve(model_server.Answer(model_server.says("hi"))) as server, opened(server) as provider:
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
        with trio.fail_after(10):
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
        with trio.fail_after(10):
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

    async with model_server.serve_bytes(never) as server, opened(server) as provider, trio.open_nursery() as nursery:
        nursery.start_soon(ask, provider)
        with trio.fail_after(10):
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
    async with model_server.serve(model_server.Answer([b"x" * 60_000] * 3, 500, "text/plain", hang=True)) as server:
        assert (await failure(server)).kind is ErrorKind.UNAVAILABLE
        with trio.fail_after(10):
            await server.left.wait()


START = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
HALF_CALL = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"shell","arguments":"{}"}}]}}]}\n\n'


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"", ErrorKind.UNAVAILABLE),
        (b"SSH-2.0-something\r\n", ErrorKind.UNAVAILABLE),
        (START + chunked(HALF_CALL), ErrorKind.UNAVAILABLE),
        (START + chunked(HALF_CALL) + b"0\r\n\r\n", ErrorKind.PROTOCOL),
        (START + chunked(HALF_CALL[:-30]) + b"0\r\n\r\n", ErrorKind.PROTOCOL),
        (START + b"0\r\n\r\n", ErrorKind.PROTOCOL),
        (START + chunked(b"data: [1]\n\n") + b"0\r\n\r\n", ErrorKind.PROTOCOL),
        (START + chunked(b"data: " + b"[" * 100_000 + b"\n\n") + b"0\r\n\r\n", ErrorKind.PROTOCOL),
        (START.replace(b"event-stream", b"html") + chunked(b"<p>") + b"0\r\n\r\n", ErrorKind.PROTOCOL),
    ],
    ids=["hang-up", "no-http", "cut", "no-end", "half-event", "empty", "no-object", "too-deep", "html"],
)
async def test_a_reply_that_breaks_off_tells_no_call(model_server: ModuleType, sent: bytes, kind: ErrorKind) -> None:
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
        error = await failure(server, silence_timeout=0.05)
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
                "message": {"content": "hi", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]},
                "finish_reason": "tool_calls",
            }
        ]
    }
    async with model_server.serve(model_server.Answer([json.dumps(whole).encode()], media_type="application/json")) as s:
        events = await asked(s)
        assert (text(events), calls(events)) == ("hi", [Requested("a", "f", "{}")])
    async with model_server.serve(model_server.Answer(model_server.says("done"), hang=True)) as server:
        assert (await asked(server))[-1] == Stopped(StopReason.STOP)


async def test_an_error_in_mid_stream(model_server: ModuleType) -> None:
    told = {"error": {"message": f"overloaded, {KEY}", "code": "rate_limit_exceeded"}}
    pieces = [model_server.event(model_server.chunk({"content": "He"})), model_server.event(told)]
    async with model_server.serve(model_server.Answer(pieces)) as server:
        assert (await failure(server)).kind is ErrorKind.RATE_LIMITED


def read(*chunks: object) -> list[ModelEvent]:
    reader = ReplyReader()
    texts = [reader.feed(read_chunk(json.dumps(chunk))) for chunk in chunks]
    return [*(TextDelta(t) for t in texts if t), *reader.finish(told=True)]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([(0, {"name": "f", "arguments": ""})], [("f", "{}")]),
        ([(0, {"id": "a", "name": "f", "arguments": "{}"}), (0, {"id": "b", "name": "g", "arguments": "{}"})], [("f", "{}"), ("g", "{}")]),
        ([(0, {"id": "a", "name": "f", "arguments": "{"}), (0, {"id": "z", "arguments": "}"})], [("f", "{}")]),
        ([(0, {"id": "a", "name": "f"}), (0, {"id": "a", "name": "f", "arguments": "{}"})], [("f", "{}")]),
        ([(None, {"name": "f", "arguments": "{"}), (None, {"arguments": "}"}), (None, {"name": "f"})], [("f", "{}"), ("f", "{}")]),
        ([(3, {"name": "re"}), (3, {"name": "ad"}), (3, {"arguments": "{}"})], [("read", "{}")]),
        ([(0, {"name": None, "arguments": None, "id": None})], [("", "{}")]),
        ([(0, {"name": "f", "arguments": "\ud83d"}), (0, {"arguments": "\ude00\udead"})], [("f", "\U0001f600\ufffd")]),
    ],
    ids=["none", "one-index", "new-ids", "name-again", "no-index", "cut-name", "nulls", "surrogates"],
)
def test_how_servers_differ_in_telling_calls(
    model_server: ModuleType, deltas: list[tuple[int | None, dict[str, Any]]], expected: list[tuple[str, str]]
) -> None:
    chunks = [model_server.chunk({"tool_calls": [model_server.call_delta(n, **facts)]}) for n, facts in deltas]
    found = calls(read(*chunks))
    assert [(call.name, call.arguments) for call in found] == expected
    assert len({call.id for call in found}) == len(found)
    assert all(call.id for call in found)


def test_ids_given_twice_are_told_apart_and_the_first_is_kept(model_server: ModuleType) -> None:
    deltas = [model_server.call_delta(n, id="same", name="f") for n in range(3)]
    found = [call.id for call in calls(read(model_server.chunk({"tool_calls": deltas})))]
    assert found[0] == "same"
    assert len(set(found)) == 3


def test_a_call_cut_by_the_length_limit_is_not_made_to_look_whole(model_server: ModuleType) -> None:
    delta = {"tool_calls": [model_server.call_delta(0, id="a", name="shell")]}
    events = read(model_server.chunk(delta, finish_reason="length"))
    assert calls(events) == [Requested("a", "shell", "")]
    assert events[-1] == Stopped(StopReason.LENGTH)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": None, "reasoning_content": "hm", "reasoning": "hm"}, ""),
        ({"refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, 3]}, "a"),
        ({"content": 7, "tool_calls": "x"}, ""),
        ({"content": "a\udc00b"}, "a\ufffdb"),
    ],
)
def test_what_counts_as_text(model_server: ModuleType, delta: dict[str, Any], expected: str) -> None:
    assert text(read(model_server.chunk(delta))) == expected


def test_a_pair_of_surrogates_cut_between_two_chunks_is_one_character(model_server: ModuleType) -> None:
    pieces = [model_server.chunk({"content": part}) for part in ("a\ud83d", "\ude00b", "c\ud83d")]
    assert text(read(*pieces)) == "a\U0001f600bc\ufffd"


def test_arguments_without_end_are_given_up(model_server: ModuleType) -> None:
    reader = ReplyReader()
    piece = model_server.chunk({"tool_calls": [model_server.call_delta(0, arguments="x" * 1_000_000)]})
    with pytest.raises(ModelError, match="held"):
        for _ in range(64):
            reader.feed(piece)


LINES = st.sampled_from(["data: a", "data:b", "data:  c", "data", ": comment", "", "", "event: x", "id: 1", "\ufeffdata: d"])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=12), st.lists(st.integers(1, 5), min_size=1))
@example([("data: a", "\r\n"), ("", "\r\n")], [1])
@example([("data: a", "\r"), ("", "\n"), ("data: b", "\r\n")], [1])
@settings(max_examples=200, deadline=None)
def test_where_the_bytes_are_cut_makes_no_difference(lines: list[tuple[str, str]], sizes: list[int]) -> None:
    whole = "".join(line + end for line, end in lines).encode()
    at_once, cut = EventStream(), EventStream()
    expected = [*at_once.feed(whole), *at_once.flush()]
    found, start, step = [], 0, 0
    while start < len(whole):
        size = sizes[step % len(sizes)]
        found += cut.feed(whole[start : start + size])
        start, step = start + size, step + 1
    assert found + cut.flush() == expected


@pytest.mark.parametrize(
    ("sent", "events"),
    [
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"\xef\xbb\xbfdata:a\r\rdata:  b\r\r", ["a", " b"]),
        (b": ping\n\nevent: x\n\ndata: \xff\xe2\x82\n\n", ["\ufffd\ufffd"]),
        (b"data: end", ["end"]),
        (b"data\n\n", [""]),
    ],
)
def test_event_streams_are_read_as_the_standard_says(sent: bytes, events: list[str]) -> None:
    stream = EventStream()
    assert [*stream.feed(sent), *stream.flush()] == events


def test_an_event_without_an_end_is_given_up() -> None:
    stream = EventStream()
    with pytest.raises(ModelError, match="without an end"):
        for _ in range(40):
            stream.feed(b"data: " + b"x" * 500_000 + b"\n")


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
async def test_a_model_that_cannot_be_opened_says_what_to_change(spec: str, more: dict[str, str], words: str) -> None:
    with pytest.raises(ProviderSetupError, match=words) as caught:
        async with open_provider(spec, ProviderSettings(**more)):
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
