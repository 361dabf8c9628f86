r"""Mask the matches of a set of rules in text that arrives in pieces.

The output does not depend on where the pieces were cut. Invisible characters, and their visible
spelling (`\u{200b}`), cannot hide a match: they are skipped while matching, and kept where nothing was
masked. The rules themselves are defined elsewhere (`secrets.py`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import re2

from ..lazy import dataclass, regex
from .mask import MaskHash
from .unicode import INVISIBLE

__all__ = ["CONTEXT", "Masker", "RuleSet", "SecretRule", "one_byte_each", "without_hidden"]

CONTEXT = 48
"""How many characters before its match a rule may look at."""

_MORE_LOOKAHEAD = 512
# Bytes. With less than its states need, the automaton of all anchors forgets them and is built over and over.
_SET_MEMORY = 128 << 20
_SPELLED = r"\\u\{[0-9a-f]{1,6}\}"
_HIDDEN = regex(rf"(?:{_SPELLED}|{INVISIBLE.pattern})+")
_SPELLED_RUN = regex(rf"(?:{_SPELLED})+")
_HIDDEN_BEGUN = regex(r"\\(?:u(?:\{[0-9a-f]{0,6})?)?\Z")
_LONGEST_BEGUN = 9
_LONGEST_MASK = 64
_ASCII = bytes(range(128))


@dataclass(frozen=True, slots=True, eq=False)
class SecretRule:
    """How one kind of secret is found.

    `anchor` (an expression of re2 over `one_byte_each`) is what every match holds, and `lead` how many
    characters may precede it. `head` is the beginning of the secret: it looks at `longest` characters, past
    the end of no line but those that the set's `goes_on` finds, and at most `CONTEXT` characters back. Its
    group `value`, where it has one, is what is masked, and `accepts` may still refuse it. `tail` is what
    belongs to the secret behind that, and `more` what it may continue with, on other lines too. What the mask
    is a hash of begins at the group `hashed`, where there is one, or is what `spelled` makes of the match.
    """

    name: str
    anchor: bytes
    lead: int
    head: re.Pattern[str]
    longest: int
    tail: re.Pattern[str] | None = None
    more: re.Pattern[str] | None = None
    accepts: Callable[[re.Match[str]], bool] | None = None
    spelled: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Where a rule matched: from `start` it was read, from `first` to `end` it is the secret.

    The mask is a hash of what begins at `hashed`.
    """

    rule: SecretRule
    start: int
    first: int
    hashed: int
    end: int


class RuleSet:
    """Rules that are looked for together, at least one.

    `goes_on` finds, at the end of a line, what a rule may have begun that ends in the next one.
    """

    def __init__(self, rules: Iterable[SecretRule], goes_on: re.Pattern[str] | None = None) -> None:
        self._rules = tuple(rules)
        self._goes_on = goes_on
        self.longest: int = max(rule.longest for rule in self._rules)
        self.names: frozenset[str] = frozenset(rule.name for rule in self._rules)
        self._anchors = tuple(dict.fromkeys(rule.anchor for rule in self._rules))
        # Most texts hold the anchors of a few rules only; one automaton tells of which.
        self._present = re2.Set.SearchSet(_as_bytes(_SET_MEMORY))
        for anchor in self._anchors:
            self._present.Add(anchor)
        self._present.Compile()

    def decided(self, text: str) -> int:
        """Return up to where no beginning of a secret can reach what follows the text."""
        line = text.rfind("\n") + 1
        if self._goes_on is not None and line:
            begun = self._goes_on.search(text, text.rfind("\n", 0, line - 1) + 1, line)
            line = line if begun is None else begun.start()
        return max(len(text) - self.longest + 1, line)

    def anchors_in(self, text: str) -> list[tuple[SecretRule, Sequence[int]]]:
        """Return the rules that may match somewhere in a text, in order, and where their anchors begin."""
        if not text:
            return []
        encoded, places = one_byte_each(text), {}
        for index in self._present.Match(encoded) or ():
            anchor = self._anchors[index]
            places[anchor] = [match.start() for match in _compiled(anchor).finditer(encoded)]
        return [(rule, places[rule.anchor]) for rule in self._rules if rule.anchor in places]


