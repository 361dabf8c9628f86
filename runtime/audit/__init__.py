"""`leeward audit`, `/audit` and `/why`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .query import explanation_of, records_of
    from .text import record_lines, record_text

__all__ = ["explanation_of", "record_lines", "record_text", "records_of"]

_HOMES = {
    "explanation_of": ".query",
    "record_lines": ".text",
    "record_text": ".text",
    "records_of": ".query",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
