"""An output as numbered lines, and the decision about each line.

    Reader ─► Page ─► strategy ─► Decision ─► Page ─► … ─► text

A strategy never writes text: it names lines to leave out, and lines to fold into another one like them. The
page carries that out, but for the lines that are guarded, and says with marks of its own how much is missing
where. A line of the output that looks like such a mark is altered, so none can be forged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress

from leeward.memory.patterns import LinearPattern

from .importance import find_important, important_lines, matching_lines, reference_lines, warning_lines

__all__ = ["Decision", "Fold", "NothingLeft", "Page", "cut_line", "matching", "unforged"]

_MARK, _NO_MARK = "[… ", "[... "
# Fewer lines than this are left out without a mark: it would be longer than many of them.
_TOLD = 4
_LONGEST_LINE = 10_000
_WINDOW = 300
_MOST_WINDOWS = 20
# Where a program failed, the lines around one that matters do so as well.
_LINES_BEFORE, _LINES_BEHIND = 2, 4


class NothingLeft(Exception):
    """A strategy wants to leave out all there is."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that repeat the one they are folded into; `note` is what differs.

    Without a note their number is shown; an empty one shows nothing.
    """

    into: int
    members: Sequence[int]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a strategy wants of a page; lines are named by their index on it.

    `dropped` are left out unless they are guarded; those in `known` are lines that the strategy has read to
    their last character, such as a test that passed, and are dropped whatever words they hold. `is_blind`:
    it went by the place of lines and not by their words, so that more is guarded. `notes` are words of
    ours behind lines that stay.
    """

    dropped: Iterable[int] = ()
    known: Iterable[int] = ()
    folds: Iterable[Fold] = ()
    notes: Mapping[int, str] = field(default_factory=dict)
    is_blind: bool = False


