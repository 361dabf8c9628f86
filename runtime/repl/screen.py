"""Print styled lines to the terminal, folded to its width. No other file here makes escape sequences.

A terminal continues a long line in its first column, where our own lines begin; so lines are folded here.
Callers have made texts visible before. Every text also passes `harmless` on its way out, since a later step
may have produced other characters (a Markdown parser turns `&#x202e;` into one). Only the styles named below
become sequences that a terminal obeys.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

from rich.cells import cell_len, chop_cells

from leeward.security.text import visible

__all__ = ["Line", "Screen", "Sink", "choices_within", "harmless", "plain_text", "pt_style", "within"]

Line: TypeAlias = list[tuple[str, str]]
"""One line of the screen: texts, each with its style, a string of words from `_SGR`."""

_NARROWEST = 10
_BAR = "  │ "
_SAME_LINE = "    ┊ "
_BETWEEN = " / "
_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_SGR = (
    {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9"}
    | {color: f"{30 + number}" for number, color in enumerate(_COLORS)}
    | {f"bright_{color}": f"{90 + number}" for number, color in enumerate(_COLORS)}
)
"""Styles as a terminal knows them. Colours are those of its own palette, whatever theme it has."""

_OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e001f]"
)
_IS_COLOR = re.compile("|".join(_COLORS))


class Sink(Protocol):
    """What a screen is printed on."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, now."""
        ...

    @property
    def obeys(self) -> bool:
        """Whether it obeys escape sequences."""
        ...

    def write(self, text: str) -> None:
        """Print whole lines; one that is gone prints nothing and raises nothing."""
        ...


class Screen:
    """A terminal as something to print lines on; without colours where `NO_COLOR` is set."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._styled = sink.obeys
        self._colored = not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        """Columns of the terminal, now."""
        return self._sink.size[0]

    @property
    def height(self) -> int:
        """Lines of the terminal, now."""
        return self._sink.size[1]

    def put(self, lines: Iterable[Line]) -> None:
        """Print lines as they are; what is too long for one the terminal folds."""
        text = "".join(f"{self._sequences(line)}\n" for line in lines)
        if text:
            self._sink.write(text)

    def _sequences(self, line: Line) -> str:
        return "".join(self._styled_text(harmless(text), style) for text, style in line)

    def _styled_text(self, text: str, style: str) -> str:
        words = style.split() if self._styled and text else ()
        codes = [_SGR[word] for word in words if self._colored or not _IS_COLOR.search(word)]
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text

    def line(self, text: str, style: str = "") -> None:
        """Print a line of ours."""
        self.put([[(text, style)]])

    def block(self, text: str, style: str = "") -> None:
        """Print a text of ours that may be a table: a long line goes on below its last column."""
        self.put([(piece, style)] for line in text.split("\n") for piece in _folded(line, self.width))

    def barred(self, lines: Iterable[str], style: str = "") -> None:
        """Print lines that came in, behind a bar."""
        self.put(
            [(piece, style)]
            for line in lines
            for piece in within(self.width, _BAR, visible(line.expandtabs()), _BAR)
        )

    def failed(self, why: str) -> None:
        """Say why something could not be done."""
        self.block(f"✗ {visible(why)}", "red")


def harmless(text: str) -> str:
    """Return a text on one line without anything a terminal obeys, or draws in another order."""
    return text if text.isascii() and text.isprintable() else _OBEYED.sub("·", text)


def plain_text(line: Line) -> str:
    """Return the text of a line."""
    return "".join(text for text, _ in line)


def pt_style(style: str) -> str:
    """Return a style in the words of prompt_toolkit."""
    return " ".join(
        f"ansi{word.replace('_', '')}" if _IS_COLOR.search(word) else word for word in style.split()
    )


def within(
    width: int, head: str, text: str, below: str = _SAME_LINE, *, by_words: bool = False
) -> Iterator[str]:
    """Yield a line in pieces that fit: the first behind `head`, the others behind `below`.

    `width` is in columns. `by_words` breaks between words where it can, for sentences of ours.
    """
    first, room = "", width - cell_len(head)
    if room >= _NARROWEST:
        first = _piece(text, room, by_words)
    yield head + first
    rest, room = text[len(first) :], max(width - cell_len(below), _NARROWEST)
    while rest:
        piece = _piece(rest, room, by_words)
        yield below + piece
        rest = rest[len(piece) :]


def choices_within(width: int, prompt: str) -> str:
    """Return a prompt that names keys, in lines that fit: it is broken between two of them, if it can be."""
    lines = [""]
    for choice in prompt.split(_BETWEEN):
        line = f"{lines[-1]}{_BETWEEN}{choice}" if lines[-1] else choice
        if lines[-1] and cell_len(line.rstrip()) > width:
            lines[-1] += _BETWEEN.rstrip()
            line = f"    {choice}"
        else:
            lines.pop()
        lines.append(line)
    return "\n".join(lines)


def _piece(text: str, room: int, by_words: bool) -> str:
    """Return as much of a text as fits; nothing of it is left out, blanks at the break neither."""
    # A column takes a few characters at most, where marks are put on top of each other.
    some = text[: 8 * room]
    piece = next(iter(chop_cells(some, room)), "") or some
    after = piece.rfind(" ") + 1
    return piece[:after] if by_words and after and len(piece) < len(text) else piece


def _folded(line: str, width: int) -> list[str]:
    """Return a line in pieces that fit, each after the first below the last column that begins in time."""
    if len(line) <= width:
        return [line]
    gap = line.rfind("  ", 0, width // 2)
    column = gap + 2 if gap >= 0 else 4
    column += 2 if line.startswith("- ", column) else 0
    return textwrap.wrap(
        line, width, subsequent_indent=" " * column, expand_tabs=False, replace_whitespace=False
    )
