"""Serve one connection of a program to the proxy: one request, judged, then answered or forwarded.

The program's Host header is never trusted, and an ambiguous request is refused. The outcome of a
tunnel is the subject of `tunnel.py`, what of plain http that of `forward.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import NoReturn, TypeAlias

import h11
import trio

from leeward.security.call import Exchange, Gatekeeper
from leeward.security.lazy import dataclass
from leeward.security.outcome import NetworkError, PolicyBlocked
from leeward.security.url import Url

from .forward import forward
from .tunnel import tunnel
from .wire import BROKEN, CHUNK, Wire

__all__ = ["Bounds", "Connection", "Dial"]

_LONGEST_REASON = 300
_LINGER = 1.0
_MOST_DRAINED = 16
_HEAD = b"HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
_CONTROLS = bytes(byte if 0x20 <= byte < 0x7F else 0x3F for byte in range(256))

Dial: TypeAlias = Callable[[str, int, float], Awaitable[tuple[trio.SocketStream, str]]]
"""Connects to a host and a port within so many seconds, and returns the address, too."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one run may take: connections at once and in all, bytes both ways, and seconds."""

    at_once: int = 64
    connections: int = 5_000
    total_bytes: int = 8 << 30
    head_bytes: int = 64 * 1024
    head_seconds: float = 15.0
    dial_seconds: float = 20.0
    idle_seconds: float = 120.0


class _Refused(Exception):
    """A request is answered with this status and reason instead of being passed on."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(slots=True)
class Connection:
    """One connection of the program; `spend` is called with each number of bytes that goes either way."""

    gate: Gatekeeper
    dial: Dial
    bounds: Bounds
    spend: Callable[[int], Awaitable[None]]
    stream: trio.SocketStream
    http: h11.Connection = field(init=False)

    def __post_init__(self) -> None:
        self.http = h11.Connection(h11.SERVER, self.bounds.head_bytes)

    async def followed(self) -> None:
        """Serve it to its end."""
        try:
            request = await self._request()
            if request is None:
                return
            is_tunnel = request.method == b"CONNECT"
            target = await self._target(request, is_tunnel=is_tunnel)
            url, number = await self.gate.admit(target, is_tunnel=is_tunnel)
        except _Refused as refused:
            await self.answer(refused.status, str(refused))
        except PolicyBlocked as blocked:
            await self.answer(403, str(blocked))
        else:
            await self._connect(url, number, request)

    async def _request(self) -> h11.Request | None:
        with trio.move_on_after(self.bounds.head_seconds):
            try:
                event = await self.event()
            except h11.RemoteProtocolError as error:
                await self._refuse("", "malformed", str(error), error.error_status_hint)
            return event if isinstance(event, h11.Request) else None
        return None

    async def _target(self, request: h11.Request, *, is_tunnel: bool) -> str:
        """Return what a request is for, once nothing in it says something else."""
        target = request.target.decode("latin-1")
        names = [name for name, _ in request.headers]
        if b"transfer-encoding" in names and b"content-length" in names:
            await self._refuse(target, "malformed", "the request says twice how long it is")
        if is_tunnel and (b"transfer-encoding" in names or _length(request) != 0):
            await self._refuse(target, "malformed", "a request for a tunnel has no content")
        if not is_tunnel and "://" not in target:
            await self._refuse(target, "malformed", "this is a proxy: it takes http://HOST/PATH and CONNECT")
        authority = target if is_tunnel else target.partition("://")[2].partition("/")[0].partition("?")[0]
        hosts = {value.decode("latin-1").lower() for name, value in request.headers if name == b"host"}
        if not hosts <= _spellings(authority.lower()):
            await self._refuse(target, "host", "the Host header names another host than the request")
        return target

    async def _refuse(self, target: str, rule: str, reason: str, status: int = 400) -> NoReturn:
        await self.gate.refuse(target, rule, reason)
        raise _Refused(status, reason)

    async def _connect(self, url: Url, number: int, request: h11.Request) -> None:
        """Dial, and forward the request; the outcome is recorded however it ends."""
        began, address, problem, status = trio.current_time(), "", "cancelled", None
        wire: Wire | None = None
        try:
            upstream, address = await self.dial(url.host, url.port, self.bounds.dial_seconds)
            wire = Wire(self.stream, upstream, self.spend, self.bounds.idle_seconds)
            if request.method == b"CONNECT":
                problem = await tunnel(
                    url, wire, self.gate, self.http.trailing_data[0], self.bounds.head_seconds
                )
            else:
                status, problem = await forward(url, request, self, wire)
        except (PolicyBlocked, NetworkError) as error:
            problem = str(error)
            await self.answer(403 if isinstance(error, PolicyBlocked) else 502, problem)
        except BROKEN:
            problem = "the connection broke"
        finally:
            sizes = (0, 0) if wire is None else (wire.sent, wire.received)
            seconds, method = trio.current_time() - began, request.method.decode("latin-1")
            # First, for closing is a checkpoint: one that is cancelled ends here.
            self.gate.report(Exchange(url, method, address, status, *sizes, seconds, problem), number)
            if wire is not None:
                await trio.aclose_forcefully(wire.upstream)

    async def event(self) -> h11.Event:
        """Return the next part of the program's request."""
        while True:
            if self.http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            event = self.http.next_event()
            if event is h11.PAUSED:
                return h11.ConnectionClosed()
            if isinstance(event, h11.Event):
                return event
            self.http.receive_data(bytes(await self.stream.receive_some(CHUNK)))

    async def send(self, event: h11.Event) -> None:
        """Send a part of the answer to the program."""
        data = self.http.send(event)
        if data:
            await self.stream.send_all(data)

    async def answer(self, status: int, reason: str) -> None:
        """Say why a request is not passed on, in the status line, which programs quote, and below."""
        reason_phrase = f"leeward: {reason}".encode("ascii", "replace")[:_LONGEST_REASON].translate(_CONTROLS)
        body = reason_phrase + b"\n"
        with trio.move_on_after(_LINGER):
            await self.stream.send_all(_HEAD % (status, reason_phrase, len(body)) + body)
            await self.stream.send_eof()
            # Closed on what the program still sends, the connection would take the answer away from it.
            for _ in range(_MOST_DRAINED):
                if not await self.stream.receive_some(CHUNK):
                    return


def _spellings(authority: str) -> set[str]:
    """Return how a Host header may name what a request is for: as it does, or without a port."""
    host, _, port = authority.rpartition(":")
    return {authority, host} if host and port.isdecimal() else {authority, f"{authority}:80"}


def _length(request: h11.Request) -> int:
    return next((int(value) for name, value in request.headers if name == b"content-length"), 0)
