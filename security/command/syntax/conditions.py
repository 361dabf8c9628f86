"""The inside of `[[ … ]]`: operators as text, operands as words.

What `[[` compares as numbers it evaluates, and an evaluated text may run a command, so numbers must
be digits there. Regular expressions are not read: quoting them, as a print must, changes them.
"""

from __future__ import annotations

import re

from .nodes import Piece, Unread, Word
from .words import Bodies, next_word

__all__ = ["test_pieces"]

_OPERATORS = frozenset("&& || ! ( ) < > = == != -nt -ot -ef ]]".split())
_NUMERIC = frozenset("-eq -ne -lt -le -gt -ge".split())
_UNREAD = frozenset("=~ -v -R".split())
_TOKEN = re.compile(r"[^ \t\n]+")


def test_pieces(src: str, start: int, end: int, bodies: Bodies) -> tuple[Piece, ...]:
    """Return the pieces of a conditional expression between two positions, its brackets included."""
    pieces: list[Piece] = ["[["]
    at = start + 2
    while at < end:
        found = _TOKEN.match(src, at, end)
        if found is None:
            at += 1
            continue
        piece, at = _piece(src, found, end, bodies)
        pieces.append(piece)
    if pieces[-1] != "]]" or _compares_text(pieces):
        raise Unread("a condition compares as numbers what is no number")
    return tuple(pieces)


def _piece(src: str, found: re.Match[str], end: int, bodies: Bodies) -> tuple[Piece, int]:
    token = found[0]
    if token in _UNREAD:
        raise Unread("a condition uses an operator that is not read")
    if token in _OPERATORS or token in _NUMERIC or re.fullmatch(r"-[a-zA-Z]", token):
        return token, found.end()
    return next_word(src, found.start(), end, bodies)


def _compares_text(pieces: list[Piece]) -> bool:
    """Whether an operand of a numeric operator could be anything but digits."""
    for index, piece in enumerate(pieces):
        if isinstance(piece, str) and piece in _NUMERIC:
            for operand in pieces[index - 1 : index + 2 : 2]:
                if not isinstance(operand, Word) or not re.fullmatch(r"-?\d+|⟨\$[#?]⟩", operand.text):
                    return True
    return False
