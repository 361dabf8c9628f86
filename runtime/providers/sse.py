"""Where does one event of an event stream end? Bytes in, the data of complete events out.

The rules are those of the WHATWG HTML standard, section "Interpreting an event stream"; field
names other than `data` mean nothing here. What the data says is left to the dialect that reads it.
"""

from __future__ import annotations

import re

from .events import ErrorKind, ModelError

__all__ = ["MAX_EVENT", "EventStream"]

MAX_EVENT = 16 * 1024 * 1024
"""Bytes after which an event that has not ended is given up."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """An incremental parser; pieces may be cut anywhere, also within a character."""

    __slots__ = ("_at_start", "_buffer", "_data", "_scanned", "_size")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._at_start = True
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that this piece completes; invalid UTF-8 is replaced.

        Raises:
            ModelError: an event is longer than `MAX_EVENT`.
        """
        self._buffer += piece
        events: list[str] = []
        start = 0
        while (end := _LINE_END.search(self._buffer, self._scanned)) is not None:
            # A carriage return that ends the piece may be half of a line end.
            if end[0] == b"\r" and end.end() == len(self._buffer):
                break
            self._line(bytes(self._buffer[start : end.start()]), events)
            start = self._scanned = end.end()
        del self._buffer[:start]
        self._scanned = len(self._buffer) - self._buffer.endswith(b"\r")
        self._bound()
        return events

    def flush(self) -> list[str]:
        """Return what the end of the stream completes.

        The standard drops an event without its blank line; servers that end right after their last
        line are common, so it is told here, and a reader finds out whether it is whole.
        """
        events = self.feed(b"\n\n")
        self._buffer.clear()
        self._scanned = 0
        return events

    def _line(self, line: bytes, events: list[str]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            if self._data:
                events.append("\n".join(self._data))
            self._data = []
            self._size = 0
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            self._size += len(line)

    def _bound(self) -> None:
        if len(self._buffer) + self._size > MAX_EVENT:
            raise ModelError("the model's reply holds an event without an end", ErrorKind.PROTOCOL)
