"""Classify invisible characters, and separate those that ordinary writing needs from smuggled text.

Some invisible characters are part of ordinary text: joiners inside Persian or Hindi words and between
emoji, variation selectors, the tags of a flag. The same characters can carry text past a reader, so
each is judged by its neighbours. The caller decides the consequence: `checks/arguments.py` refuses,
`ansi.py` shows them, `visible` prepares a value for display to a person.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ..lazy import regex

__all__ = [
    "CONTEXT",
    "CONTROLS",
    "INVISIBLE",
    "Revealer",
    "escaped",
    "find_control",
    "find_invisible",
    "find_tag",
    "folded",
    "hidden_spans",
    "is_invisible",
    "is_ordinary",
    "visible",
    "without_invisible",
]

CONTEXT = 8
"""How many characters on either side `is_ordinary` looks at, at most."""

CONTROLS = r"\x00-\x1f\x7f-\x9f"
"""C0 and C1 controls as the inside of a character class."""

_TAGS = r"\U000e0000-\U000e007f"
_SELECTORS = r"\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"

# Unicode's Default_Ignorable_Code_Point, the other format characters that draw nothing, the two
# separators that break lines, and halves of surrogate pairs, which are no characters at all.
_UNSEEN = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0080-\U000e00ff\U000e01f0-\U000e0fff\ud800-\udfff"
)

INVISIBLE = regex(f"[{_UNSEEN}{_TAGS}{_SELECTORS}]")
"""One invisible character, in any context."""

# In any context, no writing needs these: a run of them is spelled out in one step.
_NEVER = f"[{_UNSEEN}]".replace(r"\xad", "").replace(r"\u200b-\u200f", r"\u200b\u200e\u200f")
_INVISIBLE_RUN = regex(f"{INVISIBLE.pattern}(?:(?<={_NEVER}){_NEVER}+)?")

_CONTROL = regex(f"[{CONTROLS}]")
_HIDDEN = regex(f"[{CONTROLS}{_UNSEEN}{_TAGS}{_SELECTORS}]")
_TAG = regex(f"[{_TAGS}]")

# Drawn like a dot, slash or backslash, or turned into one by a character set (¥ and ₩ are the
# backslash of Japanese and Korean code pages). NFKC takes care of the full-width forms.
_ALIKE = str.maketrans(
    dict.fromkeys("\u3002\u0701\u0702\ua60e\ua4f8\U00010a50", ".")
    | dict.fromkeys("\u2044\u2215\u29f8\u2571\u27cb\u1735\u29f6", "/")
    | dict.fromkeys("\u2216\u29f5\u29f9\u27cd\u2572\u00a5\u20a9", "\\")
)

_EMOJI = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_IS_EMOJI = regex(f"[{_EMOJI}]")
_ENDS_IN_EMOJI = regex(f"[{_EMOJI}]\ufe0f?[\U0001f3fb-\U0001f3ff]?" + r"\Z")
_TAKES_STYLE = regex(f"[{_EMOJI}#*0-9]")

# A flag of a region is a black flag, two letters of the country and one to four characters of the
# region, spelled in tags (UTS 51, ED-14a). More would be a text, not a flag.
_FLAG = regex(
    "\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,4}\U000e007f"
)

_IDEOGRAPH = regex(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_STANDARD_SELECTORS = "\ufe00\ufe01\ufe02"
_MONGOLIAN = regex(r"[\u1820-\u18aa]")
_MONGOLIAN_SELECTORS = "\u180b\u180c\u180d\u180f"

# Scripts whose letters change shape with their neighbours: from Arabic to Sinhala, Tibetan and
# Burmese, Khmer and Mongolian, Balinese and its kin, the Arabic presentation forms, and the
# historic and Brahmic scripts beyond the first plane.
_JOINING = regex(
    r"[\u0600-\u0dff\u0f00-\u109f\u1700-\u18af\u1a20-\u1aaf\u1b00-\u1bff\ua840-\ua8ff\ua980-\uabff"
    r"\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)


def folded(text: str) -> str:
    """Return the text as it looks: full-width and look-alike forms plain, invisible characters gone.

    Character by character, because sorting long runs of combining marks, as normalising a whole
    text does, takes quadratic time.
    """
    if text.isascii():
        return text
    return text.translate({ord(char): _looks_like(char) for char in set(text) if not char.isascii()})


@lru_cache(maxsize=4096)
def _looks_like(char: str) -> str:
    if is_invisible(char):
        return ""
    return unicodedata.normalize("NFKC", char.translate(_ALIKE)).translate(_ALIKE)


def is_invisible(char: str) -> bool:
    """Whether a character draws nothing of its own, in any context."""
    return INVISIBLE.fullmatch(char) is not None


def find_control(text: str) -> int | None:
    """Return the index of the first C0 or C1 control, or None."""
    found = _CONTROL.search(text)
    return found.start() if found else None


def find_invisible(text: str) -> int | None:
    """Return the index of the first invisible character that writing does not need there, or None."""
    return _first(INVISIBLE, text)


def find_tag(text: str) -> int | None:
    """Return the index of the first tag character (U+E0000 to U+E007F) outside a flag, or None."""
    return _first(_TAG, text)


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    if text.isascii():
        return None
    for found in pattern.finditer(text):
        if not is_ordinary(text, found.start()):
            return found.start()
    return None


def is_ordinary(text: str, index: int) -> bool:
    """Whether the invisible character at an index belongs to the writing around it.

    Looks at `CONTEXT` characters on either side at most, and only at characters that are visible or
    belong there themselves, so that showing the others does not change the answer.
    """
    char, before = text[index], text[index - 1 : index]
    if not before:
        return False
    if char in "\u200c\u200d":
        after = text[index + 1 : index + 2]
        if (
            char == "\u200d"
            and _IS_EMOJI.match(after)
            and _ENDS_IN_EMOJI.search(text[max(0, index - 3) : index])
        ):
            return True
        return _joins(before) and _joins(after)
    if _TAG.match(char):
        start = max(0, index - CONTEXT + 1)
        flags = _FLAG.finditer(text[start : index + CONTEXT])
        return any(flag.start() < index - start < flag.end() for flag in flags)
    return _selects(before, char)


def _joins(char: str) -> bool:
    """Whether a character is a letter or mark of a script whose letters join."""
    return bool(_JOINING.match(char)) and unicodedata.category(char)[0] in "LM"


def _selects(before: str, char: str) -> bool:
    """Whether a character is a variation selector that Unicode gives a meaning behind this one."""
    if char in "\ufe0e\ufe0f":
        return _TAKES_STYLE.match(before) is not None
    if char in _STANDARD_SELECTORS:
        return unicodedata.category(before) == "Sm" or _IDEOGRAPH.match(before) is not None
    if char in _MONGOLIAN_SELECTORS:
        return _MONGOLIAN.match(before) is not None
    return "\U000e0100" <= char <= "\U000e011f" and _IDEOGRAPH.match(before) is not None


def without_invisible(text: str) -> str:
    """Return the text without the invisible characters that its writing does not need at their places."""
    if text.isascii():
        return text
    return INVISIBLE.sub(lambda found: found[0] if is_ordinary(text, found.start()) else "", text)


def escaped(char: str) -> str:
    r"""Return the visible spelling of a character: `\n`, `\r`, `\t`, or its number as in `\u{202e}`."""
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or f"\\u{{{ord(char):x}}}"


_escaped_once = lru_cache(maxsize=1024)(escaped)


def visible(text: str) -> str:
    """Return the text on one line, with controls and invisible characters spelled out.

    Invisible characters that ordinary writing needs at their places are left alone.
    """
    if text.isprintable() and text.isascii():
        return text
    return _HIDDEN.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    char = found[0]
    if is_invisible(char) and is_ordinary(found.string, found.start()):
        return char
    return escaped(char)


def _only_breaks(text: str, index: int) -> bool:
    """Whether a soft hyphen between letters says no more than where a line may break."""
    is_between = text[index - 1 : index].isalpha() and text[index + 1 : index + 2].isalpha()
    return is_between and text[index] == "\xad"


def hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of invisible characters that `Revealer` would spell out."""
    start = end = -1
    begin = 1 if text.startswith("\ufeff") else 0
    for found in () if text.isascii() else INVISIBLE.finditer(text, begin):
        index = found.start()
        if is_ordinary(text, index) or _only_breaks(text, index):
            continue
        if index != end:
            if start >= 0:
                yield start, end
            start = index
        end = index + 1
    if start >= 0:
        yield start, end