class Masker:
    """Masks what the rules of a set find, piece by piece; a mask comes out where its secret has ended.

    Holds back, of the last line only, as many characters as the longest beginning has, and 512 inside
    something that spans lines; with it the line before where that ends in the name of a secret.
    """

    def __init__(self, rules: RuleSet, masks: re.Pattern[str]) -> None:
        self.masked: Counter[str] = Counter()
        self._rules, self._masks = rules, masks
        self._inside: SecretRule | None = None
        self._hash = MaskHash()
        self._begun = ""
        self._held = ""
        self._from = 0
        # Characters that are looked past, each with the index of the visible character behind it.
        self._gaps: list[tuple[int, str]] = []

    def feed(self, piece: str, *, is_last: bool = False) -> str:
        """Take the next piece and return what is certain by now."""
        if not piece and not (is_last and (self._held or self._begun or self._gaps)):
            return ""
        text = self._held + self._visible(self._begun + piece, is_last=is_last)
        position = self._from
        certain = len(text) if is_last else self._rules.decided(text)
        search = _Search(self._rules, self._masks, text, [gap for gap, _ in self._gaps])
        done: list[str] = []
        while True:
            if self._inside is not None:
                begun = position
                position, has_ended = _skipped(self._inside, text, position, is_last=is_last)
                if self._inside.spelled is None:
                    self._hash.update(text[begun:position])
                if not has_ended:
                    break
                done.append(self._hash.mask(self._inside.name))
                self._inside = None
            match, decided = search.next(position, certain)
            if match is None:
                done.append(self._shown(text, position, decided))
                position = max(position, decided)
                break
            done.append(self._shown(text, position, match.first))
            self.masked[match.rule.name] += 1
            value = text[match.hashed : match.end]
            self._hash = MaskHash(value if match.rule.spelled is None else match.rule.spelled(value))
            position, self._inside = match.end, match.rule
        if is_last:
            done += [hidden for gap, hidden in self._gaps if gap == len(text)]
        self._hold(text, position)
        return "".join(done)

    def _visible(self, raw: str, *, is_last: bool) -> str:
        """Return a text without what nobody sees, which is kept aside; a spelling that has begun waits."""
        begun = None if is_last else _HIDDEN_BEGUN.search(raw, max(0, len(raw) - _LONGEST_BEGUN))
        raw, self._begun = (raw, "") if begun is None else (raw[: begun.start()], begun[0])
        is_unseen = not raw.isascii() and INVISIBLE.search(_not_ascii(raw)) is not None
        if not is_unseen and "\\u{" not in raw:
            return raw
        parts: list[str] = []
        length, position = len(self._held), 0
        # An expression that begins with a literal is found several times as fast.
        for found in (_HIDDEN if is_unseen else _SPELLED_RUN).finditer(raw):
            parts.append(raw[position : found.start()])
            length += found.start() - position
            position = found.end()
            if self._gaps and self._gaps[-1][0] == length:
                self._gaps[-1] = (length, self._gaps[-1][1] + found[0])
            else:
                self._gaps.append((length, found[0]))
        return "".join((*parts, raw[position:]))

    def _shown(self, text: str, start: int, end: int) -> str:
        """Return a part of the text that nothing was found in, with what was hidden in it."""
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
        """Keep the undecided part, and the text before it, for the next piece."""
        start = max(0, position - CONTEXT)
        self._held, self._from = text[start:], position - start
        self._gaps = [(gap - start, hidden) for gap, hidden in self._gaps if gap >= start]


