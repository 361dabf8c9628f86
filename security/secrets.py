"""Where in a text does a secret begin and end?

Secrets are values the caller knows, in whatever encoding, and credentials that give themselves away
by their issuer's prefix or their shape (`secrets.toml`). Each is replaced by `[redacted:NAME]`. The
one implementation takes a text in pieces: what it returns does not depend on where the pieces were
cut. Whether a secret may be sent somewhere is not asked here.
"""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["MIN_KNOWN_LENGTH", "Redactor", "redact_text"]

MIN_KNOWN_LENGTH = 6
"""Known values below this many characters are not looked for: they would be found in ordinary words."""

_KNOWN = "known-secret"
_KNOWN_PART = 256
_MORE_LOOKAHEAD = 512
_CONTEXT = 32


@dataclass(frozen=True, slots=True)
class _Rule:
    """How one kind of secret is found.

    `head` is its beginning and looks at `longest` characters and never at a line end; `tail` is what
    belongs to it behind that; `more`, if any, is what may follow even on other lines. A text without
    any of the `anchors` holds none.
    """

    name: str
    anchors: tuple[str, ...]
    head: re.Pattern[str]
    longest: int
    tail: re.Pattern[str] | None = None
    more: re.Pattern[str] | None = None

    def is_possible(self, text: str) -> bool:
        return any(anchor in text for anchor in self.anchors)


@lru_cache(maxsize=1)
def _rules() -> tuple[_Rule, ...]:
    """Read `secrets.toml`, once."""
    written = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text(encoding="utf-8"))
    prefixed = (rule for name, line in written["prefixed"].items() for rule in _prefixed(name, line))
    return (*prefixed, *(_shaped(name, line) for name, line in written["shaped"].items()))


def _prefixed(name: str, line: Mapping[str, Any]) -> Iterator[_Rule]:
    """One rule for each prefix: a pattern that begins with a literal is searched for fastest."""
    chars, least = line["chars"], line["min"]
    for prefix in line["prefix"]:
        literal = re.escape(prefix)
        needed = f"(?=[{chars}]{{0,{least - 1}}}[{line['needs']}])" if "needs" in line else ""
        head = re.compile(f"{literal}(?<![A-Za-z0-9]{literal}){needed}[{chars}]{{{least}}}")
        yield _Rule(name, (prefix,), head, len(prefix) + least, re.compile(f"[{chars}]*"))


def _shaped(name: str, line: Mapping[str, Any]) -> _Rule:
    tail = re.compile(f"[{line['chars']}]*") if line["chars"] else None
    more = re.compile(line["more"]) if "more" in line else None
    return _Rule(name, tuple(line["anchor"]), re.compile(line["pattern"]), line["longest"], tail, more)


@lru_cache(maxsize=8)
def _known_rules(known: frozenset[str]) -> tuple[_Rule, ...]:
    """Return rules for known values: as they are, JSON-escaped, percent-encoded, in base64."""
    # Longest first: a value that begins with another must not be left standing in part.
    parts = sorted({part for value in known for part in _parts(value)}, key=lambda part: (-len(part), part))
    plain = {form for part in parts for form in (part, json.dumps(part)[1:-1])}
    plain.update(core for value in known for core in _base64_cores(value.strip()))
    rules = []
    if plain:
        literals = sorted(plain, key=lambda form: (-len(form), form))
        head = re.compile("|".join(map(re.escape, literals)))
        rules.append(_Rule(_KNOWN, tuple(literals), head, len(literals[0])))
    if parts:
        head = re.compile("|".join("".join(map(_percent_pattern, part)) for part in parts))
        rules.append(_Rule(_KNOWN, ("%", "+"), head, max(_percent_length(part) for part in parts)))
    return tuple(rules)


def _parts(value: str) -> Iterator[str]:
    """Split a value into what one match can span: its lines, in parts of bounded length."""
    for line in map(str.strip, value.splitlines()):
        for start in range(0, len(line), _KNOWN_PART):
            # A short rest is covered together with what stands before it.
            part = line[max(0, min(start, len(line) - MIN_KNOWN_LENGTH)) : start + _KNOWN_PART]
            if len(part) >= MIN_KNOWN_LENGTH:
                yield part


