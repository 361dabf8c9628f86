r"""Mask what a set of rules matches in text that arrives in pieces.

The output does not depend on where the pieces were cut. Invisible characters, and their visible
spelling (`\u{200b}`), cannot hide a match: they are skipped while matching, and kept where nothing was
masked. The rules themselves are defined elsewhere (`secrets.py`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import re2

from .unicode import INVISIBLE

__all__ = ["CONTEXT", "Masker", "RuleSet", "SecretRule", "without_hidden"]

CONTEXT = 8
"""How many characters before its match a rule may look at."""

_MORE_LOOKAHEAD = 512
_SPELLED = r"\\u\{[0-9a-f]{1,6}\}"
_HIDDEN = re.compile(rf"(?:{_SPELLED}|{INVISIBLE.pattern})+")
_HIDDEN_BEGUN = re.compile(r"\\(?:u(?:\{[0-9a-f]{0,6})?)?\Z")
_LONGEST_BEGUN = 9


@dataclass(frozen=True, slots=True, eq=False)
class SecretRule:
    """How one kind of secret is found.

    `head` is its beginning; it looks at `longest` characters and never past the end of a line, and
    at most `CONTEXT` characters back. `tail` is what belongs to the secret behind that, and `more`
    what it may continue with, on other lines too. A text without any of the `anchors` holds none.
    """

    name: str
    anchors: tuple[str, ...]
    head: re.Pattern[str]
    longest: int
    tail: re.Pattern[str] | None = None
    more: re.Pattern[str] | None = None


class RuleSet:
    """Rules that are looked for together, at least one."""

    def __init__(self, rules: Iterable[SecretRule]) -> None:
        self._rules = tuple(rules)
        self.longest = max(rule.longest for rule in self._rules)
        self.names = frozenset(rule.name for rule in self._rules)
        anchors = {_bytes(anchor) for rule in self._rules for anchor in rule.anchors}
        # Most texts hold no anchor at all, which one automaton for all of them sees at a glance.
        self._anchor = re2.compile(b"|".join(map(re2.escape, sorted(anchors))), _as_bytes())

    def possible(self, text: str) -> list[SecretRule]:
        """Return the rules whose secrets the text may hold: a quick look that is wrong in one direction."""
        if not text or self._anchor.search(_bytes(text)) is None:
            return []
        return [rule for rule in self._rules if any(anchor in text for anchor in rule.anchors)]


class Masker:
    """Masks what the rules of a set find by `[redacted:NAME]`, piece by piece.

    Holds back, of the last line only, as many characters as the longest beginning has, and 512 inside
    something that spans lines.
    """

    def __init__(self, rules: RuleSet) -> None:
        self.masked: Counter[str] = Counter()
        self._rules = rules
        self._inside: SecretRule | None = None
        self._begun = ""
        self._held = ""
        self._from = 0
        # What is looked past, each with the index of the visible character it stands before.
        self._gaps: list[tuple[int, str]] = []

    def feed(self, piece: str, *, is_last: bool = False) -> str:
        """Take the next piece and return what is certain by now."""
        if not piece and not (is_last and (self._held or self._begun or self._gaps)):
            return ""
        text = self._held + self._visible(self._begun + piece, is_last=is_last)
        position = self._from
        # No beginning spans two lines, so whatever stands before the last one is decided.
        certain = len(text) if is_last else max(len(text) - self._rules.longest + 1, text.rfind("\n") + 1)
        search = _Search(self._rules.possible(text), text, position, [gap for gap, _ in self._gaps])
        done: list[str] = []
        while True:
            if self._inside is not None:
                position, has_ended = _skipped(self._inside, text, position, is_last=is_last)
                if not has_ended:
                    break
                self._inside = None
            rule, start, end = search.next(position) or (None, certain, certain)
            if rule is None or start >= certain:
                done.append(self._shown(text, position, certain))
                position = max(position, certain)
                break
            done += [self._shown(text, position, start), f"[redacted:{rule.name}]"]
            self.masked[rule.name] += 1
            position, self._inside = end, rule
        if is_last:
            done += [hidden for gap, hidden in self._gaps if gap == len(text)]
        self._hold(text, position)
        return "".join(done)

    def _visible(self, raw: str, *, is_last: bool) -> str:
        """Return a text without what nobody sees, which is kept aside; a spelling that has begun waits."""
        begun = None if is_last else _HIDDEN_BEGUN.search(raw, max(0, len(raw) - _LONGEST_BEGUN))
        raw, self._begun = (raw, "") if begun is None else (raw[: begun.start()], begun[0])
        if "\\u{" not in raw and (raw.isascii() or not INVISIBLE.search(raw)):
            return raw
        parts: list[str] = []
        length, position = len(self._held), 0
        for found in _HIDDEN.finditer(raw):
            parts.append(raw[position : found.start()])
            length += found.start() - position
            position = found.end()
            if self._gaps and self._gaps[-1][0] == length:
                self._gaps[-1] = (length, self._gaps[-1][1] + found[0])
            else:
                self._gaps.append((length, found[0]))
        return "".join((*parts, raw[position:]))

    def _shown(self, text: str, start: int, end: int) -> str:
        """Return a part of the text that nothing was found in, with what stood hidden in it."""
        if not self._gaps or start >= end:
            return text[start:end]
        first = bisect_left(self._gaps, start, key=_index)
        parts: list[str] = []
        position = start
        for gap, hidden in self._gaps[first : bisect_left(self._gaps, end, key=_index)]:
            parts += (text[position:gap], hidden)
            position = gap
        return "".join((*parts, text[position:end]))

    def _hold(self, text: str, position: int) -> None:
        """Keep what is not decided, and what stands before it, for the next piece."""
        start = max(0, position - CONTEXT)
        self._held, self._from = text[start:], position - start
        self._gaps = [(gap - start, hidden) for gap, hidden in self._gaps if gap >= start]


def without_hidden(text: str) -> str:
    """Return a text without what is looked past, as the rules are held against it."""
    return _HIDDEN.sub("", text)


def _index(gap: tuple[int, str]) -> int:
    return gap[0]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _as_bytes() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return options


def _skipped(rule: SecretRule, text: str, position: int, *, is_last: bool) -> tuple[int, bool]:
    """Return where a secret that has begun ends, and whether it is known to end there."""
    while True:
        tail = rule.tail.match(text, position) if rule.tail is not None else None
        if tail is not None:
            position = tail.end()
            if position == len(text):
                return position, is_last
        if rule.more is None:
            return position, True
        if len(text) - position < _MORE_LOOKAHEAD and not is_last:
            return position, False
        more = rule.more.match(text, position)
        if more is None:
            return position, True
        position = more.end()
        if more.groupdict().get("end") is not None:
            return position, True


class _Search:
    """The leftmost match of several rules; each of them walks the text once.

    Where something hidden stood, a secret may go on, but one may begin there as well: the text is read
    both as if there were nothing and as if it broke off. All indices are those of the visible text.
    """

    def __init__(self, rules: list[SecretRule], text: str, position: int, gaps: list[int]) -> None:
        self._text = text
        self._gaps = gaps if rules else []
        marks = (0, *self._gaps, len(text))
        self._broken = "\n".join(text[start:end] for start, end in pairwise(marks)) if self._gaps else ""
        ways = (False, True) if self._gaps else (False,)
        found = {(rule, way): self._find(rule, way, position) for rule in rules for way in ways}
        self._ahead = {key: span for key, span in found.items() if span is not None}

    def next(self, position: int) -> tuple[SecretRule, int, int] | None:
        """Return the first match at or behind a position; among equals, that of the earlier rule."""
        for key in [key for key, (start, _) in self._ahead.items() if start < position]:
            found = self._find(*key, position)
            if found is None:
                del self._ahead[key]
            else:
                self._ahead[key] = found
        first = min(self._ahead.items(), key=lambda pair: pair[1][0], default=None)
        return None if first is None else (first[0][0], *first[1])

    def _find(self, rule: SecretRule, is_broken: bool, position: int) -> tuple[int, int] | None:
        if not is_broken:
            match = rule.head.search(self._text, position)
            return None if match is None else match.span()
        match = rule.head.search(self._broken, position + bisect_right(self._gaps, position))
        return None if match is None else (self._in_text(match.start()), self._in_text(match.end()))

    def _in_text(self, index: int) -> int:
        """Return the index in the text of one in the broken text; no match spans a break."""
        return index - bisect_right(range(len(self._gaps)), index, key=lambda gap: self._gaps[gap] + gap + 1)
