"""Whole sessions for tests: a real runtime in its own folder, a scripted model, a real web server."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
import trustme

from leeward.memory.audit import Record
from leeward.runtime.app import Runtime
from leeward.runtime.config import Locations, load
from leeward.runtime.providers.interface import (
    CallRequested,
    Message,
    ModelError,
    Request,
    Stopped,
    StopReason,
    TextDelta,
    new_call_id,
)
from leeward.security.call import ToolCall, ToolResult
from leeward.security.ports import Answer, Question

Call = tuple[str, Mapping[str, Any] | str]


def valid(messages: Sequence[Message]) -> None:
    """Every call is answered exactly once before anything else is said, and no two have one id."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message.role == "tool":
            assert message.call_id in open_calls, f"an answer to nothing: {message}"
            open_calls.remove(message.call_id)
            continue
        assert not open_calls, f"unanswered before {message}: {open_calls}"
        open_calls = [call.id for call in message.calls]
        assert len({*open_calls}) == len(open_calls) and seen.isdisjoint(open_calls)
        seen.update(open_calls)
    assert not open_calls, f"never answered: {open_calls}"


class Says:
    """A model that makes one reply after another, and holds each history it is sent against `valid`.

    A reply is a text, a list of calls (a tool's name and its arguments), a list of model events, an
    error, or a function of the request that returns one of these. After the last it says "done".
    """

    name = "says"

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Any]]:
        valid(request.messages)
        self.requests.append(request)
        reply = self.replies.pop(0) if self.replies else "done"
        yield self._events(reply(request) if callable(reply) else reply)

    async def _events(self, reply: Any) -> AsyncIterator[Any]:
        if isinstance(reply, str):
            reply = [TextDelta(reply)]
        for item in reply:
            await trio.lowlevel.checkpoint()
            if isinstance(item, ModelError):
                raise item
            yield item if not isinstance(item, tuple) else CallRequested(called(*item))
        yield Stopped(StopReason.STOP)

    def seen(self) -> list[str]:
        """The results of calls, as the model was told them with the last request."""
        return [message.text for message in self.requests[-1].messages if message.role == "tool"]


def called(tool: str, arguments: Mapping[str, Any] | str) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(new_call_id(), tool, text)


class Answers:
    """A person who gives prepared answers, the last one for good, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        await trio.lowlevel.checkpoint()
        self.questions.append(question)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


YES = (Answer.YES,)
NO_TRIALS = "LEEWARD_TOOLS__SHELL__TRIAL"


def places(folder: Path) -> Locations:
    """A workspace and a home in a folder, as `find_places` would lay them out."""
    home = folder / "home"
    found = Locations(
        workspace=folder / "ws",
        home=home,
        config=home / ".config" / "leeward",
        data=home / ".local" / "share" / "leeward",
        database=home / ".local" / "share" / "leeward" / "leeward.db",
    )
    for made in (found.workspace, found.config):
        made.mkdir(parents=True, exist_ok=True)
    return found


@asynccontextmanager
async def session(
    folder: Path, config: str = "", says: Sequence[Any] | None = None, *, trial: str = "off", **options: Any
) -> AsyncIterator[Runtime]:
    """Open a runtime in a folder, with a configuration as TOML and a model that says these replies.

    Nothing runs on trial unless `trial` says so: whether it can depends on the machine. Without a `listener`
    the events are gathered in `heard` of the runtime.
    """
    where = places(folder.resolve())
    (where.config / "config.toml").write_text(config, encoding="utf-8")
    loaded = load(config_dir=where.config, environment={NO_TRIALS: trial})
    if says is not None:
        options["provider"] = Says(*says)
    heard: list[Any] = []
    options.setdefault("listener", heard.append)
    async with Runtime.open(loaded, places=where, **options) as runtime:
        runtime.heard = heard  # type: ignore[attr-defined]
        yield runtime


async def rows(runtime: Runtime, *kinds: str) -> list[Record]:
    """What the audit of the session holds, of these kinds (all without any), in order."""
    return await runtime.audit.list_records(runtime.session_id, 100_000, kinds=kinds or None)


async def decisions(runtime: Runtime) -> list[tuple[str, bool, str | None, str]]:
    """Each decision as (tool, allowed, gate, rule)."""
    found = await rows(runtime, "decision")
    return [(str(row.tool), row.body["allowed"], row.body["gate"], row.body["rule"]) for row in found]


def verdict(result: ToolResult) -> tuple[str, str | None]:
    """How a call ended, in two words: its status and the gate, if one spoke."""
    return result.outcome.status.value, result.outcome.gate


REDIRECT = "redirect: "


@dataclass
class Web:
    """A running web server: what it was asked (method, path, Host), and what a client needs to reach it."""

    port: int
    ca_file: str
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "docs.example.com") -> str:
        return f"https://{host}:{self.port}{path}"

    @property
    def config(self) -> str:
        """The configuration under which `fetch` reaches it."""
        return f'[tools.fetch]\nallow_networks = ["127.0.0.0/8"]\nca_file = "{self.ca_file}"\n'

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Every name lies on loopback."""
        return ("127.0.0.1",)


@asynccontextmanager
async def web(
    folder: Path,
    pages: Mapping[str, str] | Callable[[str], str],
    hosts: Iterable[str] = ("docs.example.com",),
) -> AsyncIterator[Web]:
    """Serve texts over TLS on loopback, under these names; one that begins like HTML is a page of it.

    A text `redirect: URL` is a redirect.
    """
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    leaf = authority.issue_cert(*hosts, key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    leaf.configure_cert(context)
    tcp = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    server = Web(tcp.socket.getsockname()[1], str(folder / "ca.pem"))

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        server.connections += 1
        head = b""
        try:
            while b"\r\n\r\n" not in head:
                chunk = await stream.receive_some(4096)
                if not chunk:
                    return
                head += chunk
            await stream.send_all(_response(server, head.decode("latin-1"), pages))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            with trio.move_on_after(1):
                await stream.aclose()

    async with trio.open_nursery() as nursery:
        listener = trio.SSLListener(tcp, context, https_compatible=True)
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


def _response(server: Web, head: str, pages: Mapping[str, str] | Callable[[str], str]) -> bytes:
    first, *fields = head.split("\r\n")
    method, path, _ = first.split(" ")
    host = next(line.split(": ", 1)[1] for line in fields if line.lower().startswith("host:"))
    server.asked.append((method, path, host))
    body = pages(path) if callable(pages) else pages.get(path)
    status = "200 OK" if body is not None else "404 Not Found"
    if body is not None and body.startswith(REDIRECT):
        status = f"302 Found\r\nLocation: {body.removeprefix(REDIRECT)}"
    data = (body if body is not None else "there is nothing").encode()
    kind = "text/html" if data.startswith(b"<") else "text/plain"
    top = f"HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {len(data)}\r\n"
    return f"{top}Connection: close\r\n\r\n".encode() + data
