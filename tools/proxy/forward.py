"""Forward one plain request, rewritten for the judged URL, and return its answer.

Nothing of how the program framed its request reaches the server, so the two cannot read it differently. The
connection ends with the answer: a second request on it is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import h11

from leeward.security.url import Url

from .wire import Wire

__all__ = ["forward"]

# Of one connection only (RFC 9110, 7.6.1), or for a proxy; and Host, which is written anew.
_NOT_PASSED_ON = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer upgrade "
    b"expect host http2-settings".split()
)
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_LONGEST_HEAD = 64 * 1024
_ENDS = (h11.EndOfMessage, h11.ConnectionClosed)


class Client(Protocol):
    """The program's side of it (`connection.py`)."""

    @property
    def http(self) -> h11.Connection:
        """What was sent so far."""
        ...

    async def event(self) -> h11.Event:
        """Return the next part of the request."""
        ...

    async def send(self, event: h11.Event) -> None:
        """Send a part of the answer."""
        ...

    async def answer(self, status: int, reason: str) -> None:
        """Say why there is no answer."""
        ...


async def forward(url: Url, request: h11.Request, client: Client, wire: Wire) -> tuple[int | None, str]:
    """Pass the request on and the answer back; return the answer's status, and what was wrong."""
    server = h11.Connection(h11.CLIENT, _LONGEST_HEAD)
    authority = url.text.removeprefix(f"{url.scheme}://").partition("/")[0]
    headers = [(b"Host", authority.encode()), *_passed_on(request.headers), (b"Connection", b"close")]
    anew = h11.Request(method=request.method, target=url.target.encode(), headers=headers)
    wire.moved()
    with wire.scope:
        try:
            await wire.send_up(server.send(anew) or b"")
            while not isinstance(event := await client.event(), _ENDS):
                await wire.send_up(server.send(event) or b"")
            await wire.send_up(server.send(h11.EndOfMessage()) or b"")
            status = await _answered(server, client, wire)
        except h11.ProtocolError as error:
            # Before anything of an answer was forwarded, the program can still get an error.
            if client.http.our_state is h11.SEND_RESPONSE:
                await client.answer(502, str(error))
            return None, str(error)
        return status, "" if status is not None else "there was no answer"
    return None, "timed out waiting for data"


async def _answered(server: h11.Connection, client: Client, wire: Wire) -> int | None:
    """Pass an answer on to its end, and return its status."""
    status: int | None = None
    while True:
        event = server.next_event()
        if event is h11.NEED_DATA:
            server.receive_data(await wire.receive_down())
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = [*_passed_on(event.headers), (b"Connection", b"close")]
            await client.send(h11.Response(status_code=status, headers=headers, reason=bytes(event.reason)))
        elif isinstance(event, h11.Data):
            await client.send(event)
        elif isinstance(event, h11.EndOfMessage):
            await client.send(h11.EndOfMessage())
            return status
        elif not isinstance(event, h11.InformationalResponse):
            return status


def _passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers of a message that are not of one connection, by its own word or by what they are."""
    listed = tuple(headers)
    named = {
        word.strip().lower() for name, value in listed if name == b"connection" for word in value.split(b",")
    }
    left_out = _NOT_PASSED_ON | (named - _FRAMING)
    yield from ((name, value) for name, value in listed if name not in left_out)
