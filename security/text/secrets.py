"""Find and mask secrets in text, as a whole or in a stream.

Secrets are values the caller knows, in any encoding, and credentials recognised by their issuer's
prefix or their shape (`secrets.toml`). Each is replaced by a mask (`mask.py`); `masking.py` does so
across the pieces of a stream. Whether a secret may be sent somewhere is not decided here.
"""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import re2

from ..lazy import regex
from .assigned import assigned_rules, is_no_stand_in, name_at_end
from .mask import mask_pattern
from .masking import Masker, RuleSet, SecretRule, one_byte_each, without_hidden

__all__ = ["MIN_KNOWN_LENGTH", "Redactor", "mask_form", "mask_names", "redact_text"]

MIN_KNOWN_LENGTH = 6
"""Known values below this many characters are not looked for: they would be found in ordinary words."""

_KNOWN = "known-secret"
_KNOWN_PART = 256
_BASE64_PARTS = (0, 12, 24)
_BASE64_PART = 12
_BASE64_MORE = r"\r?\n(?:[A-Za-z0-9+/_-]{16,120}={0,2}|[A-Za-z0-9+/_-]{2,15}={1,2})"
# A credential begins where no letter or digit precedes it, unless that one ends an escape:
# `\n` in JSON text, `%3D` in a URL.
_BEFORE = (
    "(?<![A-Za-z0-9]{0})",
    r"(?<=\\[nrtbf]{0})",
    r"(?<=\\u[0-9A-Fa-f]{{4}}{0})",
    "(?<=%[0-9A-Fa-f]{{2}}{0})",
)


@cache
def _written_rules() -> RuleSet:
    """Read `secrets.toml`, when a text is first looked through."""
    written = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text(encoding="utf-8"))
    prefixed = (rule for name, line in written["prefixed"].items() for rule in _prefixed(name, line))
    shaped = (_shaped(name, line) for name, line in written["shaped"].items())
    return RuleSet((*prefixed, *shaped, *assigned_rules()), name_at_end())


def _prefixed(name: str, line: Mapping[str, Any]) -> Iterator[SecretRule]:
    """Yield one rule for each prefix: a pattern that begins with a literal is searched for fastest."""
    chars, least = line["chars"], line["min"]
    needed = f"(?=[{chars}]{{0,{least - 1}}}[{line['needs']}])" if "needs" in line else ""
    for prefix in line["prefix"]:
        literal = re.escape(prefix)
        head = regex(f"{literal}{_start(literal)}{needed}[{chars}]{{{least}}}")
        anchor = _any_of([prefix]) + f"[{chars}]{{{min(least, 16)}}}".encode()
        longest, tail = len(prefix) + least, regex(f"[{chars}]*")
        yield SecretRule(name, anchor, 0, head, longest, tail, None, _is_no_filler)


def _is_no_filler(match: re.Match[str]) -> bool:
    """Say whether a token is more than its prefix and a row of x."""
    return not set(match[0][-12:]) <= {"x", "X"}


def _shaped(name: str, line: Mapping[str, Any]) -> SecretRule:
    tail = regex(f"[{line['chars']}]*") if line["chars"] else None
    more = regex(line["more"]) if "more" in line else None
    head = regex(line["pattern"].replace("<start>", _start("")))
    accepts = is_no_stand_in if name.endswith("-password") else None
    if "find" in line:
        return SecretRule(
            name, line["find"].encode(), line.get("lead", 0), head, line["longest"], tail, more, accepts
        )
    longest = line["longest"]
    return SecretRule(name, _any_of(line["anchor"]), longest, head, longest, tail, more, accepts)


def _start(literal: str) -> str:
    """Return the condition that a credential begins right here, or at the literal that was just read."""
    return "(?:" + "|".join(before.format(literal) for before in _BEFORE) + ")"


