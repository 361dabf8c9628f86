"""Find matching lines of a file in blocks of lines, without loading the whole file.

Bytes are searched for a literal that is part of every match of the expression, which spares most of the
work; the literal is wrong in one direction only: where it is not certain, there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

from leeward.memory.patterns import BadPattern, LinearPattern, linear_pattern
from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import InvalidParameters

from ..files import as_utf8, blocks, encoding_of

__all__ = ["LinePattern", "literal_in"]


# One piece of an expression and what it is repeated by; whatever else there is ends the look.
_PIECE = regex(
    r"(?P<literal>[A-Za-z0-9_ \"'#%&,/:;<=>@`~!-])"
    r"|\\(?P<escaped>[^A-Za-z0-9\s])"
    r"|(?P<other>\\[AbBdDsSwWz]|\.|\^|\$|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\\[])*\])"
)
_REPEATED = regex(r"(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})\??")


def literal_in(pattern: str) -> bytes:
    """Return a text that every match of an RE2 expression holds, the longest that is seen, or nothing."""
    runs: list[str] = []
    run, at = "", 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            # A group, an alternative, a flag: the literal so far need not occur.
            return b""
        at = piece.end()
        repeated = _REPEATED.match(pattern, at)
        at = repeated.end() if repeated else at
        char = piece["literal"] or piece["escaped"] or ""
        if char and not repeated:
            run += char
            continue
        runs.append(run + char if char and repeated and repeated[0][0] == "+" else run)
        run = ""
    return max((*runs, run), key=len).encode()


_BLOCK = 1024 * 1024
_LONGEST_LINE = 4 * _BLOCK
_SNIFFED = 8192


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A compiled expression, and a text that every match holds (or nothing)."""

    expression: LinearPattern
    literal: bytes

    @classmethod
    def of(cls, pattern: str) -> LinePattern:
        """Compile an expression that matches within single lines of bytes.

        Raises:
            InvalidParameters: RE2 does not understand it; the message says why.
        """
        try:
            return cls(linear_pattern(f"(?m){pattern}", within_lines=True), literal_in(pattern))
        except BadPattern as error:
            raise InvalidParameters(str(error)) from error

    def lines_of(self, descriptor: int) -> Iterator[tuple[int, bytes]]:
        """Yield number (from 1) and text of each matching line of an open file; a binary one has no lines."""
        block = os.read(descriptor, _BLOCK)
        encoding = encoding_of(block)
        if encoding.name == "utf-8" and block.find(b"\0", 0, _SNIFFED) >= 0:
            return
        following = os.read(descriptor, _BLOCK) if block else b""
        if not following and encoding.name == "utf-8":
            yield from self._in_block(block, 1)
            return
        parts = chain((block[len(encoding.mark) :], following), blocks(descriptor))
        number = 1
        for lines in _whole_lines(as_utf8(parts, encoding)):
            yield from self._in_block(lines, number)
            number += lines.count(b"\n")

    def _in_block(self, block: bytes, number: int) -> Iterator[tuple[int, bytes]]:
        if self.literal and self.literal not in block:
            return
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        position = 0
        while position < len(block) and (match := self.expression.search(block, position)):
            start = block.rfind(b"\n", position, match.start()) + 1 or position
            if start == len(block):
                return
            end = block.find(b"\n", match.start())
            end = end if end >= 0 else len(block)
            number += block.count(b"\n", position, start)
            yield number, block[start:end]
            number += 1
            position = end + 1


def _whole_lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines; only a line beyond all measure is cut."""
    rest = b""
    for part in parts:
        rest += part
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) >= _LONGEST_LINE:
            end = len(rest)
        yield rest[:end]
        rest = rest[end:]
    yield rest
