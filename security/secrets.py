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
from collections import Counter
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
_BASE64_PARTS = (0, 12, 24)
_BASE64_PART = 12
_BASE64_MORE = r"\r?\n(?:[A-Za-z0-9+/_-]{16,120}={0,2}|[A-Za-z0-9+/_-]{2,15}={1,2})"
_MORE_LOOKAHEAD = 512
# A credential begins where no letter or digit stands before it, unless that one ends an escape:
# `\n` in JSON text, `%3D` in a URL.
_BEFORE = (
    "(?<![A-Za-z0-9]{0})",
    r"(?<=\\[nrtbf]{0})",
    r"(?<=\\u[0-9A-Fa-f]{{4}}{0})",
    "(?<=%[0-9A-Fa-f]{{2}}{0})",
)
_CONTEXT = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """How one kind of secret is found.

    `head` is its beginning; it looks at `longest` characters and never past the end of a line, and
    at most `_CONTEXT` characters back. `tail` is what belongs to the secret behind that, and `more`
    what it may continue with, on other lines too. A text without any of the `anchors` holds none.
    """

    name: str
    anchors: tuple[str, ...]
    head: re.Pattern[str]
    longest: int
    tail: re.Pattern[str] | None = None
    more: re.Pattern[str] | None = None


@lru_cache(maxsize=1)
def _written_rules() -> tuple[_Rule, ...]:
    """Read `secrets.toml`, once."""
    written = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text(encoding="utf-8"))
    prefixed = (rule for name, line in written["prefixed"].items() for rule in _prefixed(name, line))
    return (*prefixed, *(_shaped(name, line) for name, line in written["shaped"].items()))


def _prefixed(name: str, line: Mapping[str, Any]) -> Iterator[_Rule]:
    """Yield one rule for each prefix: a pattern that begins with a literal is searched for fastest."""
    chars, least = line["chars"], line["min"]
    needed = f"(?=[{chars}]{{0,{least - 1}}}[{line['needs']}])" if "needs" in line else ""
    for prefix in line["prefix"]:
        literal = re.escape(prefix)
        head = re.compile(f"{literal}{_start(literal)}{needed}[{chars}]{{{least}}}")
        yield _Rule(name, (prefix,), head, len(prefix) + least, re.compile(f"[{chars}]*"))


def _shaped(name: str, line: Mapping[str, Any]) -> _Rule:
    tail = re.compile(f"[{line['chars']}]*") if line["chars"] else None
    more = re.compile(line["more"]) if "more" in line else None
    head = re.compile(line["pattern"].replace("<start>", _start("")))
    return _Rule(name, tuple(line["anchor"]), head, line["longest"], tail, more)


def _start(literal: str) -> str:
    """Return the condition that a credential begins right here, or at the literal that was just read."""
    return "(?:" + "|".join(before.format(literal) for before in _BEFORE) + ")"


@lru_cache(maxsize=8)
def _known_rules(known: frozenset[str]) -> tuple[_Rule, ...]:
    """Return the rules for known values: as they are, JSON-escaped, percent-encoded, in base64."""
    parts = {part for value in known for part in _parts(value)}
    if not parts:
        return ()
    literals = _longest_first({form for part in parts for form in (part, json.dumps(part)[1:-1])})
    plain = re.compile("|".join(map(re.escape, literals)))
    percent = re.compile("|".join("".join(map(_percent_pattern, part)) for part in _longest_first(parts)))
    percent_length = max(3 * len(part.encode("utf-8", "surrogatepass")) for part in parts)
    cores = _longest_first({core for value in known for core in _base64_cores(value.strip())})
    return (
        _Rule(_KNOWN, literals, plain, len(literals[0])),
        _Rule(_KNOWN, ("%", *(["+"] if any(" " in part for part in parts) else [])), percent, percent_length),
        _Rule(
            _KNOWN,
            cores,
            re.compile("|".join(map(re.escape, cores))),
            _BASE64_PART,
            re.compile("[A-Za-z0-9+/=_-]*"),
            re.compile(_BASE64_MORE),
        ),
    )


def _longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    """Sort so that a value which begins with another is tried before it, and no rest is left standing."""
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _parts(value: str) -> Iterator[str]:
    """Yield what one match can span: the lines of a value, in parts of bounded length."""
    for line in map(str.strip, value.splitlines()):
        for start in range(0, len(line), _KNOWN_PART):
            # A rest too short to be looked for is covered together with what stands before it.
            first = max(0, min(start, len(line) - MIN_KNOWN_LENGTH))
            if len(line) - first >= MIN_KNOWN_LENGTH:
                yield line[first : start + _KNOWN_PART]


