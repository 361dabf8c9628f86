"""What a chat can open in the pager, by number: results of calls, and what the model thought.

What was shown of a result is kept, up to a bound. The overflow store has the whole text of a long one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from .differences import diff_lines, is_diff, sections_of
from .screen import Line
from .terminal import Section

__all__ = ["Entry", "Results", "sections"]

_MOST = 500
_MOST_CHARACTERS = 20_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that can be opened; `overflow_id` names all of it, where `text` is not all.

    `call` is the id of the call it is the result of, "" where it is of none.
    """

    number: int
    title: str
    text: str
    overflow_id: str | None = None
    call: str = ""


class Results:
    """The latest of what can be opened."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._last = 0
        self._characters = 0

    def add(self, title: str, text: str, overflow_id: str | None = None, call: str = "") -> int:
        """Keep something, and return its number."""
        self._last += 1
        self._entries.append(Entry(self._last, title, text, overflow_id, call))
        self._characters += len(text)
        while len(self._entries) > _MOST or (self._characters > _MOST_CHARACTERS and len(self._entries) > 1):
            self._characters -= len(self._entries.popleft().text)
        return self._last

    def find(self, number: int | None) -> Entry | None:
        """Return what has a number, by default the latest; None if it is not kept."""
        if number is None:
            return self._entries[-1] if self._entries else None
        return next((entry for entry in self._entries if entry.number == number), None)


def sections(title: str, text: str) -> Iterator[Section]:
    """Yield what a pager shows of a text: each file of changes as a section of its own."""
    if not is_diff(text):
        yield Section(visible(title), [[(line, "")] for line in text.split("\n")])
        return
    for name, lines in sections_of(text):
        yield Section(visible(name), _colored(lines))


def _colored(lines: list[str]) -> list[Line]:
    return [*diff_lines([line.expandtabs() for line in lines])]
