"""Loopback servers for tests: TLS with a private CA, byte-exact responses, HTTP/2."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import hypercorn.config
import hypercorn.trio
import trio
import trustme

Answer = Callable[[trio.abc.Stream, str], Awaitable[None]]


@dataclass
class Server:
    """What a server was asked, as it came."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "pages.example", scheme: str = "https") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    @property
    def targets(self) -> list[str]:
        return [head.split(" ")[1] for head in self.requests]

    @property
    def hosts(self) -> list[str]:
        return [
            line.split(" ")[1].rpartition(":")[0]
            for head in self.requests
            for line in head.split("\r\n")
            if line.startswith("Host: ")
        ]


@asynccontextmanager
async def serving(answer: Answer, context: ssl.SSLContext | None) -> AsyncIterator[Server]:
    """A server on loopback, with TLS or without; what it answers, a test writes byte by byte."""
    server = Server()

    async def serve(stream: trio.abc.Stream) -> None:
        server.connections += 1
        try:
            while head := await _head(stream):
                server.requests.append(head)
                await answer(stream, head.split(" ")[1])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async with trio.open_nursery() as nursery:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        server.port = listener.socket.getsockname()[1]
        if context is not None:
            listener = trio.SSLListener(listener, context, https_compatible=True)
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


async def _head(stream: trio.abc.Stream) -> str:
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = await stream.receive_some(65_536)
        if not chunk:
            return ""
        head += bytes(chunk)
    return head.decode("latin-1")


def reply(body: bytes = b"hello", status: str = "200 OK", **headers: str) -> bytes:
    fields = {"Content-Length": str(len(body)), "Content-Type": "text/plain"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


def fixed(*pieces: bytes) -> Answer:
    async def answer(stream: trio.abc.Stream, path: str) -> None:
        for piece in pieces:
            await stream.send_all(piece)

    return answer


def routed(pages: dict[str, bytes | Callable[[], bytes]]) -> Answer:
    """Answer each target with its own reply; a target nobody wrote is 404."""

    async def answer(stream: trio.abc.Stream, path: str) -> None:
        found = pages.get(path, reply(b"nothing", "404 Not Found"))
        await stream.send_all(found() if callable(found) else found)

    return answer


async def flood(stream: trio.abc.Stream, path: str) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        await stream.send_all(b"x" * 10_000)


async def drip(stream: trio.abc.Stream, path: str) -> None:
    await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        await stream.send_all(b"x")
        await trio.sleep(0.02)


async def silence(stream: trio.abc.Stream, path: str) -> None:
    await trio.sleep_forever()


class Authority:
    """A private authority, and what trusts it."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self._folder = folder
        self.file = str(folder / "ca.pem")
        self._authority.cert_pem.write_to_path(self.file)

    def context(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._issue(names).configure_cert(context)
        return context

    def files(self, *names: str) -> tuple[str, str]:
        """Return the files of a certificate and its key."""
        leaf, paths = self._issue(names), (str(self._folder / "cert.pem"), str(self._folder / "key.pem"))
        leaf.cert_chain_pems[0].write_to_path(paths[0])
        leaf.private_key_pem.write_to_path(paths[1])
        return paths

    def _issue(self, names: tuple[str, ...]) -> trustme.LeafCert:
        return self._authority.issue_cert(*(names or ("pages.example",)), key_type=trustme.KeyType.ECDSA)


@asynccontextmanager
async def http2(app: Callable[..., Awaitable[None]], files: tuple[str, str]) -> AsyncIterator[int]:
    """A real HTTP/2 server; yields its port."""
    config = hypercorn.config.Config()
    config.bind, config.errorlog, config.alpn_protocols = ["127.0.0.1:0"], None, ["h2"]
    config.certfile, config.keyfile = files
    config.graceful_timeout = 0.1

    async with trio.open_nursery() as nursery:
        (bound,) = await nursery.start(
            lambda task_status: hypercorn.trio.serve(app, config, task_status=task_status)
        )
        yield int(bound.rpartition(":")[2].rstrip("/"))
        nursery.cancel_scope.cancel()
