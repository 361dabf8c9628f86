"""Real model servers on loopback for tests: every dialect over TLS and HTTP/2, and bare HTTP/1.1.

`serve(answers)` speaks TLS 1.3 and HTTP/2 (hypercorn on trio); each request takes the next answer,
the last answer for good, but a request that breaks the rules of its dialect is refused as the service
would. `serve_bytes(answer)` hands a plain connection over after it has read one request, for replies
that no proper server would send. Both bind a free port on 127.0.0.1.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import trio
import trustme
from hypercorn.config import Config
from hypercorn.trio import serve as hypercorn_serve

from leeward.runtime.providers.interface import (
    CallRequested,
    Message,
    ModelEvent,
    Provider,
    Request,
    TextDelta,
)
from leeward.runtime.providers.registry import open_provider
from leeward.runtime.providers.settings import NetworkSettings, ProviderSettings
from leeward.security.call import ToolCall

FOLDERS: list[Path] = []  # where certificates are kept; the fixture names one
RULES: dict[str, Callable[[dict[str, Any]], None]] = {}  # by the end of a path; the fixture puts them in
KEY = "sk-test-" + "0" * 32
HELLO = Request((Message("user", "hello"),))
Bytes = Callable[[trio.SocketStream], Awaitable[None]]


@dataclass(frozen=True)
class Answer:
    """What to send: a status, headers, and a body in the pieces given.

    `hang` waits after the body until the client goes away, `fail` breaks the stream off, `pause` is
    how many seconds pass before each piece.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    media_type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    fail: bool = False
    pause: float = 0.0


@dataclass
class Server:
    """A running server, what it was asked, by whom, and who went away before the end."""

    url: str
    ca_file: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    clients: set[int] = field(default_factory=set)
    asked: trio.Event = field(default_factory=trio.Event)
    left: trio.Event = field(default_factory=trio.Event)


@asynccontextmanager
async def opened(server: Server, spec: str, **more: Any) -> AsyncIterator[Provider]:
    """Open a model of a server, with the key."""
    known = {name: more.pop(name) for name in ("proxy", "connect_timeout", "stall_timeout") if name in more}
    settings = ProviderSettings(**{"base_url": server.url, "api_key": KEY, **more})
    async with open_provider(spec, settings, NetworkSettings(server.ca_file, **known)) as provider:
        yield provider


async def ask(provider: Provider, request: Request = HELLO) -> list[ModelEvent]:
    """Return all that a model tells within ten seconds."""
    with trio.fail_after(30):
        async with provider.stream(request) as events:
            return [event async for event in events]


def fed(reader: Any, data: str) -> list[ModelEvent]:
    """Return what a reader tells of one event, texts as events like the rest."""
    told = reader.feed(data)
    return [TextDelta(told)] * bool(told) if isinstance(told, str) else list(told)


def text(events: Iterable[ModelEvent]) -> str:
    """Return the text of an answer."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls(events: Iterable[ModelEvent]) -> list[ToolCall]:
    """Return the calls of an answer."""
    return [event.requested for event in events if isinstance(event, CallRequested)]


def event(data: object) -> bytes:
    """Return one event of a stream; text goes out as it is, anything else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


def chunk(delta: Mapping[str, Any] | None = None, **choice: object) -> dict[str, Any]:
    """Return one chunk of a streamed reply."""
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta or {}, **choice}]}


def call_delta(index: int | None, **facts: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a server sends
    """Return the delta of one tool call; `id`, `name` and `arguments` only where given."""
    function = {key: facts[key] for key in ("name", "arguments") if key in facts}
    head = {"index": index} if index is not None else {}
    return {**head, **({"id": facts["id"]} if "id" in facts else {}), "function": function}


def says(*texts: str, finish: str = "stop", calls: Iterable[Sequence[dict[str, Any]]] = ()) -> list[bytes]:
    """Return the events of an ordinary reply: texts, batches of call deltas, the reason, usage and
    `[DONE]`.
    """
    return [
        event(chunk({"role": "assistant", "content": ""})),
        *(event(chunk({"content": text})) for text in texts),
        *(event(chunk({"tool_calls": list(batch)})) for batch in calls),
        event(chunk(finish_reason=finish)),
        event({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}),
        event("[DONE]"),
    ]


def message(*blocks: Mapping[str, Any], stop: str = "end_turn", end: bool = True) -> list[bytes]:
    """Return the events of a reply in the Messages dialect: each block is its beginning and its deltas.

    A block is given as the service would have it when it is whole; texts are told in two pieces, the
    input of a call in pieces of seven characters.
    """
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 1,
    }
    told: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"role": "assistant", "usage": usage}},
        {"type": "ping"},
    ]
    for index, block in enumerate(blocks):
        told += [{**part, "index": index} for part in _block_events(block)]
    if end:
        told.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}})
        told.append({"type": "message_stop"})
    return [f"event: {data['type']}\n".encode() + event(data) for data in told]


