"""Strip terminal escape sequences and other controls from text, in a stream.

Removed are escape sequences (ECMA-48 and xterm's additions) and other controls; an unterminated
sequence loses its introducer only, so that it cannot swallow the text after it. No written text is
lost: text that a carriage return would overwrite becomes a line of its own. Invisible characters are
spelled out by `unicode.py`; letters that pass for others stay, and are pointed out by `scripts.py`.
"""

from __future__ import annotations

import re

from ..lazy import regex
from .scripts import LookAlikeFinder
from .unicode import Revealer

__all__ = ["Stripper"]

_BODY = r"[^\x00-\x08\x0a-\x1f\x7f-\x9f]{0,4000}+"  # a title or link is short; longer, it has no end
_STRING = rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_BODY}"
_CSI = r"(?:\x1b\[|\x9b)[0-?]{0,256}+[ -/]{0,16}+"
_SEQUENCE = regex(
    rf"{_STRING}(?:\x07|\x1b\\|\x9c)|{_CSI}[@-~]|\x1b[ -/]{{1,16}}+[0-~]|\x1b[0-OQ-WYZ\\`a-~]"
    r"|\x1b[\[\]PX^_]|[\x90\x98\x9b\x9d-\x9f]"
)
# What these are does not depend on anything behind them, so that a long run of them is one step.
_OPENER = r"[\x90\x98\x9b\x9d-\x9f]"
_LONE = regex(
    r"(?P<colours>(?:\x1b\[[0-?]{0,256}+[ -/]{0,16}+[@-~])+)"
    r"|(?P<controls>[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x8f\x91-\x97\x99\x9a\x9c]+)"
    r"|(?P<escapes>\x1b+(?=\x1b))"
    r"|(?P<backspaces>(?<=\x08)\x08+)"
    rf"|(?P<openers>{_OPENER}+(?={_OPENER}))"
    r"|(?P<pairs>(?:\x1b[\[\]PX^_])+(?=\x1b[\[\]PX^_]))"
    r"|(?P<lines>(?:\r\n|\r(?!\Z)|[\x0b\x0c\x85])+)"
)
_LONGEST_UNDECIDED = 4_100
_UNDECIDED = regex(rf"(?:{_STRING}\x1b?|{_CSI}|\x1b[ -/]{{0,16}}+|\r|\x08)\Z")
_SPECIAL = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Stripper:
    """`strip` at work; holds back a sequence that has begun, which is about 4,000 characters at most."""

    def __init__(self) -> None:
        self._revealer = Revealer()
        self._look_alikes = LookAlikeFinder()
        self._sequences = 0
        self._controls = 0
        self._held = ""
        self._from = 0

    def feed(self, piece: str) -> str:
        """Take the next piece and return what is certain by now."""
        return self._seen(self._revealer.feed(self._advance(self._held + piece, is_last=False)))

    def flush(self) -> str:
        """Return what was held back."""
        rest = self._revealer.feed(self._advance(self._held, is_last=True)) + self._revealer.flush()
        self._seen(rest)
        self._look_alikes.finish()
        return rest

    def _seen(self, text: str) -> str:
        self._look_alikes.feed(text)
        return text

    @property
    def notices(self) -> tuple[str, ...]:
        """What was removed, what was spelled out, and which letters pass for others."""
        counts = (
            (self._sequences, "terminal escape sequences removed"),
            (self._controls, "control characters removed"),
            (self._revealer.shown, "invisible characters shown as \\u{…}"),
        )
        counted = ", ".join(f"{what}: {count}" for count, what in counts if count)
        return tuple(filter(None, (counted, self._look_alikes.notice)))

    def _advance(self, text: str, *, is_last: bool) -> str:
        parts: list[str] = []
        position, end = self._from, len(text)
        while (special := _SPECIAL.search(text, position)) is not None:
            start = special.start()
            if lone := _LONE.match(text, start):
                parts += (text[position:start], self._counted(lone))
                position = lone.end()
                continue
            if not is_last and end - start <= _LONGEST_UNDECIDED and _UNDECIDED.match(text, start):
                end = max(position, start - 1) if text[start] == "\x08" else start
                break
            kept, after = self._read(text, position, start)
            parts.append(kept)
            position = after
        else:
            # A backspace may follow and strike the underscore out.
            end -= not is_last and position < end and text[-1] == "_"
        parts.append(text[position:end])
        # One character stays as the left neighbour of a backspace.
        self._held, self._from = text[max(0, end - 1) :], min(end, 1)
        return "".join(parts)

    def _counted(self, lone: re.Match[str]) -> str:
        """Count what a run consists of, and return what stays of it: its line ends."""
        run = lone[0]
        match lone.lastgroup:
            case "colours" | "pairs":
                self._sequences += run.count("\x1b")
            case "openers":
                self._sequences += len(run)
            case "controls" | "escapes" | "backspaces":
                self._controls += len(run)
            case _:
                return "\n" * (len(run) - run.count("\r\n"))
        return ""

    def _read(self, text: str, position: int, start: int) -> tuple[str, int]:
        """Return what stays of the text up to and with the control at `start`, and where to go on."""
        plain = text[position:start]
        if text[start] == "\x08":
            return self._struck(text, plain, start)
        if text[start] == "\r":
            return plain + "\n", start + 1
        sequence = _SEQUENCE.match(text, start)
        if sequence is not None:
            self._sequences += 1
            return plain, sequence.end()
        self._controls += 1
        return plain, start + 1

    def _struck(self, text: str, plain: str, start: int) -> tuple[str, int]:
        """Undo what manual pages do for print: a letter twice is bold, over an underscore underlined."""
        before, after = text[start - 1 : start], text[start + 1 : start + 2]
        if plain.endswith("_") and after > " ":
            return plain[:-1], start + 1
        if before > " " and after in {before, "_"}:
            return plain, start + 2
        self._controls += 1
        return plain, start + 1
