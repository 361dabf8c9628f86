"""Find letters that pass for another script's: the one place that decides which words are suspicious.

A word is suspicious if a run of its letters belongs to another script than the letters beside it and is
drawn like those (UTS #39: mixed scripts, single letters that are confusable), or if all of it is drawn like
Latin letters in a text that is otherwise Latin. Scripts that are visibly different beside each other are
ordinary: a Japanese sentence with Latin words, a symbol of a formula before a unit, a Russian ending on an
acronym. The tables come from Unicode's data (`scripts.toml`); the first text that needs them loads them.
"""

from __future__ import annotations

import tomllib
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import groupby, islice
from pathlib import Path

from ..lazy import dataclass, regex

__all__ = [
    "LookAlike",
    "LookAlikeFinder",
    "find_look_alikes",
    "look_alike_flags",
    "mixes_scripts",
    "skeleton",
]

_TABLE = Path(__file__).with_name("scripts.toml")

# Written together in ordinary Japanese, Korean and Chinese (UTS 39, 5.1); each may be mixed with Latin.
_TOGETHER = (
    frozenset({"Latin", "Han", "Hiragana", "Katakana"}),
    frozenset({"Latin", "Han", "Hangul"}),
    frozenset({"Latin", "Han", "Bopomofo"}),
)
_LATIN, _GREEK, _STYLED = "Latin", "Greek", "Styled"

# Letters that some text needs before a word of a person can look like another: nothing else is looked at.
_WORTH_A_LOOK = regex(
    r"[\u0251\u0261\u0269\u0370-\u1dbf\u1f00-\u1fff\u2100-\u214f\u2c00-\u2dff\ua4d0-\ua7ff\uab30-\uabbf"
    r"\uff21-\uff5a\U00010000-\U0001efff]"
)
_WORD = regex(r"\w+")
_LATIN_WORD = regex(r"[A-Za-z]{2,}")
_LONGEST_WORD = 256
_MOST, _FEW = 100, 8

# Never used as a symbol of its own in a formula, for nobody could tell it from the Latin letter.
_GREEK_TWINS = frozenset(
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf"
)
# Symbols of formulas that pass for a Latin letter in a longer word: alpha, iota, kappa, nu, rho and others.
_GREEK_CLOSE = _GREEK_TWINS | frozenset("\u03b1\u03b9\u03ba\u03bd\u03c1\u03c4\u03c5\u03c3")
_PHONETIC = frozenset("\u0251\u0261\u0269\u1d00\u1d04\u1d0f\u1d1c\u1d20\u1d21\u1d22")
_PREFIXED = frozenset({"Hebrew", "Arabic", "Syriac", "Thaana"})
"""Scripts that write an article or a conjunction onto the word behind it, Latin or not."""


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A suspicious word: its place in the text in characters, its line from 1, and its foreign letters."""

    start: int
    end: int
    line: int
    letters: str


class _Tables:
    """What Unicode's data say: the script of a letter, and which ASCII letter one is drawn like."""

    def __init__(self) -> None:
        raw = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
        spans = sorted(
            (first, last, script) for script, text in raw["scripts"].items() for first, last in _spans(text)
        )
        self._spans, self._firsts = spans, [first for first, _, _ in spans]
        self.drawn = _letters(raw["drawn_as"])
        self.passing = {**self.drawn, **_letters(raw["passes_for"])}
        self.images: dict[str, set[str]] = {}
        for char, letter in self.passing.items():
            self.images.setdefault(self.script_of(char), set()).add(letter)

    def script_of(self, char: str) -> str:
        at = bisect_right(self._firsts, ord(char)) - 1
        if at >= 0 and self._spans[at][1] >= ord(char):
            return _STYLED if "\uff21" <= char <= "\uff5a" else self._spans[at][2]
        # Letters of no script that are drawn like one: those of mathematics, bold, double or in a circle.
        return _STYLED if char in self.drawn else ""


def _letters(table: dict[str, str]) -> dict[str, str]:
    return {
        chr(code): letter
        for letter, text in table.items()
        for first, last in _spans(text)
        for code in range(first, last + 1)
    }


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for item in text.split():
        first, _, last = item.partition("-")
        yield int(first, 16), int(last or first, 16)


@cache
def _tables() -> _Tables:
    return _Tables()


@lru_cache(maxsize=8192)
def _script(char: str) -> str:
    """Return the script of a letter; "" for digits, marks, signs, and letters of every script."""
    if char.isascii():
        return _LATIN if char.isalpha() else ""
    return _tables().script_of(char)


def mixes_scripts(word: str) -> bool:
    """Whether a word has letters of scripts that are not written together in any language."""
    scripts = {script for char in word if (script := _script(char))}
    return len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER)


def skeleton(word: str) -> str:
    """Return a word with each letter that is drawn like an ASCII one replaced by that one."""
    if word.isascii():
        return word
    passing = _tables().passing
    return "".join(passing.get(char, char) for char in word)


def find_look_alikes(text: str) -> tuple[LookAlike, ...]:
    """Return the suspicious words of a text, at most a hundred."""
    finder = LookAlikeFinder()
    finder.feed(text)
    return finder.finish()


def look_alike_flags(text: str) -> tuple[str, ...]:
    """Return for each suspicious word of a short text what its foreign letters are, in our words alone."""
    return tuple(
        dict.fromkeys(f"look-alike letter {_named(found.letters)}" for found in find_look_alikes(text))
    )


def _named(letters: Iterable[str]) -> str:
    return ", ".join(
        f"U+{ord(char):04X} {unicodedata.name(char, '')}".rstrip() for char in dict.fromkeys(letters)
    )


