"""A TLS server on loopback whose answers a test writes byte by byte."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
import trustme

Answer = Callable[[trio.abc.Stream, str], Awaitable[None]]


@dataclass
class WebServer:
    port: int = 0
    requests: list[str] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "pages.example") -> str:
        return f"https://{host}:{self.port}{path}"


async def _read_head(stream: trio.abc.Stream) -> str:
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = await stream.receive_some(4096)
        if not chunk:
            return ""
        head += chunk
    return head.decode("latin-1")


@asynccontextmanager
async def web_server(
    answer: Answer, authority: trustme.CA, *names: str, minimum: ssl.TLSVersion | None = None
) -> AsyncIterator[WebServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("pages.example",))).configure_cert(context)
    server = WebServer()

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        server.connections += 1
        try:
            while head := await _read_head(stream):
                server.requests.append(head)
                await answer(stream, head.split(" ")[1])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            lambda task_status: trio.serve_ssl_over_tcp(
                serve, 0, context, host="127.0.0.1", https_compatible=True, task_status=task_status
            )
        )
        server.port = listeners[0].transport_listener.socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()


def reply(body: bytes = b"hello", status: str = "200 OK", **headers: str) -> bytes:
    fields = {"Content-Length": str(len(body)), "Content-Type": "text/plain"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


def fixed(response: bytes) -> Answer:
    async def answer(stream: trio.abc.Stream, path: str) -> None:
        await stream.send_all(response)

    return answer
