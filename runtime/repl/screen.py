"""Print lines to the terminal, each folded to the width there is.

Left to itself a terminal continues a long line in its first column, where our own lines begin. Callers have
removed everything that a terminal would obey.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from leeward.security.text import visible

__all__ = ["Screen", "within"]

_NARROWEST = 10
_BAR = "  │ "
_SAME_LINE = "    ┊ "


class Screen:
    """The terminal as something to print on."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @property
    def width(self) -> int:
        """Columns of the terminal, now."""
        return self._console.width

    @property
    def height(self) -> int:
        """Lines of the terminal, now."""
        return self._console.height

    def put(self, text: Text, end: str = "\n") -> None:
        """Print; a terminal that is gone sees nothing, and the signal that tells of it ends the chat."""
        try:
            self._console.print(text, end=end, soft_wrap=True)
        except OSError:
            return

    def write(self, text: str) -> None:
        """Print plain text as it is, and show it at once: an answer comes in thousands of pieces."""
        try:
            self._console.file.write(text)
            self._console.file.flush()
        except OSError:
            return

    def line(self, text: str, style: str = "") -> None:
        """Print a line of ours."""
        self.put(Text(text, style=style))

    def block(self, text: str, style: str = "") -> None:
        """Print a text of ours that may be a table: a long line goes on below its last column."""
        for line in text.split("\n"):
            self.line("\n".join(_folded(line, self.width)), style)

    def barred(self, lines: Iterable[str], style: str = "") -> None:
        """Print lines that came in, behind a bar."""
        for line in lines:
            for piece in within(self.width, _BAR, line.expandtabs(), _BAR):
                self.line(piece, style)

    def page(self, text: str) -> None:
        """Print all of a text that came in."""
        self.barred(text.splitlines() or ["(nothing)"])

    def failed(self, why: str) -> None:
        """Say why something could not be done."""
        self.block(f"✗ {visible(why)}", "red")


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