class LookAlikeFinder:
    """`find_look_alikes` for a text that comes in pieces; of it only a word that may go on is held."""

    def __init__(self) -> None:
        self.count: int = 0
        self._found: list[LookAlike] = []
        self._whole: list[tuple[str, LookAlike]] = []
        self._visible: set[str] = set()
        self._latin_words = 0
        self._held = ""
        self._at, self._line = 0, 1

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        text = self._held + piece
        end = len(text)
        while end and end > len(text) - _LONGEST_WORD and (text[end - 1].isalnum() or text[end - 1] == "_"):
            end -= 1
        self._take(text[:end])
        self._held = text[end:]

    def finish(self) -> tuple[LookAlike, ...]:
        """Return what was found in all there was."""
        self._take(self._held)
        self._held = ""
        if self._latin_words >= 3:
            whole = [found for script, found in self._whole if script not in self._visible]
            self.count += len(whole)
            self._found += whole
        self._whole.clear()
        return tuple(sorted(self._found, key=lambda found: found.start)[:_MOST])

    @property
    def notice(self) -> str:
        """Say in our words, once it is finished, which letters look like others, and in which lines."""
        if not self.count:
            return ""
        first = sorted(self._found, key=lambda found: found.start)[:5]
        named = "; ".join(f"{_named(found.letters)} in line {found.line}" for found in first)
        more = f"; {self.count - len(first)} more words" if self.count > len(first) else ""
        return f"letters drawn like those of another script: {named}{more}"

    def _take(self, text: str) -> None:
        if self._latin_words < 3:
            self._latin_words += len(list(islice(_LATIN_WORD.finditer(text), 3)))
        if not text.isascii() and _WORTH_A_LOOK.search(text):
            line, counted = self._line, 0
            for word in _WORD.finditer(text):
                if word[0].isascii():
                    continue
                line, counted = line + text.count("\n", counted, word.start()), word.start()
                self._judge(word[0][:_LONGEST_WORD], self._at + word.start(), line)
        self._line += text.count("\n")
        self._at += len(text)

    def _judge(self, word: str, at: int, line: int) -> None:
        letters = _foreign(word)
        if letters:
            self.count += 1
            if len(self._found) < _MOST:
                self._found.append(LookAlike(at, at + len(word), line, letters[:_FEW]))
            return
        scripts = {script for char in word if (script := _script(char))} - {_LATIN}
        drawn = _tables().drawn
        for script in scripts:
            own = [char for char in word if _script(char) == script]
            is_alike = len(scripts) == 1 and all(char in drawn for char in own)
            if not is_alike:
                self._visible.add(script)
            elif _passes_whole(script, own) and len(self._whole) < _MOST:
                self._whole.append((script, LookAlike(at, at + len(word), line, "".join(own)[:_FEW])))


def _passes_whole(script: str, letters: list[str]) -> bool:
    """Whether letters alone pass for a Latin word; those that formulas use have to make one."""
    if script == _GREEK:
        return len(letters) > 2 or any(char in _GREEK_TWINS for char in letters)
    return script != _STYLED and (script == "Cyrillic" or len(letters) > 2)


def _foreign(word: str) -> str:
    """Return the letters of a word that pass for those beside them; "" where there are none."""
    runs = [(script, "".join(chars)) for script, chars in groupby(word, _script) if script]
    scripts = {script for script, _ in runs}
    if len(scripts) < 2:
        return _phonetic(word)
    if any(scripts <= together for together in _TOGETHER) or _is_acronym_with_ending(runs):
        return ""
    mix = _Mix(
        sum(len(run) for script, run in runs if script == _LATIN),
        sum(len(run) for script, run in runs if script != _LATIN),
        frozenset(scripts - {_LATIN}),
    )
    last = len(runs) - 1
    return "".join(run for at, (script, run) in enumerate(runs) if mix.passes(script, run, 0 < at < last))


def _phonetic(word: str) -> str:
    """Return the one letter of the phonetic alphabet in an otherwise plain word."""
    odd = [char for char in word if not char.isascii()]
    plain = sum(char.isascii() and char.isalpha() for char in word)
    return odd[0] if len(odd) == 1 and odd[0] in _PHONETIC and plain > 3 else ""


def _is_acronym_with_ending(runs: list[tuple[str, str]]) -> bool:
    """Whether a Latin acronym got the ending of another language (`SMSками`, `ICOшник`)."""
    if len(runs) != 2 or runs[0][0] != _LATIN:
        return False
    acronym, ending = runs[0][1], runs[1][1]
    return len(acronym) > 1 and acronym.isupper() and len(ending) > 1 and ending.islower()


@dataclass(frozen=True, slots=True)
class _Mix:
    """A word of several scripts: how many letters are Latin, how many are not, and whose those are."""

    latin: int
    foreign: int
    scripts: frozenset[str]

    def passes(self, script: str, run: str, is_inside: bool) -> bool:
        """Whether a run of letters of one script passes for the letters beside it."""
        if script == _LATIN:
            return self._latin_passes(run)
        is_alike = all(char in _tables().passing for char in run)
        if not self.latin:
            return is_alike
        if script in _PREFIXED:
            return is_alike and is_inside
        if script == _STYLED:
            return self.latin > 2
        if script == _GREEK:
            return all(char in _GREEK_CLOSE for char in run) and (
                any(char in _GREEK_TWINS for char in run)
                or (is_inside and self.latin > 2)
                or self.latin > max(3, len(run))
            )
        return is_alike or (len(run) == 1 and is_inside and script == "Cyrillic")

    def _latin_passes(self, run: str) -> bool:
        """Whether Latin letters pass for those of another script in a word that is mostly in that."""
        if self.foreign <= len(run) or (self.scripts == {_GREEK} and self.foreign < 3):
            return False
        alike = (_tables().images.get(script, set()) for script in self.scripts - {_STYLED})
        return set(run) <= set().union(*alike)
