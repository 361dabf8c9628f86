"""What in a text speaks to a terminal, or hides from a reader, instead of saying something?

Escape sequences (ECMA-48 and what xterm added) and other controls are removed; a sequence that is
never ended loses its introducer only, so that it cannot swallow what follows. Nothing that was
written vanishes: text a carriage return would overwrite becomes a line of its own. Invisible
characters are spelled out by `invisible.py`.
"""

from __future__ import annotations

import re

from ..invisible import CONTROLS, Revealer
from .screened import Source, Stepwise

__all__ = ["Stripper", "strip"]

_SEEN = rf"[^{CONTROLS}]"
# A title or link is short, an image is not: 4,000 characters on, a string has no end.
_STRING = rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])(?:\t|{_SEEN}){{0,4000}}+"
_CSI = r"(?:\x1b\[|\x9b)[0-?]{0,256}+[ -/]{0,16}+"
_ESC = r"\x1b[ -/]{0,16}+"
_TOKENS = (
    rf"(?P<sequence>{_STRING}(?:\x07|\x1b\\|\x9c)|{_CSI}[@-~]|\x1b[ -/]{{1,16}}+[0-~]|\x1b[0-OQ-WYZ\\`a-~])",
    r"(?P<begun>\x1b[\[\]PX^_]|[\x90\x98\x9b\x9d-\x9f])",
    r"(?P<line>\r\n?|[\x0b\x0c\x85])",
    # Manual pages strike a letter twice for bold and over an underscore for underlined.
    rf"(?P<under>_\x08(?P<letter>{_SEEN}))",
    rf"(?P<bold>(?<=(?P<same>{_SEEN}))\x08(?:(?P=same)|_))",
    r"(?P<control>[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f])",
)
_UNDECIDED = rf"(?P<undecided>(?:{_STRING}\x1b?|{_CSI}|{_ESC}|\r|_\x08?|\x08)\Z)"
_PIECE = re.compile("|".join((_TOKENS[0], _UNDECIDED, *_TOKENS[1:])))
_LAST = re.compile("|".join(_TOKENS))
_SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Stripper:
    """`strip` at work; holds back a sequence that has begun, which is 4,002 characters at most."""

    def __init__(self) -> None:
        self._revealer = Revealer()
        self._sequences = 0
        self._controls = 0
        self._held = ""
        self._from = 0

    def feed(self, piece: str) -> str:
        """Take the next piece and return what is certain by now."""
        return self._revealer.feed(self._advance(self._held + piece, _PIECE))

    def flush(self) -> str:
        """Return what was held back."""
        return self._revealer.feed(self._advance(self._held, _LAST)) + self._revealer.flush()

    @property
    def notices(self) -> tuple[str, ...]:
        """What was removed and what was spelled out."""
        counts = (
            (self._sequences, "terminal escape sequences removed"),
            (self._controls, "control characters removed"),
            (self._revealer.shown, "invisible characters shown as \\u{…}"),
        )
        said = ", ".join(f"{count} {what}" for count, what in counts if count)
        return (said,) if said else ()

    def _advance(self, text: str, tokens: re.Pattern[str]) -> str:
        if not text.endswith("_") and not _SPECIAL.search(text):
            done, self._held, self._from = text[self._from :], text[-1:], min(1, len(text))
            return done
        parts, position = [], self._from
        end = len(text)
        for found in tokens.finditer(text, position):
            parts.append(text[position : found.start()])
            position = found.end()
            if found.lastgroup == "undecided":
                end = position = found.start()
                break
            parts.append(self._replaced(found))
        parts.append(text[position:end])
        # One character stays as the left neighbour of a backspace.
        start = max(0, end - 1)
        self._held, self._from = text[start:], end - start
        return "".join(parts)

    def _replaced(self, found: re.Match[str]) -> str:
        match found.lastgroup:
            case "line":
                return "\n"
            case "under":
                return found["letter"]
            case "sequence" | "begun":
                self._sequences += 1
            case "control":
                self._controls += 1
        return ""


def _start(_source: Source) -> Stripper:
    return Stripper()


strip = Stepwise(_start)
"""The filter: `(Screened, Source) -> Screened`."""
