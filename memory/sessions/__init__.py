"""Conversations and the locks that keep them to one process."""

from .catalog import Catalog, Conversation, Found
from .lock import LOCKS, SessionInUse, SessionLock
from .transcript import Charge, Entry, Line, Recall, Transcript

__all__ = [
    "LOCKS",
    "Catalog",
    "Charge",
    "Conversation",
    "Entry",
    "Found",
    "Line",
    "Recall",
    "SessionInUse",
    "SessionLock",
    "Transcript",
]
