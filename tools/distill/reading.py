"""Collect an output that arrives in pieces, up to what can be filtered.

Of what is longer, the beginning and the end are held as they are, and of everything between only the lines
that matter. So an output of any length takes bounded memory, and a failure in its middle is not lost.
"""

from __future__ import annotations

from collections import deque

from .importance import important_lines
from .page import Page, cut_line, unforged

__all__ = ["Reader"]

_ENDS = 1024 * 1024
"""Characters held of the beginning, and of the end."""

_LINES = 25_000
"""Lines held of each: what takes memory is their number more than their length."""

_BETWEEN = 4 * 1024 * 1024
_LINE_COST = 200
"""Characters held of what matters between them, and those that a line counts for besides its own."""

_LONGEST_LINE = _BLOCK = 64 * 1024


class Reader:
    """Holds what has come by now; `chars` is how much that was, `is_whole` whether all of it is held.

    `had_marks` tells that something in it looked like a mark of ours, and was altered.
    """

    def __init__(self) -> None:
        self.chars: int = 0
        self.is_whole: bool = True
        self.had_marks: bool = False
        self._rest: list[str] = []
        self._rest_length = 0
        self._number = 0
        self._head: list[str] = []
        self._head_length = 0
        self._between: list[tuple[int, str]] = []
        self._room_between = _BETWEEN
        self._tail: deque[tuple[int, list[str], int]] = deque()
        self._tail_length = self._tail_lines = 0

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        self.chars += len(piece)
        before, newline, rest = piece.rpartition("\n")
        if newline:
            self._take("".join((*self._rest, before)))
            self._rest.clear()
            self._rest_length = 0
        if rest:
            self._rest.append(rest)
            self._rest_length += len(rest)
        if self._rest_length > 4 * _LONGEST_LINE:
            # A line without an end is cut as it comes, or joining it would take all the memory there is.
            cut = cut_line("".join(self._rest), _LONGEST_LINE)
            self.is_whole = False
            self._rest, self._rest_length = [cut], len(cut)

    def page(self, *, failed: bool) -> Page:
        """Return what is held; nothing more is taken."""
        if self._rest:
            self._take("".join(self._rest))
            self._rest.clear()
        lines, numbers = list(self._head), list(range(len(self._head)))
        for number, line in self._between:
            numbers.append(number)
            lines.append(line)
        for first, block, _ in self._tail:
            numbers.extend(range(first, first + len(block)))
            lines.extend(block)
        return Page(lines, numbers, self._number, failed)

    def _take(self, text: str) -> None:
        """Take whole lines, a block of them at a time."""
        plain = unforged(text)
        self.had_marks |= plain != text
        text, start = plain, 0
        while start <= len(text):
            end = text.find("\n", start + _BLOCK)
            end = len(text) if end < 0 else end
            lines = text[start:end].split("\n")
            if end - start > _LONGEST_LINE and max(map(len, lines)) > _LONGEST_LINE:
                self.is_whole = False
                lines = [cut_line(line, _LONGEST_LINE) for line in lines]
            self._place(lines, end - start + 1)
            start = end + 1

    def _place(self, lines: list[str], length: int) -> None:
        if not self._tail and self._head_length + length <= _ENDS and len(self._head) + len(lines) <= _LINES:
            self._head += lines
            self._head_length += length
        else:
            self._tail.append((self._number, lines, length))
            self._tail_length += length
            self._tail_lines += len(lines)
        self._number += len(lines)
        while len(self._tail) > 1 and (self._tail_length > _ENDS or self._tail_lines > _LINES):
            self._let_go(*self._tail.popleft())

    def _let_go(self, first: int, lines: list[str], length: int) -> None:
        """Keep of lines in the middle those that matter, up to a bound."""
        self.is_whole = False
        self._tail_length -= length
        self._tail_lines -= len(lines)
        block = "\n".join(lines).encode("utf-8", "replace")
        for index in important_lines(block):
            line = cut_line(lines[index])
            self._room_between -= len(line) + _LINE_COST
            if self._room_between < 0:
                break
            self._between.append((first + index, line))
