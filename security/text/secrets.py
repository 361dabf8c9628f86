"""Find and mask secrets in text, as a whole or in a stream.

Secrets are values the caller knows, in any encoding, and credentials recognised by their issuer's
prefix or their shape (`secrets.toml`). Each is replaced by `[redacted:NAME]`; `masking.py` does so
across the pieces of a stream. Whether a secret may be sent somewhere is not decided here.
"""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .masking import Masker, RuleSet, SecretRule, without_hidden

__all__ = ["MASK_NAMES", "MIN_KNOWN_LENGTH", "Redactor", "redact_text"]

MIN_KNOWN_LENGTH = 6
"""Known values below this many characters are not looked for: they would be found in ordinary words."""

_KNOWN = "known-secret"
_KNOWN_PART = 256
_BASE64_PARTS = (0, 12, 24)
_BASE64_PART = 12
_BASE64_MORE = r"\r?\n(?:[A-Za-z0-9+/_-]{16,120}={0,2}|[A-Za-z0-9+/_-]{2,15}={1,2})"
# A credential begins where no letter or digit stands before it, unless that one ends an escape:
# `\n` in JSON text, `%3D` in a URL.
_BEFORE = (
    "(?<![A-Za-z0-9]{0})",
    r"(?<=\\[nrtbf]{0})",
    r"(?<=\\u[0-9A-Fa-f]{{4}}{0})",
    "(?<=%[0-9A-Fa-f]{{2}}{0})",
)


def _written_rules() -> RuleSet:
    """Read `secrets.toml`."""
    written = tomllib.loads(Path(__file__).with_name("secrets.toml").read_text(encoding="utf-8"))
    prefixed = (rule for name, line in written["prefixed"].items() for rule in _prefixed(name, line))
    return RuleSet((*prefixed, *(_shaped(name, line) for name, line in written["shaped"].items())))


def _prefixed(name: str, line: Mapping[str, Any]) -> Iterator[SecretRule]:
    """Yield one rule for each prefix: a pattern that begins with a literal is searched for fastest."""
    chars, least = line["chars"], line["min"]
    needed = f"(?=[{chars}]{{0,{least - 1}}}[{line['needs']}])" if "needs" in line else ""
    for prefix in line["prefix"]:
        literal = re.escape(prefix)
        head = re.compile(f"{literal}{_start(literal)}{needed}[{chars}]{{{least}}}")
        yield SecretRule(name, (prefix,), head, len(prefix) + least, re.compile(f"[{chars}]*"))


def _shaped(name: str, line: Mapping[str, Any]) -> SecretRule:
    tail = re.compile(f"[{line['chars']}]*") if line["chars"] else None
    more = re.compile(line["more"]) if "more" in line else None
    head = re.compile(line["pattern"].replace("<start>", _start("")))
    return SecretRule(name, tuple(line["anchor"]), head, line["longest"], tail, more)


def _start(literal: str) -> str:
    """Return the condition that a credential begins right here, or at the literal that was just read."""
    return "(?:" + "|".join(before.format(literal) for before in _BEFORE) + ")"


@lru_cache(maxsize=32)
def _known_rules(known: frozenset[str]) -> RuleSet | None:
    """Return the rules for known values: as they are, JSON-escaped, percent-encoded, in base64."""
    parts = {part for value in known for form in (value, without_hidden(value)) for part in _parts(form)}
    if not parts:
        return None
    literals = _longest_first({form for part in parts for form in (part, json.dumps(part)[1:-1])})
    plain = re.compile("|".join(map(re.escape, literals)))
    percent = re.compile("|".join("".join(map(_percent_pattern, part)) for part in _longest_first(parts)))
    percent_length = max(3 * len(part.encode("utf-8", "surrogatepass")) for part in parts)
    cores = _longest_first({core for value in known for core in _base64_cores(value.strip())})
    is_plus_space = any(" " in part for part in parts)
    more = re.compile(_BASE64_MORE)
    encoded = re.compile("|".join(map(re.escape, cores)))
    rules = (
        SecretRule(_KNOWN, literals, plain, len(literals[0])),
        SecretRule(_KNOWN, ("%", "+") if is_plus_space else ("%",), percent, percent_length),
        SecretRule(_KNOWN, cores, encoded, _BASE64_PART, re.compile("[A-Za-z0-9+/=_-]*"), more),
    )
    return RuleSet(rules)


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


_WRITTEN = _written_rules()

MASK_NAMES = frozenset({_KNOWN, *_WRITTEN.names})
"""Every NAME that a mask can have."""


class Redactor:
    """Masks secrets in a text that comes in pieces: known values first, then what looks like one.

    Holds back, of the last line only, as many characters as the longest beginning of a secret has
    (about 1,000, or three times the bytes of a known value's longest part), and 512 inside a key
    that spans lines.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        rules = _known_rules(frozenset(value for value in known if len(value.strip()) >= MIN_KNOWN_LENGTH))
        self._maskers = [Masker(found) for found in (rules, _WRITTEN) if found is not None]

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
