"""Values, texts and chunks in the form in which SQLite stores them.

A value of a record is written as JSON without the fields that have their default. A chunk holds a fixed
number of characters, so the one that holds a given character is known without looking, and is compressed on
its own, unless that would make it longer.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from leeward.security.kinds import Json
from leeward.security.ports import RecordError
from leeward.security.session import ActionRecord, AtomRecord, GateVerdict

__all__ = [
    "CHUNK",
    "Chunk",
    "evidence_json",
    "packed",
    "parsed",
    "reading_of",
    "said_of",
    "storable",
    "stored_json",
    "unpacked",
]


CHUNK = 65_536
"""Characters in every chunk of a text but its last."""

# Measured on logs, sources and noise: level 1 stores 5 to 25 % more, level 6 takes two to four times
# as long for 2 to 10 % less. bz2 stores a quarter less of a log and is six times slower.
_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text and the number of line ends before it."""

    newlines: int
    text: str


def packed(body: bytes) -> tuple[int, bytes]:
    """Return what is stored of some bytes, and 1 where that is compressed, else 0."""
    compressed = zlib.compress(body, _LEVEL)
    return (1, compressed) if len(compressed) < len(body) else (0, body)


def unpacked(is_packed: int, body: bytes, newlines: int) -> Chunk:
    """Return the part that was stored."""
    # A text may hold lone surrogates, which must come back as they were.
    plain = zlib.decompress(body) if is_packed else body
    return Chunk(newlines, plain.decode("utf-8", "surrogatepass"))


def evidence_json(value: GateVerdict | AtomRecord | ActionRecord) -> dict[str, Json]:
    """Return a value as a JSON object, without what is as it is by default."""
    found = ((name, getattr(value, name), default) for name, default in _DEFAULTS[type(value)])
    return {name: said for name, said, default in found if default is MISSING or said != default}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


_DEFAULTS: Mapping[type[Any], tuple[tuple[str, Any], ...]] = {
    kind: tuple((field.name, _default(field)) for field in fields(kind))
    for kind in (GateVerdict, AtomRecord, ActionRecord)
}


def said_of(said: Mapping[str, Any] | list[Any]) -> GateVerdict:
    """Return what a gate said; an older record has gate, word and rule only, as a list."""
    if isinstance(said, list):
        return GateVerdict(*said)
    return GateVerdict(**{**said, "facts": _pairs(said.get("facts", ()))})


def reading_of(said: Mapping[str, Any] | None) -> ActionRecord | None:
    """Return what a call was read as; an older record does not say."""
    if said is None:
        return None
    declared = said.get("declared")
    return ActionRecord(
        **{
            **said,
            "effects": tuple(said.get("effects", ())),
            "declared": None if declared is None else tuple(declared),
            "parts": tuple(AtomRecord(**part) for part in said.get("parts", ())),
            "problems": _pairs(said.get("problems", ())),
            "hidden": tuple(said.get("hidden", ())),
        }
    )


def _pairs(rows: Any) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row) for row in rows)


def stored_json(value: Json) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks, ASCII.

    Raises:
        RecordError: it holds what JSON cannot say: an infinite number, or something that is no value.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"the record cannot be written as JSON: {error}") from error


def parsed(text: str) -> Any:
    """Return the value of a text that `stored_json` wrote.

    Raises:
        ValueError: it is none.
    """
    try:
        value, end = _DECODE(text)
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error
    if end != len(text):
        raise ValueError(f"more than one value stands in {text[:80]!r}")
    return value


def _plain(value: object) -> dict[str, Json]:
    """Return a frozen table, or a value within a decision, as JSON can be told of it."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (GateVerdict, AtomRecord, ActionRecord)):
        return evidence_json(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


# Made once: a new one for each record takes longer than what it does.
_DECODE = json.JSONDecoder().raw_decode
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def storable(text: str) -> str:
    r"""Return a text as SQLite can hold it: lone surrogates, which UTF-8 lacks, spelled out (`\ud800`)."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
