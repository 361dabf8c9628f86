"""Count and bound what one connection carries, and attribute it to its request.

Connections are shared and reused, so a request that stops half-way must leave its connection usable for
others: nothing is half written, and an HTTP/2 stream that is no longer read is reset, so that it cannot use
up the flow control window of the connection. Which address a connection leads to is decided in `dial.py`.
"""

from __future__ import annotations

import ssl
from contextvars import ContextVar, Token
from typing import Self

import httpcore
import trio

from leeward.security.lazy import dataclass

__all__ = ["CountedStream", "Route"]

# A write is finished under a shield, since half a frame would break the connection for all requests on it. A
# server that takes nothing more must not hold a cancelled request for ever.
_WRITE_SECONDS = 5.0

_FRAME_HEADER = 9  # RFC 9113, 4.1
_RST_STREAM = 3  # RFC 9113, 6.4
_CANCEL = 8  # RFC 9113, 7


@dataclass(slots=True)
class Route:
    """How one request goes through the network, filled in on its way.

    `address` is the one it went to, "" while there is none; `is_new` tells that a connection was made
    for it, `stream_id` which stream of it is its own in HTTP/2. `sent` and `received` are the bytes
    that went through its connection meanwhile, TLS aside. Once `enough` is set, nothing more is read
    from the network: the scope is cancelled instead. `is_read` tells that the answer was read to its end.
    """

    address: str = ""
    is_new: bool = False
    status: int | None = None
    sent: int = 0
    received: int = 0
    stream: CountedStream | None = None
    stream_id: int | None = None
    enough: trio.CancelScope | None = None
    is_read: bool = False
    _token: Token[Route | None] | None = None

    def __enter__(self) -> Self:
        """Follow the request that this task makes within."""
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it; where its answer was not read to the end, see that others can use the connection."""
        if self._token is not None:
            _current.reset(self._token)
        if not self.is_read and self.stream is not None and self.stream_id is not None:
            self.stream.end(self.stream_id)

    @staticmethod
    def reaches(address: str) -> None:
        """Note that this task's request was connected to an address."""
        route = _current.get()
        if route is not None:
            route.address, route.is_new = address, True


_current: ContextVar[Route | None] = ContextVar("route", default=None)


class CountedStream(httpcore.AsyncNetworkStream):
    """A connection to a judged address, as httpcore's pool uses it."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, address: str) -> None:
        self._inner = inner
        self._address = address
        self._frames: _Frames | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 — httpcore's
        """Return what came, as httpcore asks for it."""
        route = _current.get()
        if self._frames is not None and (problem := self._frames.between()):
            return problem
        if route is not None and route.enough is not None:
            route.enough.cancel()
        data = await self._inner.read(max_bytes, timeout)
        if route is not None:
            route.received += len(data)
        return data if self._frames is None else self._frames.passed(data)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 — httpcore's
        """Send all of it, even if this request is cancelled meanwhile: others continue behind it."""
        route = _current.get()
        if route is not None:
            route.address, route.stream = self._address, self
            route.sent += len(buffer)
        if self._frames is not None:
            # A write consists of whole frames, so others may come before them.
            buffer = self._frames.answers() + buffer
        if not buffer:
            return
        with trio.CancelScope(shield=True):
            await self._inner.write(buffer, min(timeout or _WRITE_SECONDS, _WRITE_SECONDS))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 — httpcore's
    ) -> httpcore.AsyncNetworkStream:
        """Return the connection with TLS on it.

        Raises:
            httpcore.ConnectError, httpcore.ConnectTimeout: it failed, or took too long.
        """
        try:
            inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except httpcore.ConnectTimeout:
            raise httpcore.ConnectTimeout("TLS was not agreed on in time") from None
        secured = CountedStream(inner, self._address)
        found = inner.get_extra_info("ssl_object")
        if found is not None and found.selected_alpn_protocol() == "h2":
            secured._frames = _Frames()
        return secured

    def get_extra_info(self, info: str) -> object:
        """Return what httpcore knows of a connection."""
        return self._inner.get_extra_info(info)

    def end(self, stream_id: int) -> None:
        """End an HTTP/2 stream: send either side a reset as if the other had sent it.

        The pool leaves a stream whose body nobody reads to itself: what still comes on it is never
        acknowledged and closes the window of the whole connection, and it counts among the streams
        that may be open. Once it was reset, what still comes is acknowledged and dropped.
        """
        if self._frames is not None:
            self._frames.ended.append(stream_id)
            self._frames.unanswered.append(stream_id)


class _Frames:
    """Find where a frame ends in the bytes from an HTTP/2 server, so that one of ours can follow it."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.unanswered: list[int] = []
        self._header = b""
        self._left = 0

    def between(self) -> bytes:
        """Return the frames that are due, if what passed so far ended a frame."""
        if self._header or self._left:
            return b""
        due = b"".join(map(_reset, self.ended))
        self.ended.clear()
        return due

    def answers(self) -> bytes:
        """Return the frames that tell the server of the streams that were ended."""
        due = b"".join(map(_reset, self.unanswered))
        self.unanswered.clear()
        return due

    def passed(self, data: bytes) -> bytes:
        """Return what came, with the frames that are due behind the first frame that ends in it."""
        ends = self._advance(data)
        if not self.ended or not ends:
            return data
        due = b"".join(map(_reset, self.ended))
        self.ended.clear()
        return data[: ends[0]] + due + data[ends[0] :]

    def _advance(self, data: bytes) -> list[int]:
        """Follow the frames through some bytes, and return the places at which one ends."""
        ends: list[int] = []
        position = 0
        while position < len(data):
            if self._left == 0:
                taken = data[position : position + _FRAME_HEADER - len(self._header)]
                self._header += taken
                position += len(taken)
                if len(self._header) < _FRAME_HEADER:
                    break
                self._left, self._header = int.from_bytes(self._header[:3], "big"), b""
            step = min(self._left, len(data) - position)
            self._left -= step
            position += step
            if self._left == 0:
                ends.append(position)
        return ends


def _reset(stream_id: int) -> bytes:
    """Return the frame by which either side ends a stream (RFC 9113, 6.4)."""
    head = (4).to_bytes(3, "big") + bytes([_RST_STREAM, 0]) + stream_id.to_bytes(4, "big")
    return head + _CANCEL.to_bytes(4, "big")
