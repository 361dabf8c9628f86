"""In which form do texts and values go into the file, so that every one of them can?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from leeward.security.kinds import Json
from leeward.security.ports import RecordError
from leeward.security.session import Part, Reading, Said

from .encoding import evidence_json

__all__ = ["parsed", "storable", "stored_json"]


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
    if isinstance(value, (Said, Part, Reading)):
        return evidence_json(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


# Made once: a new one for each record takes longer than what it does.
_DECODE = json.JSONDecoder().raw_decode
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def storable(text: str) -> str:
    r"""Return a text as SQLite can hold it: lone surrogates, which UTF-8 lacks, spelled out (`\ud800`)."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
