"""Conversations, and the locks that keep each to one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .catalog import Catalog, Conversation, SearchHit
    from .keyed import KeyedRun, KeyedRuns, StepRecord, key_digest, key_lock
    from .lock import LOCKS, SessionInUse, SessionLock
    from .transcript import Charge, Line, Recall, Transcript, TranscriptEntry

__all__ = [
    "LOCKS",
    "Catalog",
    "Charge",
    "Conversation",
    "KeyedRun",
    "KeyedRuns",
    "Line",
    "Recall",
    "SearchHit",
    "SessionInUse",
    "SessionLock",
    "StepRecord",
    "Transcript",
    "TranscriptEntry",
    "key_digest",
    "key_lock",
]

_HOMES = {
    "Catalog": ".catalog",
    "Charge": ".transcript",
    "Conversation": ".catalog",
    "KeyedRun": ".keyed",
    "KeyedRuns": ".keyed",
    "LOCKS": ".lock",
    "Line": ".transcript",
    "Recall": ".transcript",
    "SearchHit": ".catalog",
    "SessionInUse": ".lock",
    "SessionLock": ".lock",
    "StepRecord": ".keyed",
    "Transcript": ".transcript",
    "TranscriptEntry": ".transcript",
    "key_digest": ".keyed",
    "key_lock": ".keyed",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