def _not_ascii(text: str) -> str:
    """Return a text without its ASCII characters."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return rest.decode("utf-8", "surrogatepass")


def without_hidden(text: str) -> str:
    """Return a text without what is looked past, as the rules are held against it."""
    return _HIDDEN.sub("", text)


def _index(gap: tuple[int, str]) -> int:
    return gap[0]


def one_byte_each(text: str) -> bytes:
    """Return a text with one byte for each character, `?` for those that have none.

    So an index is the same in both. Where that makes an anchor of something else, the rule does not match.
    """
    return text.encode("latin-1", "replace")


@lru_cache(maxsize=1024)
def _compiled(anchor: bytes) -> re2._Regexp:
    """Compile the expression of an anchor: of all there are, a process meets few."""
    return re2.compile(anchor, _as_bytes())


def _as_bytes(memory: int | None = None) -> re2.Options:
    options = re2.Options()
    if memory is not None:
        options.max_mem = memory
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

    Where something was hidden, a secret may go on, but one may begin there as well: the text is read
    both as if there were nothing and as if it broke off. All indices are those of the visible text.
    """

    def __init__(self, rules: RuleSet, masks: re.Pattern[str], text: str, gaps: list[int]) -> None:
        self._gaps = gaps
        self._walks = [_Walk(rule, masks, text, places) for rule, places in rules.anchors_in(text)]
        self._broken: list[_Walk] = []
        if gaps:
            broken = "\n".join(text[start:end] for start, end in pairwise((0, *gaps, len(text))))
            self._broken = [_Walk(rule, masks, broken, places) for rule, places in rules.anchors_in(broken)]

    def next(self, position: int, certain: int) -> tuple[Match | None, int]:
        """Return the match whose secret comes first at or behind a position, if it begins before `certain`.

        Among equals it is that of the earlier rule. With it comes how far is decided that nothing else
        comes before: a match that begins early may hold a secret behind another one.
        """
        found = [match for walk in self._walks if (match := walk.next(position)) is not None]
        shifted = position + bisect_right(self._gaps, position)
        found += [self._moved(match) for walk in self._broken if (match := walk.next(shifted)) is not None]
        first = min(found, key=lambda match: match.first, default=None)
        if first is not None and first.start < certain:
            return first, first.start
        return None, min([certain, *(match.start for match in found)])

    def _moved(self, match: Match) -> Match:
        places = (match.start, match.first, match.hashed, match.end)
        return Match(match.rule, *map(self._in_text, places))

    def _in_text(self, index: int) -> int:
        """Return the index in the text of one in the broken text; no match spans a break."""
        return index - bisect_right(range(len(self._gaps)), index, key=lambda gap: self._gaps[gap] + gap + 1)


class _Walk:
    """The matches of one rule in a text, from left to right; no place is tried twice."""

    def __init__(self, rule: SecretRule, masks: re.Pattern[str], text: str, places: Sequence[int]) -> None:
        self._rule, self._masks, self._text, self._places = rule, masks, text, places
        self._index = self._tried = 0
        self._match: Match | None = None

    def next(self, position: int) -> Match | None:
        """Return the first match whose secret is at or behind a position, which never goes back."""
        if self._match is not None and self._match.first >= position:
            return self._match
        self._match = None
        while self._match is None and self._index < len(self._places):
            place = self._places[self._index]
            if place >= position:
                self._match = self._at(place, max(position, self._tried, place - self._rule.lead))
                self._tried = place + 1 if self._match is None else self._match.start + 1
            if self._match is None:
                self._index += 1
        return self._match

    def _at(self, place: int, start: int) -> Match | None:
        """Return the match that holds the anchor at `place` and begins at `start` or later."""
        rule, limit = self._rule, place + self._rule.longest
        read = rule.head.search if rule.lead else rule.head.match
        while start <= place:
            match = read(self._text, start, limit)
            if match is None or match.start() > place:
                return None
            groups = rule.head.groupindex
            first = match.start("value") if "value" in groups else match.start()
            if not self._is_masked(first, match.end()) and (rule.accepts is None or rule.accepts(match)):
                hashed = match.start("hashed") if "hashed" in groups else first
                return Match(rule, match.start(), first, hashed, match.end())
            start = match.start() + 1
        return None

    def _is_masked(self, first: int, end: int) -> bool:
        """Whether a part of the text is a mask already, or lies in one."""
        begun = self._text.rfind("[", max(0, first - _LONGEST_MASK), first + 1)
        mask = self._masks.match(self._text, begun) if begun >= 0 else None
        return mask is not None and mask.end() >= end