def _base64_cores(value: str) -> Iterator[str]:
    """Yield, for each of the three alignments, short pieces of the base64 that the value determines.

    Several, because a line may end within the first; from any of them on, all base64 is masked.
    """
    raw = value.encode("utf-8", "surrogatepass")
    for offset in range(3):
        first, last = -(-8 * offset // 6), 8 * (offset + len(raw)) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(bytes(offset) + raw).decode()[first:last]
            pieces = [core[start : start + _BASE64_PART] for start in _BASE64_PARTS]
            yield from (piece for piece in pieces if piece == pieces[0] or len(piece) == _BASE64_PART)


def _percent_pattern(char: str) -> str:
    encoded = "".join(f"%(?i:{byte:02x})" for byte in char.encode("utf-8", "surrogatepass"))
    return f"(?:{re.escape(char)}|{encoded}{'|[+]' if char == ' ' else ''})"


@lru_cache(maxsize=8)
def _anchored(rules: tuple[_Rule, ...]) -> tuple[tuple[str, _Rule], ...]:
    """Return each anchor with its rule, in one row: every text is asked for all of them, and few hold one."""
    return tuple((anchor, rule) for rule in rules for anchor in rule.anchors)


class _Masker:
    """Masks the secrets that some rules find, piece by piece."""

    def __init__(self, rules: tuple[_Rule, ...]) -> None:
        self.masked: Counter[str] = Counter()
        self._anchored = _anchored(rules)
        self._longest = max(rule.longest for rule in rules)
        self._inside: _Rule | None = None
        self._held = ""
        self._from = 0

    def feed(self, piece: str, *, is_last: bool = False) -> str:
        text, position = self._held + piece, self._from
        # No secret's beginning spans two lines, so whatever stands before the last one is decided.
        certain = len(text) if is_last else max(len(text) - self._longest + 1, text.rfind("\n") + 1)
        possible = dict.fromkeys([rule for anchor, rule in self._anchored if anchor in text])
        search = _Search(possible, text, position)
        done: list[str] = []
        while True:
            if self._inside is not None:
                position, has_ended = _skipped(self._inside, text, position, is_last=is_last)
                if not has_ended:
                    break
                self._inside = None
            rule, match = search.next(position) or (None, None)
            if rule is None or match is None or match.start() >= certain:
                done.append(text[position:certain])
                position = max(position, certain)
                break
            done += [text[position : match.start()], f"[redacted:{rule.name}]"]
            self.masked[rule.name] += 1
            position, self._inside = match.end(), rule
        self._held, self._from = text[max(0, position - _CONTEXT) :], min(position, _CONTEXT)
        return "".join(done)


def _skipped(rule: _Rule, text: str, position: int, *, is_last: bool) -> tuple[int, bool]:
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
    """The leftmost match of several rules; each of them walks the text once."""

    def __init__(self, rules: Iterable[_Rule], text: str, position: int) -> None:
        self._text = text
        self._ahead = {rule: found for rule in rules if (found := rule.head.search(text, position))}

    def next(self, position: int) -> tuple[_Rule, re.Match[str]] | None:
        """Return the first match at or behind a position; among equals, that of the earlier rule."""
        for rule in [rule for rule, match in self._ahead.items() if match.start() < position]:
            found = rule.head.search(self._text, position)
            if found is None:
                del self._ahead[rule]
            else:
                self._ahead[rule] = found
        return min(self._ahead.items(), key=lambda pair: pair[1].start(), default=None)


class Redactor:
    """Masks secrets in a text that comes in pieces: known values first, then what looks like one.

    Holds back, of the last line only, as many characters as the longest beginning of a secret has
    (about 1,000, or three times the bytes of a known value's longest part), and 512 inside a key
    that spans lines.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        rules = _known_rules(frozenset(value for value in known if len(value.strip()) >= MIN_KNOWN_LENGTH))
        self._maskers = [_Masker(found) for found in (rules, _written_rules()) if found]

    def feed(self, piece: str) -> str:
        """Take the next piece and return what is certain by now."""
        for masker in self._maskers:
            piece = masker.feed(piece)
        return piece

    def flush(self, piece: str = "") -> str:
        """Take the last piece and return all that is left."""
        for masker in self._maskers:
            piece = masker.feed(piece, is_last=True)
        return piece

    @property
    def notices(self) -> tuple[str, ...]:
        """How many secrets were masked, of which kinds."""
        masked = sum((masker.masked for masker in self._maskers), Counter[str]())
        kinds = ", ".join(f"{count} × {name}" for name, count in sorted(masked.items()))
        return (f"masked as secret: {kinds}",) if kinds else ()


def redact_text(text: str, known: Iterable[str] = ()) -> str:
    """Return the text with known values and well-known credentials masked as `[redacted:NAME]`."""
    return Redactor(known).flush(text)
