"""Conversations, and the locks that keep each to one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "Catalog": ".catalog",
    "Charge": ".transcript",
    "Conversation": ".catalog",
    "LOCKS": ".lock",
    "Line": ".transcript",
    "Recall": ".transcript",
    "SearchHit": ".catalog",
    "SessionInUse": ".lock",
    "SessionLock": ".lock",
    "Transcript": ".transcript",
    "TranscriptEntry": ".transcript",
}

__getattr__ = lazy_names(__name__, _HOMES)
