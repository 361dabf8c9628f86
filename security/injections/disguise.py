"""Undo what disguises words in a text: encodings, invisible and look-alike letters, margins and line breaks.

A view is the text as a reader would take it, or what an encoded stretch of it decodes to; each knows where in
the original it comes from. Decoding goes to a fixed depth and a fixed amount of text, whatever is nested.
Nothing here decides anything, and no view is shown to anybody.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import re2

from ..lazy import dataclass, regex
from ..text import INVISIBLE, find_look_alikes, folded, is_ordinary, skeleton

__all__ = ["View", "views_of"]

_DEPTH = 3
_MOST_VIEWS = 40
_MOST_DECODED = 128 * 1024
_WRAPPED = 40
"""Characters of a line, at least, whose sentence may go on in the next one."""

# Signs before a comment or a quotation; more than two of them are a rule or a heading.
_SIGN = r"(?:\#{1,2}|//!?|/\*{1,2}|\*{1,2}|--|;{1,2}|>{1,3}|%|\|)(?![\#/*=<>|-])"
_MARGIN = rf"[ \t]*+(?:{_SIGN}[ \t]*+){{0,3}}+"
_EDITS = regex(
    r"\\u\{e00(?P<tag>[2-7][0-9a-f])\}"
    r"|(?P<spelled>\\u\{[0-9a-f]{2,6}\})"
    rf"|(?P<line>\n{_MARGIN})"
    r"|(?P<space>[ \t\u00a0\u3000]{2,}|[\t\u00a0\u2000-\u200a\u202f\u3000]|[*~]{1,3})"
    rf"|(?P<hidden>{INVISIBLE.pattern})",
)
_AT_START = regex(_MARGIN)


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How words can be written: `pattern` finds a stretch; `shape`, for RE2, is in every text with one."""

    pattern: re.Pattern[str]
    shape: str
    decode: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class View:
    """A text as it is to be read; `span` returns the place of a stretch of it in the original."""

    text: str
    is_encoded: bool = False
    starts: Sequence[int] = (0,)
    origins: Sequence[int] = (0,)
    within: tuple[int, int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end in the original of a stretch of this view."""
        if self.within is not None:
            return self.within
        return self._origin(start), self._origin(end - 1) + 1

    def _origin(self, index: int) -> int:
        at = bisect_right(self.starts, index) - 1
        return self.origins[at] + index - self.starts[at]


def views_of(text: str) -> Iterator[View]:
    """Yield the text as it reads, then what its encoded stretches decode to, nested ones too."""
    yield _plain(text)
    room, left = _MOST_DECODED, _MOST_VIEWS
    waiting = [(0, (start, end), decoded) for start, end, decoded in _decoded(text)]
    while waiting and left and room > 0:
        depth, span, decoded = waiting.pop(0)
        left, room = left - 1, room - len(decoded)
        plain = _plain(decoded)
        yield View(plain.text, is_encoded=True, within=span)
        if depth + 1 < _DEPTH:
            waiting += [(depth + 1, span, inner) for _, _, inner in _decoded(decoded)]


def _plain(text: str) -> View:
    """Return a text with look-alikes replaced, without what nobody sees, each line without its margin."""
    drawn = _as_drawn(text)
    done: list[str] = []
    starts, origins, length, position = [0], [0], 0, 0
    first = _AT_START.match(drawn)
    edits = [(first.start(), first.end(), "")] if first is not None and first.end() else []
    begun = edits[0][1] if edits else 0
    edits += ((found.start(), found.end(), _edited(found)) for found in _EDITS.finditer(drawn, begun))
    for start, end, new in edits:
        done += (drawn[position:start], new)
        length += start - position + len(new)
        starts.append(length)
        origins.append(end)
        position = end
    done.append(drawn[position:])
    return View("".join(done), starts=starts, origins=origins)


def _as_drawn(text: str) -> str:
    """Return a text with full-width, styled and look-alike letters plain, of the same length."""
    if text.isascii():
        return text
    chars = {char: plain for char in set(text) if len(plain := folded(char)) == 1}
    plain = text.translate({ord(char): new for char, new in chars.items() if char != new})
    parts: list[str] = []
    position = 0
    for found in find_look_alikes(text):
        parts += (plain[position : found.start], skeleton(text[found.start : found.end]))
        position = found.end
    return "".join((*parts, plain[position:]))


def _edited(found: re.Match[str]) -> str:
    """Return the reading of a stretch that a reader does not take as it is written."""
    text = found.string
    if found["tag"] is not None:
        return _tagged(
            int(found["tag"], 16), is_first=text[max(0, found.start() - 9) : found.start()][:6] != "\\u{e00"
        )
    if found["line"] is not None:
        before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        width = found.start() - text.rfind("\n", max(0, found.start() - 200), found.start())
        goes_on = (before.isalnum() or before == ",") and after.islower() and width > _WRAPPED
        return " " if goes_on else "\n"
    if found["hidden"] is not None:
        char = found[0]
        if "\U000e0020" <= char <= "\U000e007e":
            before = text[max(0, found.start() - 1) : found.start()]
            return _tagged(ord(char) - 0xE0000, is_first=not "\U000e0020" <= before <= "\U000e007e")
        return char if is_ordinary(text, found.start()) else ""
    return " " if found["space"] is not None and not found[0].strip() else ""


def _tagged(code: int, *, is_first: bool) -> str:
    """Return the character of a tag; the first of a run begins a line, since no word continues in tags."""
    return f"\n{chr(code)}" if is_first else chr(code)


def _decoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and meaning of what is written in an encoding."""
    for encoding in _ENCODINGS:
        # A fifth of the time that looking for a stretch takes where there is none.
        if _shape(encoding).search(text) is None:
            continue
        for found in encoding.pattern.finditer(text):
            try:
                decoded = encoding.decode(found[0])
            except (ValueError, UnicodeError, binascii.Error):
                continue
            if _is_prose(decoded) and decoded != found[0]:
                yield found.start(), found.end(), decoded
    if len(text) < 4096 and "rot13" in text.casefold():
        yield 0, len(text), codecs.decode(text, "rot13")


def _is_prose(text: str) -> bool:
    """Whether a decoded text can be words: long enough, nearly all of it printable, and with letters."""
    if len(text) < 8:
        return False
    printable = sum(char.isprintable() or char in "\n\t\r" for char in text)
    return printable >= 0.95 * len(text) and sum(map(str.isalpha, text)) >= len(text) // 2


def _from_base64(text: str) -> str:
    packed = "".join(text.split()).rstrip("=").translate(str.maketrans("-_", "+/"))
    packed = packed[: len(packed) - (len(packed) % 4 == 1)]
    return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True).decode("utf-8")


