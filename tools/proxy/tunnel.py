"""Forward a TLS connection once its ClientHello names the judged host.

Until then no byte of it leaves, and none comes back. TLS is not opened: only the host reads what is in it.
"""

from __future__ import annotations

import trio

from leeward.security.call import Gatekeeper
from leeward.security.url import Url

from .client_hello import ClientHello, NotReadable
from .wire import BROKEN, CHUNK, Wire

__all__ = ["tunnel"]

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def tunnel(url: Url, wire: Wire, gate: Gatekeeper, early: bytes, seconds: float) -> str:
    """Pass bytes on in both directions, and return what was wrong, "" for nothing.

    `early` are bytes that came with the request, and `seconds` how long the first message may take.
    """
    await wire.stream.send_all(_ESTABLISHED)
    hello, name = ClientHello(), None
    try:
        with trio.fail_after(seconds):
            name = hello.feed(early)
            while name is None:
                chunk = await wire.stream.receive_some(CHUNK)
                if not chunk:
                    return "the command sent nothing"
                name = hello.feed(bytes(chunk))
    except trio.TooSlowError:
        return "the command did not begin with TLS in time"
    except NotReadable as error:
        await gate.refuse(url.text, "sni", str(error))
        return str(error)
    if name != url.host:
        reason = "the TLS ClientHello names another host than the one that was allowed"
        await gate.refuse(url.text, "sni", reason)
        return reason
    return await _relay(wire, bytes(hello.data))


async def _relay(wire: Wire, first: bytes) -> str:
    """Pass bytes on until both sides ended, or nothing moved for too long."""
    wire.moved()
    with wire.scope:
        await wire.send_up(first)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_up, wire)
            nursery.start_soon(_down, wire)
    return "timed out waiting for data" if wire.is_idle else ""


async def _up(wire: Wire) -> None:
    try:
        while chunk := await wire.stream.receive_some(CHUNK):
            await wire.send_up(bytes(chunk))
        await wire.upstream.send_eof()
    except BROKEN:
        wire.scope.cancel()


async def _down(wire: Wire) -> None:
    try:
        while chunk := await wire.receive_down():
            await wire.stream.send_all(chunk)
        await wire.stream.send_eof()
    except BROKEN:
        wire.scope.cancel()
