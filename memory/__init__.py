"""What is kept, and how it gets there: audit, large outputs, conversations, in one SQLite file.

Read `audit.py` first. Nothing here decides anything; what may be kept was decided above.
"""

from __future__ import annotations

from .audit import AuditLogger, Record
from .database import Database
from .island import Island, IslandError
from .linear import BadPattern, escaped_pattern, linear_pattern
from .overflow import Hit, Hits, OverflowNotFound, OverflowStore, Page, StoredText
from .transcript import Conversation, Entry, Transcript

__all__ = [
    "AuditLogger",
    "BadPattern",
    "Conversation",
    "Database",
    "Entry",
    "Hit",
    "Hits",
    "Island",
    "IslandError",
    "OverflowNotFound",
    "OverflowStore",
    "Page",
    "Record",
    "StoredText",
    "Transcript",
    "escaped_pattern",
    "linear_pattern",
]