def _from_hex(text: str) -> str:
    return bytes.fromhex(re.sub(r"0x|\\x|[ :,]", "", text)).decode("utf-8")


def _from_percent(text: str) -> str:
    if text.count("%") < 4:
        return ""
    packed = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())
    return packed.replace(b"+", b" ").decode("utf-8")


def _from_escapes(text: str) -> str:
    if text.count("\\") < 6:
        return ""
    return re.sub(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})|\\([0-7]{3})", _unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    return chr(int(digits, 16)) if digits else chr(int(found[3], 8))


def _from_entities(text: str) -> str:
    return html.unescape(text) if text.count("&") >= 6 else ""


def _from_spaced(text: str) -> str:
    return re.sub(r"[ .\-_·]{2,3}", " ", re.sub(r"(\w)[ .\-_·](?=\w)", r"\1", text))


def _from_binary(text: str) -> str:
    return bytes(int(octet, 2) for octet in re.findall(r"[01]{8}", text)).decode("utf-8")


_ENCODINGS = (
    _Encoding(regex(r"(?:[A-Za-z0-9+/_-]{20,76}\s?\n?){1,200}={0,2}"), "[A-Za-z0-9+/_-]{20}", _from_base64),
    _Encoding(
        regex(r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,]?){14,4000}"),
        r"(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,]?){14}",
        _from_hex,
    ),
    _Encoding(
        regex(r"(?:%[0-9A-Fa-f]{2}|[\w.~+-]){12,4000}"), r"(?:%[0-9A-Fa-f]{2}[^%\s]*){4}", _from_percent
    ),
    _Encoding(
        regex(r"(?:\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[0-7]{3}|[ ,.]){8,4000}"),
        r"(?:\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[0-7]{3})[ ,.]*){6}",
        _from_escapes,
    ),
    _Encoding(
        regex(r"(?:&(?:\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[a-z]{2,8});|[ ,.]){6,4000}"),
        "(?:&#?[0-9A-Za-z]{1,8};[ ,.]*){6}",
        _from_entities,
    ),
    _Encoding(regex(r"(?:\b\w[ .\-_·]{1,3}){8,400}\w\b"), r"(?:[\pL\pM\pN_][ .\-_·]{1,3}){8}", _from_spaced),
    _Encoding(regex(r"(?:[01]{8} ?){8,1000}"), "(?:[01]{8} ?){8}", _from_binary),
)


@cache
def _shape(encoding: _Encoding) -> Any:
    return re2.compile(encoding.shape)
