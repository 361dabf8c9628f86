"""Search the lines of a text that arrives in chunks.

Lines are counted from 1 and end at a line feed. Matching is per line; a block of lines in which nothing
can match is skipped as a whole, which makes searching a gigabyte affordable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from leeward.security.lazy import dataclass, regex

from ..patterns import linear_pattern

__all__ = ["Block", "Blocks", "Hit", "LineQuery", "LineSearch"]

_LONGEST_LINE = 1_048_576  # characters: a longer line is searched in parts, to bound the memory
_SHOWN = 400  # characters of a line around a hit

# The ends of a whole text, or `^` and `$` made to mean them: in a block of lines they are elsewhere.
_ENDS_OF_TEXT = regex(r"\\[Az]|\(\?[a-zA-Z]*-")


@dataclass(frozen=True, slots=True)
class LineQuery:
    """Which lines are wanted: those that match an RE2 pattern, `limit` of them, each with some around it."""

    pattern: str
    limit: int = 50
    before: int = 0
    after: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A line (counted from 1) cut to what is around the match at character `offset`; it begins at `start`.

    A line beside one that matched is not `matched`, and its `offset` is where it begins.
    """

    line: int
    offset: int
    text: str
    start: int
    matched: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, or a part of one beyond all measure; `line` and `offset` are where it begins."""

    line: int
    offset: int
    text: str

    def lines(self) -> Iterator[Block]:
        """Yield each line without its end."""
        number, offset = self.line, self.offset
        for line in self.text.removesuffix("\n").split("\n"):
            yield Block(number, offset, line)
            number, offset = number + 1, offset + len(line) + 1

    def last(self, count: int) -> list[Block]:
        """Return the last few lines."""
        text = self.text.removesuffix("\n")
        parts = text.rsplit("\n", count)[-count:] if count else []
        number = self.line + text.count("\n") - len(parts) + 1
        offset = self.offset + len(text) - sum(map(len, parts)) - len(parts) + 1
        found = []
        for part in parts:
            found.append(Block(number, offset, part))
            number, offset = number + 1, offset + len(part) + 1
        return found


class Blocks:
    """Cuts a text that comes in chunks into blocks of whole lines."""

    def __init__(self, line: int = 1, offset: int = 0) -> None:
        self._line = line
        self._offset = offset
        self._rest = ""

    def feed(self, chunk: str, *, last: bool) -> Iterator[Block]:
        """Yield the lines that are whole by now, and with the last chunk what is left."""
        text = self._rest + chunk
        end = len(text) if last else text.rfind("\n") + 1
        if not end and len(text) >= _LONGEST_LINE:
            end = len(text)
        self._rest = text[end:]
        if end:
            yield Block(self._line, self._offset, text[:end])
            self._line += text.count("\n", 0, end)
            self._offset += end


class LineSearch:
    """Gathers the lines that are wanted.

    Raises:
        BadPattern: the pattern is no RE2 pattern.
    """

    def __init__(self, wanted: LineQuery) -> None:
        self._pattern = linear_pattern(wanted.pattern)
        is_plain = _ENDS_OF_TEXT.search(wanted.pattern) is None
        self._anywhere = linear_pattern(f"(?m){wanted.pattern}", within_lines=True) if is_plain else None
        self._wanted = wanted
        self._before: deque[Hit] = deque(maxlen=wanted.before)
        self._owed = 0
        self._matched = 0
        self.hits: list[Hit] = []
        self.next: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be gathered; `next` is then where to look for more."""
        return self.next is not None or self._wanted.limit <= 0

    def take(self, block: Block) -> None:
        """Look at the next block."""
        # A lone surrogate is nothing the matcher could be given; it counts as a question mark.
        text = block.text.encode("utf-8", "replace")
        if not self._owed and self._anywhere is not None and self._anywhere.search(text) is None:
            for line in block.last(self._wanted.before):
                self._pass(line)
            return
        for line in replace(block, text=text.decode("utf-8")).lines():
            if self.is_over:
                return
            self._look_at(line)

    def _look_at(self, line: Block) -> None:
        found = self._pattern.search(line.text)
        if found is not None and self._matched == self._wanted.limit:
            self.next = self._before[0].start if self._before else line.offset
        elif found is not None:
            self.hits += (near for near in self._before if near.line != line.line)
            self._before.clear()
            text = _around(line.text, found.start())
            self.hits.append(Hit(line.line, line.offset + found.start(), text, line.offset))
            self._matched += 1
            self._owed = self._wanted.after
        else:
            self._pass(line)

    def _pass(self, line: Block) -> None:
        """Keep a line that did not match, as a neighbour; of one in parts, the first."""
        last = self.hits[-1] if self._owed else self._before[-1] if self._before else None
        if last is not None and last.line == line.line:
            return
        if self._owed:
            self._owed -= 1
            self.hits.append(_beside(line))
        else:
            self._before.append(_beside(line))


def _beside(line: Block) -> Hit:
    return Hit(line.line, line.offset, _around(line.text, 0), line.offset, matched=False)


def _around(line: str, start: int) -> str:
    """Cut a long line down to the neighbourhood of a match."""
    if len(line) <= _SHOWN:
        return line
    begin = max(0, min(start - _SHOWN // 4, len(line) - _SHOWN))
    end = begin + _SHOWN
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
