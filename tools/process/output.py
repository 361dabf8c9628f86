"""Keep the head and the tail of a program's output in memory, with stderr pieces marked.

All output passes through here once, whatever its length. Storing it whole is left to the receiver of the
chunks (`OnChunk`).
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import field
from typing import TypeAlias

from leeward.security.lazy import dataclass

__all__ = ["HeadAndTail", "OnChunk", "OutputDecoder", "Pieces"]

OnChunk: TypeAlias = Callable[[str], Awaitable[None]]

_MOST_RANGES = 20

Pieces: TypeAlias = "tuple[tuple[str, bool], ...]"
"""Text in the order in which it came, each piece with whether it was printed as an error."""


@dataclass(slots=True)
class HeadAndTail:
    """Output as it comes: up to `bound` bytes are kept, from both ends, and `dropped` is what lay between."""

    bound: int
    on_chunk: OnChunk | None = None
    dropped: int = 0
    error_lines: list[tuple[int, int]] = field(default_factory=list)
    """First and last line, counted from 1 in all there was, of what was printed as errors; the first few."""
    _line: int = 1
    _head: list[tuple[bytes, bool]] = field(default_factory=list)
    _tail: deque[tuple[bytes, bool]] = field(default_factory=deque)
    _in_head: int = 0
    _in_tail: int = 0

    def output(self, *, is_error: bool) -> OutputDecoder:
        """Return what one of the program's two outputs is fed into."""
        return OutputDecoder(self, is_error)

    async def add(self, text: str, is_error: bool) -> None:
        """Hand out a piece and keep what there is room for."""
        self._count(text, is_error)
        piece = text.encode("utf-8", "replace")
        room = self.bound // 2 - self._in_head
        if room > 0:
            taken = _whole_characters(piece[:room])
            self._head.append((taken, is_error))
            # What is cut inside a character leaves no room: what comes next belongs to the end.
            self._in_head += len(taken) if len(taken) == len(piece) else room
            piece = piece[len(taken) :]
        if piece:
            self._tail.append((piece, is_error))
            self._in_tail += len(piece)
            self._trim()
        if self.on_chunk is not None:
            await self.on_chunk(text)

    def _count(self, text: str, is_error: bool) -> None:
        first, ends = self._line, text.count("\n")
        self._line += ends
        if not is_error:
            return
        last = self._line - text.endswith("\n")
        if self.error_lines and first <= self.error_lines[-1][1] + 1:
            self.error_lines[-1] = (self.error_lines[-1][0], last)
        elif len(self.error_lines) < _MOST_RANGES:
            self.error_lines.append((first, last))

    def _trim(self) -> None:
        """Drop from the front of the end what is too much; whole pieces first, then a part of one."""
        excess = self._in_tail - (self.bound - self.bound // 2)
        while excess > 0 and self._tail:
            first, is_error = self._tail.popleft()
            rest = first[excess:]
            while rest and rest[0] & 0xC0 == 0x80:
                rest = rest[1:]
            if rest:
                self._tail.appendleft((rest, is_error))
            cut = len(first) - len(rest)
            self.dropped, self._in_tail, excess = self.dropped + cut, self._in_tail - cut, excess - cut

    def pieces(self) -> Pieces:
        """Return what was kept, with a line of ours where something is missing."""
        return tuple(self._pieces())

    def _pieces(self) -> Iterator[tuple[str, bool]]:
        for piece, is_error in self._head:
            yield piece.decode(), is_error
        if self.dropped:
            yield f"\n[... {self.dropped} bytes left out ...]\n", False
        for piece, is_error in self._tail:
            yield piece.decode(), is_error


@dataclass(slots=True)
class OutputDecoder:
    """One of the outputs: bytes in, whole characters on."""

    kept: HeadAndTail
    is_error: bool
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    async def feed(self, chunk: bytes, *, final: bool = False) -> None:
        """Take bytes in; `final` tells that none follow."""
        text = self.decoder.decode(chunk, final=final)
        if text:
            await self.kept.add(text, self.is_error)


def _whole_characters(piece: bytes) -> bytes:
    """Return as much of UTF-8 as is not cut inside a character."""
    return piece.decode("utf-8", "ignore").encode()