def _base64_cores(value: str) -> Iterator[str]:
    """Yield the characters of base64 that a value determines, for each of its three alignments."""
    raw = value.encode("utf-8", "surrogatepass")
    for offset in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            first, last = -(-8 * offset // 6), 8 * (offset + len(raw)) // 6
            core = encode(bytes(offset) + raw).decode()[first:last]
            for start in range(0, len(core), _KNOWN_PART):
                part = core[max(0, min(start, len(core) - MIN_KNOWN_LENGTH)) : start + _KNOWN_PART]
                if len(value) >= MIN_KNOWN_LENGTH:
                    yield part


def _percent_pattern(char: str) -> str:
    encoded = "".join(f"%(?i:{byte:02x})" for byte in char.encode("utf-8", "surrogatepass"))
    return f"(?:{re.escape(char)}|{encoded}{'|[+]' if char == ' ' else ''})"


def _percent_length(part: str) -> int:
    return 3 * len(part.encode("utf-8", "surrogatepass"))


class Redactor:
    """Masks secrets in a text that comes in pieces.

    Holds back, of the last line only, as many characters as the longest beginning of a secret has
    (at most about 1,000, or three times a known value's), and 512 inside a private key.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = frozenset(value for value in known if len(value.strip()) >= MIN_KNOWN_LENGTH)
        self._rules = (*_known_rules(values), *_rules())
        self._longest = max(rule.longest for rule in self._rules)
        self._context = max(_CONTEXT, *(len(anchor) for rule in _rules() for anchor in rule.anchors))
        self._masked: dict[str, int] = {}
        self._inside: _Rule | None = None
        self._held = ""
        self._from = 0

    def feed(self, piece: str) -> str:
        """Take the next piece and return what is certain by now."""
        return self._advance(self._held + piece, is_last=False)

    def flush(self) -> str:
        """Return what was held back."""
        return self._advance(self._held, is_last=True)

    @property
    def notices(self) -> tuple[str, ...]:
        """How many secrets were masked, of which kinds."""
        if not self._masked:
            return ()
        kinds = ", ".join(f"{count} × {name}" for name, count in sorted(self._masked.items()))
        return (f"masked as secret: {kinds}",)

    def _advance(self, text: str, *, is_last: bool) -> str:
        # No secret's beginning spans two lines, so whatever stands before the last one is decided.
        certain = len(text) if is_last else max(len(text) - self._longest + 1, text.rfind("\n") + 1)
        search = _Search([rule for rule in self._rules if rule.is_possible(text)], text)
        done: list[str] = []
        position = self._from
        while True:
            if self._inside is not None:
                position, ended = _skipped(self._inside, text, position, is_last=is_last)
                if not ended:
                    break
                self._inside = None
            found = search.next(position)
            if found is None or found[1].start() >= certain:
                end = max(position, certain)
                done.append(text[position:end])
                position = end
                break
            rule, match = found
            done += [text[position : match.start()], f"[redacted:{rule.name}]"]
            self._masked[rule.name] = self._masked.get(rule.name, 0) + 1
            position, self._inside = match.end(), rule
        start = max(0, position - self._context)
        self._held, self._from = text[start:], position - start
        return "".join(done)


def _skipped(rule: _Rule, text: str, position: int, *, is_last: bool) -> tuple[int, bool]:
    """Return where a secret that has begun ends, and whether that is certain by now."""
    while True:
        if rule.tail is not None:
            position = _end(rule.tail.match(text, position), position)
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
        if more["end"] is not None:
            return position, True


def _end(match: re.Match[str] | None, position: int) -> int:
    return match.end() if match is not None else position


class _Search:
    """The leftmost match of several rules; each rule walks the text once."""

    def __init__(self, rules: list[_Rule], text: str) -> None:
        self._text = text
        self._ahead: list[tuple[_Rule, re.Match[str] | None]] = []
        self._todo = rules

    def next(self, position: int) -> tuple[_Rule, re.Match[str]] | None:
        """Return the first match at or behind a position; among equals, that of the earlier rule."""
        waiting = [(rule, match) for rule, match in self._ahead]
        if self._todo:
            waiting, self._todo = [(rule, None) for rule in self._todo], []
            self._ahead = [(rule, rule.head.search(self._text, position)) for rule, _ in waiting]
        else:
            self._ahead = [
                (rule, match if match.start() >= position else rule.head.search(self._text, position))
                for rule, match in waiting
                if match is not None
            ]
        found = [(rule, match) for rule, match in self._ahead if match is not None]
        return min(found, key=lambda pair: pair[1].start(), default=None)


def redact_text(text: str, known: Iterable[str] = ()) -> str:
    """Return the text with known values and well-known credentials masked as `[redacted:NAME]`."""
    redactor = Redactor(known)
    return redactor.feed(text) + redactor.flush()