@dataclass(frozen=True)
class Page:
    """The lines that are still shown; `numbers` are theirs in the whole output, from 0.

    `failed` tells that the program did not end well, or that nobody knows. `notes` are shown behind lines, by
    number, and `folded` are the numbers of lines that another one shows. `total` is how many there were.
    """

    lines: Sequence[str]
    numbers: Sequence[int]
    total: int
    failed: bool = False
    notes: Mapping[int, str] = field(default_factory=dict)
    folded: frozenset[int] = frozenset()

    @classmethod
    def of(cls, text: str, *, failed: bool = False) -> Page:
        """Return a text as a page."""
        lines = text.removesuffix("\n").split("\n")
        return cls(lines, range(len(lines)), len(lines), failed)

    @cached_property
    def block(self) -> bytes:
        """The lines as RE2 takes them."""
        return "\n".join(self.lines).encode("utf-8", "replace")

    @cached_property
    def important(self) -> bytearray:
        """A mark for each line that must stay: failures, what they refer to, and how it ended."""
        marks = self.serious[:]
        for number in reference_lines(self.block):
            marks[number] = 1
        for index in range(len(self.lines) - 1, -1, -1):
            if self.lines[index].strip():
                marks[index] = 1
                break
        return marks

    @cached_property
    def serious(self) -> bytearray:
        """A mark for each line that speaks of a failure, and where there was one, for each warning."""
        marks = bytearray(len(self.lines))
        for number in important_lines(self.block):
            marks[number] = 1
        for number in warning_lines(self.block) if self.failed else ():
            marks[number] = 1
        return marks

    @cached_property
    def surroundings(self) -> bytearray:
        """The same with the lines around them."""
        marks = self.important[:]
        for index in compress(range(len(marks)), self.serious):
            first, last = max(0, index - _LINES_BEFORE), min(len(marks), index + _LINES_BEHIND + 1)
            marks[first:last] = b"\1" * (last - first)
        return marks

    def after(self, decision: Decision) -> Page:
        """Return what is left of the page.

        Raises:
            NothingLeft: no line would be left but what is guarded.
        """
        keep = bytearray(b"\1") * len(self.lines)
        dropped, known = list(decision.dropped), list(decision.known)
        for index in (*dropped, *known):
            keep[index] = 0
        if any(map(str.strip, self.lines)) and not any(compress(map(str.strip, self.lines), keep)):
            raise NothingLeft
        guard = self.surroundings if decision.is_blind and self.failed else self.important
        for index in dropped:
            keep[index] = guard[index]
        for index in known:
            keep[index] = 0
        notes, folded = dict(self.notes), set(self.folded)
        for index, note in decision.notes.items():
            notes[self.numbers[index]] = note
        for fold in decision.folds:
            # A line that matters is folded only into one that stays for the same reason.
            stays = self.serious[fold.into]
            members = [
                index
                for index in fold.members
                if keep[index] and index != fold.into and (stays or not self.serious[index])
            ]
            for index in members:
                keep[index] = 0
            if members:
                keep[fold.into] = 1
                folded.update(self.numbers[index] for index in members)
                note = f"{len(members)} more like it" if fold.note is None else fold.note
                number = self.numbers[fold.into]
                if note:
                    notes[number] = "; ".join(filter(None, (notes.get(number), note)))
        if all(keep) and notes == self.notes:
            return self
        lines, numbers = list(compress(self.lines, keep)), list(compress(self.numbers, keep))
        return Page(lines, numbers, self.total, self.failed, notes, frozenset(folded))

    @property
    def squeezed(self) -> Page:
        """The page with one blank line where there are several."""
        folds, first = [], -1
        for index, line in enumerate(self.lines):
            if line.strip():
                first = -1
            elif first < 0:
                first = index
            else:
                folds.append(Fold(first, (index,), ""))
        return self.after(Decision(folds=folds))

    @property
    def text(self) -> str:
        """What is shown: the lines, and marks for what is not."""
        shown: list[str] = []
        folded = sorted(self.folded)
        position, expected = 0, 0
        for line, number in zip(self.lines, self.numbers, strict=True):
            begin = position
            while position < len(folded) and folded[position] < number:
                position += 1
            self._tell_gap(shown, expected, number, position - begin)
            note = self.notes.get(number)
            shown.append(cut_line(line) if note is None else f"{cut_line(line)}  {_MARK}{note}]")
            expected = number + 1
        self._tell_gap(shown, expected, self.total, len(folded) - position)
        return "\n".join((*shown, ""))

    def _tell_gap(self, shown: list[str], first: int, end: int, folded: int) -> None:
        missing = end - first - folded
        if missing >= _TOLD:
            of = f"{missing} of " if folded else ""
            shown.append(f"{_MARK}{of}lines {first + 1} to {end} left out]")


def matching(pattern: LinearPattern, page: Page) -> Iterator[int]:
    """Yield the index of each line of a page that matches a pattern of `line_pattern`."""
    return matching_lines(pattern, page.block)


def unforged(text: str) -> str:
    """Return a text in which nothing looks like a mark of ours."""
    return text.replace(_MARK, _NO_MARK)


def cut_line(line: str, longest: int = _LONGEST_LINE) -> str:
    """Return a line, or of one that is too long its ends and the parts around words that matter."""
    if len(line) <= longest:
        return line
    data = line.encode("utf-8", "replace")
    spans, tail = [(0, longest // 2)], len(data) - longest // 4
    while len(spans) <= _MOST_WINDOWS:
        behind = spans[-1][1]
        word = find_important(data, behind, tail)
        if word is None:
            break
        spans.append((max(behind, word - _WINDOW), min(word + _WINDOW, tail)))
    spans.append((tail, len(data)))
    shown, behind = [], 0
    for start, end in spans:
        if start > behind:
            shown.append(f"{_MARK}{len(data[behind:start].decode('utf-8', 'ignore'))} characters left out]")
        # A character that a span cuts through belongs to what is left out.
        shown.append(data[start:end].decode("utf-8", "ignore"))
        behind = end
    return "".join(shown)
