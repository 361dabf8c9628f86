"""Large outputs, stored whole and read by id."""

from .search import Hit, LineQuery
from .store import MAX_TOTAL, Hits, OverflowNotFound, OverflowStore, Page

__all__ = ["MAX_TOTAL", "Hit", "Hits", "LineQuery", "OverflowNotFound", "OverflowStore", "Page"]
