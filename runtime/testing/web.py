"""A web without a network: names resolve by a table, and connections are answered from it.

Everything that judges stays: the address of a name is judged as ever, and what is dialled is a judged one.
Only the resolver and what lies behind a connection are fakes. TLS is agreed on with nobody: no certificate is
checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

import trio

from leeward.security.kinds import Unreadable
from leeward.security.url import parse_url

__all__ = ["FakeWeb"]

_ADDRESS = "8.8.8.8"
"""What names resolve to: a public address, which is never connected to."""


class FakeWeb:
    """Pages by their URL. `asked` are the URLs that were opened, `resolved` the names that were looked up."""

    def __init__(
        self, pages: Mapping[str, str] | None = None, addresses: Mapping[str, str] | None = None
    ) -> None:
        """Take the pages.

        Args:
            pages: the text of each URL; any other on a host of theirs is a 404.
            addresses: what further names resolve to, or those of the pages instead of a public address.

        Raises:
            ValueError: one of the URLs cannot be read.
        """
        self.asked: list[str] = []
        self.resolved: list[str] = []
        self.pages: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        for text, page in (pages or {}).items():
            url = parse_url(text)
            if isinstance(url, Unreadable):
                raise ValueError(f"{text}: {url.reason}")  # noqa: TRY004 - it is a URL's text that is wrong
            self.pages[url.text] = page
            self.addresses[url.host] = _ADDRESS
        self.addresses.update(addresses or {})

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the address of a name.

        Raises:
            OSError: no page has it.
        """
        await trio.lowlevel.checkpoint()
        self.resolved.append(host)
        if host not in self.addresses:
            raise OSError(f"no page of this test is at {host}:{port}")
        return (self.addresses[host],)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Answer all connections that are made within."""

        async def connect(_backend: object, host: str, port: int, **_: object) -> _Connection:
            await trio.lowlevel.checkpoint()
            return _Connection(self, host, port)

        with mock.patch("httpcore.TrioBackend.connect_tcp", connect):
            yield

    def respond(self, request: bytes, port: int, *, is_secure: bool) -> bytes:
        """Return the response to a request."""
        first, *fields = request.decode("latin-1").split("\r\n")
        host = next(line[6:] for line in fields if line.lower().startswith("host: ")).rpartition(":")
        name = host[0] if host[1] else host[2]
        scheme = "https" if is_secure else "http"
        at = "" if port == {"https": 443, "http": 80}[scheme] else f":{port}"
        url = f"{scheme}://{name}{at}{first.split(' ')[1]}"
        self.asked.append(url)
        page = self.pages.get(url)
        body = (page if page is not None else "there is no such page").encode()
        kind = "text/html" if body.lstrip().startswith(b"<") else "text/plain"
        status = "200 OK" if page is not None else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8"
        return f"{head}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


class _Connection:
    """A stream of httpcore whose other side is a `FakeWeb`."""

    def __init__(self, web: FakeWeb, address: str, port: int) -> None:
        self._web = web
        self._peer = (address, port)
        self._is_secure = False
        self._request = b""
        self._response = b""

    async def read(self, max_bytes: int, _timeout: float | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        data, self._response = self._response[:max_bytes], self._response[max_bytes:]
        return data

    async def write(self, buffer: bytes, _timeout: float | None = None) -> None:
        await trio.lowlevel.checkpoint()
        self._request += buffer
        if b"\r\n\r\n" in self._request:
            self._response = self._web.respond(self._request, self._peer[1], is_secure=self._is_secure)
            self._request = b""

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    async def start_tls(self, *_: object) -> _Connection:
        await trio.lowlevel.checkpoint()
        self._is_secure = True
        return self

    def get_extra_info(self, info: str) -> object:
        return self._peer if info == "server_addr" else None
