"""What a connection to a server is made of, and the bounds on what comes out of one.

A transport carries whole messages of JSON-RPC as bytes. `Incoming` is the one place that takes such bytes
apart before the SDK does: it drops what is no message, and ends a connection whose server sends more than
answers to what it was asked.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import ServerError

__all__ = ["MOST_BYTES", "Ended", "Incoming", "Transport"]

MOST_BYTES = 4 << 20
"""Bytes of one message, at most."""

# Messages beyond answers: so many at once, and so many more each second.
_BURST, _RATE = 2_000.0, 100.0

# Of what a server asks for itself, each one is a task until it is answered.
_ASKED_BURST, _ASKED_RATE = 50.0, 5.0

_MOST_NOISE = 200


class Ended(ServerError):
    """The connection is over; the message says why, in our words."""


class Transport(Protocol):
    """Carries messages to a server and back."""

    async def send(self, message: bytes) -> None:
        """Send a message; where it cannot be taken soon, the connection is over.

        Raises:
            Ended: the connection is over.
        """
        ...

    async def receive(self) -> bytes:
        """Return the next message.

        Raises:
            Ended: the connection is over.
        """
        ...

    @property
    def last_words(self) -> str:
        """The end of what the server printed beside its messages."""
        ...


@dataclass(slots=True)
class _Bucket:
    """So many at once, and so many more each second."""

    most: float
    rate: float
    left: float = 0.0
    at: float = 0.0

    def take(self) -> bool:
        now = trio.current_time()
        self.left = min(self.most, self.left + (now - self.at) * self.rate) if self.at else self.most
        self.at = now
        self.left -= 1
        return self.left >= 0


class Incoming:
    """Reads messages off a transport, and holds the server to its bounds."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._noise = 0
        self._unasked = _Bucket(_BURST, _RATE)
        self._requests = _Bucket(_ASKED_BURST, _ASKED_RATE)

    async def next(self) -> dict[str, Any]:
        """Return the next message as an object.

        Raises:
            Ended: the connection is over, or has to be.
        """
        while True:
            raw = await self._transport.receive()
            message = _read(raw)
            if message is None:
                self._noise += bool(raw.strip())
                if self._noise > _MOST_NOISE:
                    raise Ended("it prints something else than messages to standard output")
                continue
            if "method" in message and not self._unasked.take():
                raise Ended("it sends more messages of its own than are read")
            if "method" in message and "id" in message and not self._requests.take():
                raise Ended("it asks for more than is answered")
            return message


def _read(raw: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
