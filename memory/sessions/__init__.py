"""Conversations and the locks that keep them to one process."""

from .catalog import Catalog, Conversation, SearchHit
from .lock import LOCKS, SessionInUse, SessionLock
from .transcript import Charge, Line, Recall, Transcript, TranscriptEntry

__all__ = [
    "LOCKS",
    "Catalog",
    "Charge",
    "Conversation",
    "Line",
    "Recall",
    "SearchHit",
    "SessionInUse",
    "SessionLock",
    "Transcript",
    "TranscriptEntry",
]
