"""Large outputs, stored whole and read by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .search import Hit, LineQuery
    from .store import MAX_TOTAL, Hits, OverflowNotFound, OverflowStore, Page

__all__ = ["MAX_TOTAL", "Hit", "Hits", "LineQuery", "OverflowNotFound", "OverflowStore", "Page"]

_HOMES = {
    "Hit": ".search",
    "Hits": ".store",
    "LineQuery": ".search",
    "MAX_TOTAL": ".store",
    "OverflowNotFound": ".store",
    "OverflowStore": ".store",
    "Page": ".store",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