class Revealer:
    """`visible` for running text that comes in pieces: line ends stay, and nothing is decided too early.

    A soft hyphen between letters only says where a line may break, and a byte order mark at the very
    beginning only how the text was stored; both are left out. `shown` counts what was spelled out.
    """

    def __init__(self) -> None:
        self.shown: int = 0
        self._held = ""
        self._from = 0
        self._is_start = True

    def feed(self, piece: str) -> str:
        """Take the next piece, return what is certain by now; at most `CONTEXT` characters wait."""
        if self._is_start and piece:
            self._is_start = False
            piece = piece.removeprefix("\ufeff")
        text = self._held + piece
        if text.isascii():
            return self._advance(text, len(text))
        undecided = INVISIBLE.search(text, max(self._from, len(text) - CONTEXT))
        return self._advance(text, undecided.start() if undecided else len(text))

    def flush(self) -> str:
        """Return what was held back."""
        return self._advance(self._held, len(self._held))

    def _advance(self, text: str, end: int) -> str:
        done = []
        position = self._from
        for found in _INVISIBLE_RUN.finditer(text, position, end):
            done += [text[position : found.start()], self._spelled(text, found.start(), found.end())]
            position = found.end()
        done.append(text[position:end])
        # What is out already stays as the left context of what comes next.
        start = max(0, end - CONTEXT)
        self._held, self._from = text[start:], end - start
        return "".join(done)

    def _spelled(self, text: str, index: int, end: int) -> str:
        if end - index > 1:
            self.shown += end - index
            return "".join(map(_escaped_once, text[index:end]))
        char = text[index]
        if is_ordinary(text, index):
            return char
        if _only_breaks(text, index):
            return ""
        self.shown += 1
        return escaped(char)