@lru_cache(maxsize=32)
def _known_rules(known: frozenset[str]) -> RuleSet | None:
    """Return the rules for known values: as they are, backwards, in hex, JSON, percent-encoded, in base64.

    Whatever the form, the mask is that of the value.
    """
    values = {part: value for value in sorted(known) for part in _parts_of(value)}
    if not values:
        return None
    forms = {form: value for part, value in values.items() for form in _spellings(part)}
    cores = {core: value for value in sorted(known) for core in _base64_cores(value.strip())}
    spelled = [("".join(map(_percent_pattern, part)), values[part]) for part in _longest_first(values)]
    percent, each = (
        re.compile("|".join(one for one, _ in spelled)),
        [(re.compile(one), value) for one, value in spelled],
    )
    percent_length = max(3 * len(part.encode("utf-8", "surrogatepass")) for part in values)
    marks = _any_of("%+" if any(" " in part for part in values) else "%")
    literals, more = _longest_first(forms), re.compile(_BASE64_MORE)
    plain, encoded = (re.compile("|".join(map(re.escape, one))) for one in (literals, _longest_first(cores)))
    tail, decoded = re.compile("[A-Za-z0-9+/=_-]*"), partial(_value_of, each)
    rules = (
        SecretRule(_KNOWN, _any_of(literals), 0, plain, len(literals[0]), spelled=forms.__getitem__),
        SecretRule(_KNOWN, marks, percent_length, percent, percent_length, spelled=decoded),
        SecretRule(_KNOWN, _any_of(cores), 0, encoded, _BASE64_PART, tail, more, spelled=cores.__getitem__),
    )
    return RuleSet(rules)


def _parts_of(value: str) -> Iterator[str]:
    """Yield the parts of a value, with and without what nobody sees."""
    for form in (value, without_hidden(value)):
        yield from _parts(form)


def _value_of(patterns: Sequence[tuple[re.Pattern[str], str]], text: str) -> str:
    """Return the value whose pattern a text was found by."""
    return next(value for pattern, value in patterns if pattern.fullmatch(text))


def _any_of(literals: Iterable[str]) -> bytes:
    """Return the expression of re2 for one of some literals."""
    return b"|".join(re2.escape(one_byte_each(literal)) for literal in literals)


def _longest_first(forms: Iterable[str]) -> tuple[str, ...]:
    """Sort so that a value which begins with another is tried before it, and no rest is left standing."""
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _parts(value: str) -> Iterator[str]:
    """Yield what one match can span: the lines of a value, in parts of bounded length."""
    for line in map(str.strip, value.splitlines()):
        for start in range(0, len(line), _KNOWN_PART):
            # A rest too short to be looked for is covered together with the text before it.
            first = max(0, min(start, len(line) - MIN_KNOWN_LENGTH))
            if len(line) - first >= MIN_KNOWN_LENGTH:
                yield line[first : start + _KNOWN_PART]


def _spellings(part: str) -> Iterator[str]:
    """Yield the spellings of a part of a value in a text other than base64 and percent-encoded ones."""
    encoded = part.encode("utf-8", "surrogatepass").hex()
    yield from (part, json.dumps(part)[1:-1], part[::-1], encoded, encoded.upper())


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


@cache
def mask_names() -> frozenset[str]:
    """Return every kind that a mask can have."""
    return frozenset({_KNOWN, *_written_rules().names})


@cache
def mask_form() -> re.Pattern[str]:
    """Return what masks look like; anybody can write one."""
    return mask_pattern(mask_names())


class Redactor:
    """Masks secrets in a text that comes in pieces: known values first, then what looks like one.

    Holds back, of the last line only, as many characters as the longest beginning of a secret has
    (about 1,000, or three times the bytes of a known value's longest part), and 512 inside a key
    that spans lines.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        rules = _known_rules(frozenset(value for value in known if len(value.strip()) >= MIN_KNOWN_LENGTH))
        self._maskers = [Masker(one, mask_form()) for one in (rules, _written_rules()) if one is not None]

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
    """Return the text with known values and well-known credentials masked."""
    return Redactor(known).flush(text)