def _block_events(block: Mapping[str, Any]) -> list[dict[str, Any]]:
    def deltas(kind: str, name: str, text: str, size: int) -> list[dict[str, Any]]:
        pieces = [text[n : n + size] for n in range(0, len(text), size)]
        return [{"type": "content_block_delta", "delta": {"type": kind, name: piece}} for piece in pieces]

    parts: list[dict[str, Any]] = []
    start = dict(block)
    for kind, name in (
        ("text_delta", "text"),
        ("thinking_delta", "thinking"),
        ("signature_delta", "signature"),
    ):
        if name in block:
            parts += deltas(kind, name, block[name], len(block[name]) // 2 + 1)
            start[name] = ""
    if block["type"] == "tool_use":
        given = block["input"]
        parts += deltas(
            "input_json_delta", "partial_json", given if isinstance(given, str) else json.dumps(given), 7
        )
        start["input"] = {}
    return [{"type": "content_block_start", "content_block": start}, *parts, {"type": "content_block_stop"}]


@cache
def _authority() -> tuple[trustme.CA, trustme.LeafCert, str]:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    folder = FOLDERS[0]
    leaf = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    leaf.private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    return authority, leaf, str(folder)


@asynccontextmanager
async def serve(*answers: Answer) -> AsyncIterator[Server]:
    """Serve over TLS and HTTP/2."""
    _, _, folder = _authority()
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.certfile = config.keyfile = f"{folder}/server.pem"
    config.errorlog = config.accesslog = None
    config.graceful_timeout = 0.0
    if any(answer.fail for answer in answers):
        # Hypercorn breaks a stream off by closing its connection once that has been idle.
        config.keep_alive_timeout = 0.05
    server = Server("", f"{folder}/ca.pem")
    waiting = list(answers)

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own types are dicts
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        await _note(server, scope, receive)
        refusal = _refusal(server.bodies[-1], scope["path"])
        await _reply(server, refusal or (waiting.pop(0) if len(waiting) > 1 else waiting[0]), receive, send)

    async with trio.open_nursery() as nursery:
        binds = await nursery.start(hypercorn_serve, app, config)
        server.url = f"{binds[0]}/v1"
        yield server
        nursery.cancel_scope.cancel()


def _refusal(body: dict[str, Any], path: str) -> Answer | None:
    """Return how a service answers a request that breaks the rules of its dialect."""
    for end, rules in RULES.items():
        if body and path.endswith(end):
            try:
                rules(body)
            except AssertionError as error:
                told = {"error": {"message": f"broken rule: {error}", "type": "invalid_request_error"}}
                return Answer([json.dumps(told).encode()], 400, "application/json")
    return None


async def _live(receive: Any, send: Any) -> None:  # noqa: ANN401
    while True:
        happened = (await receive())["type"]
        await send({"type": f"{happened}.complete"})
        if happened == "lifespan.shutdown":
            return


async def _note(server: Server, scope: Any, receive: Any) -> None:  # noqa: ANN401
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    server.bodies.append(json.loads(body) if body else {})
    asked = {":path": scope["path"], ":query": scope["query_string"].decode(), ":method": scope["method"]}
    server.heads.append({key.decode(): value.decode() for key, value in scope["headers"]} | asked)
    server.versions.add(scope["http_version"])
    server.clients.add(scope["client"][1])
    server.asked.set()


async def _reply(server: Server, answer: Answer, receive: Any, send: Any) -> None:  # noqa: ANN401
    headers = [(b"content-type", answer.media_type.encode())]
    headers += [(key.encode(), value.encode()) for key, value in answer.headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    for piece in answer.pieces:
        await trio.sleep(answer.pause)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    if answer.fail:
        raise RuntimeError("the server breaks the reply off, as this test wants")
    if answer.hang:
        while (await receive())["type"] != "http.disconnect":
            pass
        server.left.set()
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


@asynccontextmanager
async def serve_bytes(answer: Bytes, *, tls: bool = False) -> AsyncIterator[Server]:
    """Serve bare connections, over plain TCP, or over TLS with HTTP/2 agreed upon and nothing read."""
    _, leaf, folder = _authority()
    server = Server("", f"{folder}/ca.pem")

    async def connection(stream: trio.SocketStream) -> None:
        server.clients.add(stream.socket.getpeername()[1])
        if tls:
            await _over_tls(stream, leaf, answer)
        else:
            await _read_request(stream)
            server.asked.set()
            await answer(stream)
        server.left.set()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, connection, 0)
        port = listeners[0].socket.getsockname()[1]
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1"
        yield server
        nursery.cancel_scope.cancel()


async def _over_tls(stream: trio.SocketStream, leaf: trustme.LeafCert, answer: Bytes) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2"])
    leaf.configure_cert(context)
    secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
    try:
        await secured.receive_some()
        await answer(secured)  # type: ignore[arg-type]
    except trio.BrokenResourceError:
        pass


async def _read_request(stream: trio.SocketStream) -> None:
    seen = b""
    while b"\r\n\r\n" not in seen:
        seen += await stream.receive_some()
    head, _, body = seen.partition(b"\r\n\r\n")
    length = next(
        int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    )
    while len(body) < length:
        body += await stream.receive_some()
