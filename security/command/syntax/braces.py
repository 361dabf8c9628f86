"""Brace expansion: one word into several, as bash does it before anything else.

Pieces are those of `words.py`: parts, and the strings `{`, `,` and `}` where they stood outside
quotes. A pair of braces that holds neither a comma nor a range is text, but it makes bash pair the others
in ways of its own, so a word that has both kinds, or a brace too many, is not read.
"""

from __future__ import annotations

import re

from .nodes import Part, PartKind, Unread

__all__ = ["expanded"]

_MOST = 256
_RANGE = re.compile(r"(-?\d{1,6})\.\.(-?\d{1,6})(?:\.\.(-?\d{1,6}))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,6}))?")


def expanded(pieces: list[Part | str]) -> list[list[Part]]:
    """Return the words that a word's pieces stand for, at most 256."""
    if "{" not in pieces:
        return [_plain(pieces)]
    if ("," in pieces or any(map(_holds_range, pieces))) and not _is_regular(pieces):
        raise Unread("braces are paired in an unusual way")
    found = [word for word in _expanded(pieces, 0) if word]
    if len(found) > _MOST:
        raise Unread("braces expand to too many words")
    return found


def _is_regular(pieces: list[Part | str]) -> bool:
    """Whether every brace has its partner, and between the two of each pair stands a comma or a range."""
    open_ones: list[bool] = []
    for piece in pieces:
        if piece == "{":
            open_ones.append(False)
        elif open_ones and (piece == "," or _holds_range(piece)):
            open_ones[-1] = True
        elif piece == "}" and not (open_ones and open_ones.pop()):
            return False
    return not open_ones


def _holds_range(piece: Part | str) -> bool:
    return isinstance(piece, Part) and piece.kind is PartKind.LITERAL and ".." in piece.text


def _expanded(pieces: list[Part | str], depth: int) -> list[list[Part]]:
    if depth > 16:
        raise Unread("braces are nested too deeply")
    for start, piece in enumerate(pieces):
        if piece != "{":
            continue
        end = _closing(pieces, start)
        alternatives = _alternatives(pieces[start + 1 : end], depth) if end is not None else None
        if end is None or alternatives is None:
            continue
        tails = _expanded(pieces[end + 1 :], depth + 1)
        if len(alternatives) * len(tails) > _MOST:
            raise Unread("braces expand to too many words")
        head = _plain(pieces[:start])
        return [[*head, *middle, *tail] for middle in alternatives for tail in tails]
    return [_plain(pieces)]


def _closing(pieces: list[Part | str], start: int) -> int | None:
    depth = 0
    for index in range(start, len(pieces)):
        depth += (pieces[index] == "{") - (pieces[index] == "}")
        if depth == 0:
            return index
    return None


def _alternatives(inside: list[Part | str], depth: int) -> list[list[Part]] | None:
    """Return what stands between a pair of braces as alternatives, or None where it is text."""
    options: list[list[Part | str]] = [[]]
    level = 0
    for piece in inside:
        level += (piece == "{") - (piece == "}")
        if piece == "," and level == 0:
            options.append([])
        else:
            options[-1].append(piece)
    if len(options) > 1:
        return [word for option in options for word in _expanded(option, depth + 1)]
    return _range(inside)


def _range(inside: list[Part | str]) -> list[list[Part]] | None:
    """Return the members of `1..5` or `a..e`; a range must stand outside quotes."""
    if not all(isinstance(piece, Part) and piece.kind is PartKind.LITERAL for piece in inside):
        if any(isinstance(piece, Part) and ".." in piece.text for piece in inside):
            raise Unread("a range in braces depends on something else")
        return None
    text = "".join(piece.text for piece in inside if isinstance(piece, Part))
    numbers, letters = _RANGE.fullmatch(text), _LETTERS.fullmatch(text)
    if any(isinstance(piece, Part) and piece.quoted for piece in inside):
        return None
    if letters is not None and not letters[3] and letters[1].isupper() == letters[2].isupper():
        return [[_text(chr(code))] for code in _span(ord(letters[1]), ord(letters[2]), 1)]
    if numbers is None:
        if ".." in text and letters is not None:
            raise Unread("a range in braces is too involved")
        return None
    if any(
        number.lstrip("-").startswith("0") and number.lstrip("-") != "0" for number in numbers.groups("1")
    ):
        raise Unread("a range in braces is padded with zeros")
    first, last, step = (int(number) for number in numbers.groups("1"))
    return [[_text(str(number))] for number in _span(first, last, abs(step) or 1)]


def _span(first: int, last: int, step: int) -> range:
    found = range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
    if len(found) > _MOST:
        raise Unread("braces expand to too many words")
    return found


def _text(text: str) -> Part:
    return Part(PartKind.LITERAL, text)


def _plain(pieces: list[Part | str]) -> list[Part]:
    return [_text(piece) if isinstance(piece, str) else piece for piece in pieces]
