"""Detect values read from private sources in the parts of a URL, by keyed hashes.

Values are whatever a text holds besides words: longer numbers, letters mixed with digits, and anything
assigned to a name such as `password`. Only their keyed hashes are kept, so the record of what was read
reveals nothing. Words are not kept, since a page may be named after the subject of a file; so a secret
made of words alone is not recognised, nor one that a model encrypted itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import islice

from ..lazy import dataclass, regex

__all__ = ["MOST_AT_ONCE", "Fingerprints", "fingerprints_in", "percent_decoded"]

MOST_AT_ONCE = 2_000
"""Fingerprints taken of one text, at most."""

_SHORTEST, _SHORTEST_ASSIGNED, _LONGEST = 6, 4, 64
_LONGEST_PIECE = 512

_TOKEN = regex(r"[^\s\"'`<>()\[\]{}|\\,;:=/?&#]{6,256}")
_SECRET_NAME = regex(
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credential|(?:api|access|private)[_-]?key|\bpin\b",
    re.IGNORECASE,
)
_ASSIGNMENT = regex(r"[\w.-]*[\"']?[ \t]*[:=][ \t]*[\"']?([^\s\"',;()]{4,256})[\"',;]*[ \t]*$", re.MULTILINE)
_NOT_VALUES = frozenset({"none", "null", "true", "false", "string", "bytes", "bool", "float", "optional"})
_DIGIT = regex(r"\d")
_NOT_ALNUM = regex(r"[\W_]+")
_TURN = regex(r"[^\W\d_](?=\d)|\d(?=[^\W\d_])")
_BASE64 = regex(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = regex(r"(?:[0-9A-Fa-f]{2}){4,}")
_PERCENT = regex(rb"%([0-9A-Fa-f]{2})")


@dataclass(slots=True)
class _Log:
    """What several views share: where each fingerprint came in, and how long the values are."""

    places: dict[str, int] = field(default_factory=dict)
    lengths: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprints:
    """The first `_length` fingerprints of a log; two views are equal if they hold the same."""

    _log: _Log = field(default_factory=_Log)
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return islice(self._log.places, self._length)

    def __contains__(self, mark: object) -> bool:
        return isinstance(mark, str) and self._log.places.get(mark, self._length) < self._length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprints) and set(self) == set(other)

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def with_marks(self, marks: Iterable[str]) -> Fingerprints:
        """Return a view that holds these, too."""
        new = [mark for mark in marks if mark not in self]
        log = self._log
        if new and len(log.places) > self._length:
            # A longer view has grown from this one; what it holds must not be seen from here.
            log = _Log({mark: position for position, mark in enumerate(self)}, set(log.lengths))
        for mark in new:
            log.places.setdefault(mark, len(log.places))
            log.lengths.add(int(mark[:2], 16))
        return Fingerprints(log, len(log.places) if new else self._length)

    def carried_by(self, piece: str, key: str) -> bool:
        """Whether a piece of text holds such a value: as it is, spread out, reversed, in hex or base64.

        `key` is the one the fingerprints were taken with. What is longer than 512 characters is read
        as far as that; a caller treats it as suspect anyway.
        """
        lengths = sorted(self._log.lengths)
        for text in _readings(piece[:_LONGEST_PIECE]):
            for length in lengths:
                windows = (text[start : start + length] for start in range(len(text) - length + 1))
                if any(_mark(window, key) in self for window in windows):
                    return True
        return False


def fingerprints_in(text: str, key: str) -> tuple[str, ...]:
    """Return the fingerprints of the values in a text, each once, `MOST_AT_ONCE` at most."""
    return tuple(_mark(value, key) for value in islice(dict.fromkeys(_values(text)), MOST_AT_ONCE))


def percent_decoded(text: str) -> str:
    """Return a text with its percent escapes undone, once; what is no UTF-8 is replaced."""
    data = _PERCENT.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode("utf-8", "replace"))
    return data.decode(errors="replace")


def _values(text: str) -> Iterator[str]:
    for name in _SECRET_NAME.finditer(text):
        found = _ASSIGNMENT.match(text, name.end())
        value = _plain(found[1]) if found else ""
        if len(value) >= _SHORTEST_ASSIGNED and value not in _NOT_VALUES:
            yield value[:_LONGEST]
    for token in _TOKEN.finditer(text):
        if not token[0].isalpha() and _DIGIT.search(token[0]):
            value = _plain(token[0])
            if len(value) >= _SHORTEST and _is_value(value):
                yield value[:_LONGEST]
                yield value[-_LONGEST:]


def _is_value(value: str) -> bool:
    digits = sum(char.isdigit() for char in value)
    if digits == len(value):
        return digits > _SHORTEST
    turns = len(_TURN.findall(value))
    return turns > 1 or (turns == 1 and len(value) >= 8 and digits >= 3)


def _plain(text: str) -> str:
    return _NOT_ALNUM.sub("", text).casefold()


def _mark(value: str, key: str) -> str:
    """Return the length of a value and five bytes of its keyed hash, in hex."""
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=5, key=key.encode()[:64])
    return f"{len(value):02x}{digest.hexdigest()}"


def _readings(piece: str) -> Iterator[str]:
    text = percent_decoded(piece)
    plain = _plain(text)
    yield plain
    yield plain[::-1]
    for found in _HEX.finditer(text):
        yield _plain(bytes.fromhex(found[0]).decode(errors="ignore"))
    for found in _BASE64.finditer(text):
        encoded = found[0].rstrip("=").replace("-", "+").replace("_", "/")
        # One character too many belongs to no byte.
        whole = encoded[:-1] if len(encoded) % 4 == 1 else encoded
        yield _plain(base64.b64decode(whole + "=" * (-len(whole) % 4)).decode(errors="ignore"))
