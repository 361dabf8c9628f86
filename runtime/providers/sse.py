"""Where does one event of an event stream end? Bytes in, the data of complete events out.

The rules are those of the WHATWG HTML standard, section "Interpreting an event stream"; field
names other than `data` mean nothing here. What the data says is left to the dialect that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .interface import ErrorKind, ModelError

__all__ = ["MAX_EVENT", "EventStream"]

MAX_EVENT = 16 * 1024 * 1024
"""Bytes after which an event that has not ended is given up."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """An incremental parser; pieces may be cut anywhere, also within a character."""

    __slots__ = ("_at_start", "_data", "_half", "_held", "_line", "_size")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._held = 0
        self._half = b""
        self._at_start = True
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that this piece completes; invalid UTF-8 is replaced.

        Raises:
            ModelError: an event is longer than `MAX_EVENT`.
        """
        if self._half:
            piece = self._half + piece
            self._half = b""
        if piece[-1:] == b"\r":
            # A carriage return that ends the piece may be half of a line end.
            self._half, piece = b"\r", piece[:-1]
        *lines, rest = piece.split(b"\n") if b"\r" not in piece else _LINE_END.split(piece)
        if not lines:
            self._hold(rest)
            return []
        if self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
            self._held = 0
        events = self._events(lines)
        self._hold(rest)
        return events

    def flush(self) -> list[str]:
        """Return what the end of the stream completes.

        The standard drops an event without its blank line; servers that end right after their last
        line are common, so it is told here, and a reader finds out whether it is whole.
        """
        return self.feed(b"\n\n")

    def _events(self, lines: Iterable[bytes]) -> list[str]:
        events: list[str] = []
        for line in lines:
            if self._at_start:
                self._at_start = False
                line = line.removeprefix(_BYTE_ORDER_MARK)  # noqa: PLW2901 - the mark is no part of the line
            if line[:5] == b"data:" or line == b"data":
                start = 6 if line[5:6] == b" " else 5
                self._data.append(line[start:].decode("utf-8", "replace"))
                self._size += len(line)
            elif not line:
                if self._data:
                    events.append("\n".join(self._data))
                    self._data.clear()
                self._size = 0
        return events

    def _hold(self, rest: bytes) -> None:
        """Keep the beginning of a line whose end has not come."""
        if rest:
            self._line.append(rest)
            self._held += len(rest)
        if self._size + self._held > MAX_EVENT:
            raise ModelError("the model's reply holds an event without an end", ErrorKind.PROTOCOL)
