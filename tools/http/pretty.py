"""How is a JSON document laid out so that it can be read? Token by token; no value is read and written anew.

Numbers keep their digits and strings their spelling, however a parser would have put them. What is
not JSON comes back as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

__all__ = ["pretty_json"]

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_EMPTY = {"{": "}", "[": "]"}
_DEEPEST = 24  # A document that nests deeper is not indented further, or its margins outgrow it.


def pretty_json(text: str) -> str:
    """Return a JSON text with one value per line, indented; any other text unchanged."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "".join(_laid_out(_TOKEN.findall(text)))


def _laid_out(tokens: list[str]) -> Iterator[str]:
    depth, before = 0, ""
    for piece in tokens:
        closes = piece in {"}", "]"}
        depth -= closes
        if before and (before in "{[," or closes) and _EMPTY.get(before) != piece:
            yield "\n" + "  " * min(depth, _DEEPEST)
        yield f"{piece} " if piece == ":" else piece
        depth += piece in _EMPTY
        before = piece
