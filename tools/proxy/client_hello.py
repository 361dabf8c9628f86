"""Read the server name from a TLS ClientHello, and nothing else.

The message may be split over records, and comes in the clear in every version of TLS (RFC 8446, 4.1.2 and
5.1). The name in it (RFC 6066, 3) has to be the host that was judged. Where an extension may hide another
name behind it (ECH, RFC 9849), it tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from leeward.security.lazy import dataclass

__all__ = ["LONGEST_HELLO", "ClientHello", "NotReadable"]

LONGEST_HELLO = 32 * 1024
"""Bytes of a first message, at most: with post-quantum keys it has about two thousand."""

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_TLS_MAJOR = 3
_LONGEST_RECORD = 1 << 14
_HEAD, _MESSAGE_HEAD = 5, 4
_SERVER_NAME, _HOST_NAME = 0x0000, 0
_ENCRYPTED_HELLO = (0xFE0D, 0xFE08, 0xFE09, 0xFE0A)  # and drafts before it


class NotReadable(ValueError):
    """The bytes are not the beginning of a TLS connection, or one that says which server it is for."""


@dataclass(slots=True)
class ClientHello:
    """The first message as it comes in; `data` is all that came. Each byte is looked at once."""

    data: bytearray = field(default_factory=bytearray)
    _message: bytearray = field(default_factory=bytearray)
    _position: int = 0

    def feed(self, chunk: bytes) -> str | None:
        """Take bytes in; return the host the connection is for, in lower case, None while more is to come.

        Raises:
            NotReadable: it is something else, or does not say.
        """
        self.data += chunk
        while (record := self._next_record()) is not None:
            self._message += record
            if self._message[0] != _CLIENT_HELLO:
                raise NotReadable("the connection does not start with a TLS ClientHello")
            length = int.from_bytes(self._message[1:_MESSAGE_HEAD], "big")
            if len(self._message) >= _MESSAGE_HEAD + length and len(self._message) >= _MESSAGE_HEAD:
                return _server_name(_Reader(bytes(self._message[_MESSAGE_HEAD : _MESSAGE_HEAD + length])))
        if len(self.data) > LONGEST_HELLO:
            raise NotReadable("the TLS ClientHello is too long")
        return None

    def _next_record(self) -> bytes | None:
        """Return what the next record holds, None while it is not whole."""
        head = self.data[self._position : self._position + _HEAD]
        # Something else than TLS shows in its first bytes; waiting for the rest could take for ever.
        if head[:1] not in (b"", bytes([_HANDSHAKE])) or head[1:2] not in (b"", bytes([_TLS_MAJOR])):
            raise NotReadable("it is not TLS")
        if len(head) < _HEAD:
            return None
        size = int.from_bytes(head[3:5], "big")
        if not 0 < size <= _LONGEST_RECORD:
            raise NotReadable("it is not TLS")
        end = self._position + _HEAD + size
        if end > len(self.data):
            return None
        record, self._position = bytes(self.data[self._position + _HEAD : end]), end
        return record


@dataclass(slots=True)
class _Reader:
    """Takes fields off the beginning of some bytes."""

    data: bytes
    position: int = 0

    @property
    def is_done(self) -> bool:
        return self.position == len(self.data)

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.data):
            raise NotReadable("the TLS ClientHello is damaged")
        found, self.position = self.data[self.position : end], end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Reader:
        """Take a block that is preceded by its own length of so many bytes."""
        return _Reader(self.take(self.number(size)))


def _server_name(hello: _Reader) -> str:
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # ciphers
    hello.vector(1)  # compression
    names: list[bytes] = []
    for kind, content in _extensions(hello):
        if kind in _ENCRYPTED_HELLO:
            raise NotReadable("the TLS ClientHello may hide its server (ECH)")
        if kind == _SERVER_NAME:
            names += _names(content.vector(2))
    if not names:
        raise NotReadable("the TLS ClientHello names no server (SNI)")
    if len(names) > 1:
        raise NotReadable("the TLS ClientHello names several servers")
    try:
        return names[0].decode("ascii").lower()
    except UnicodeDecodeError:
        raise NotReadable("the connection is for a server whose name is no host") from None


def _extensions(hello: _Reader) -> Iterator[tuple[int, _Reader]]:
    if hello.is_done:
        return
    extensions = hello.vector(2)
    if not hello.is_done:
        raise NotReadable("the TLS ClientHello is damaged")
    while not extensions.is_done:
        yield extensions.number(2), extensions.vector(2)


def _names(listed: _Reader) -> Iterator[bytes]:
    while not listed.is_done:
        kind = listed.number(1)
        name = listed.vector(2)
        if kind != _HOST_NAME:
            raise NotReadable("the connection is for a server that is named by no host")
        yield name.data
