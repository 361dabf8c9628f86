"""What is kept, and how it gets there: audit, large outputs, conversations, in one SQLite file.

Read `audit.py` first. Nothing here decides anything; what may be kept was decided above.
"""

from __future__ import annotations

from .audit import AuditLogger, Record, Unfinished
from .catalog import Catalog, Conversation, Found
from .checkpoints import CheckpointStore, Packed, Revision, Step, Version, packed_content
from .compact import Weighed, first_kept, oldest_first
from .database import Database
from .events import KINDS, body_of, event_of
from .grants import GrantStore, StoredGrant
from .hash_key import hash_key
from .heads import Fault, Head, Problem, Verified
from .island import Island, IslandError
from .kept import KEPT, SIDES
from .linear import BadPattern, PatternSet, escaped_pattern, linear_pattern
from .lines import Hit, LineQuery
from .notes import LONGEST_NOTE, MOST_NOTES, Note, NoteNotFound, NotesFull, NoteStore
from .overflow import MAX_TOTAL, Hits, OverflowNotFound, OverflowStore, Page, StoredText
from .records import DAMAGED
from .reports import AuditReports, RecordFilter
from .retention import Pruned
from .second_place import heads_in
from .session_lock import LOCKS, SessionInUse, SessionLock
from .standing import standing_grants
from .transcript import Charge, Entry, Line, Recall, Transcript
from .upkeep import KeptTexts, StorageStatus, TableSize, Upkeep

__all__ = [
    "DAMAGED",
    "KEPT",
    "KINDS",
    "LOCKS",
    "LONGEST_NOTE",
    "MAX_TOTAL",
    "MOST_NOTES",
    "SIDES",
    "AuditLogger",
    "AuditReports",
    "BadPattern",
    "Catalog",
    "Charge",
    "CheckpointStore",
    "Conversation",
    "Database",
    "Entry",
    "Fault",
    "Found",
    "GrantStore",
    "Head",
    "Hit",
    "Hits",
    "Island",
    "IslandError",
    "KeptTexts",
    "Line",
    "LineQuery",
    "Note",
    "NoteNotFound",
    "NoteStore",
    "NotesFull",
    "OverflowNotFound",
    "OverflowStore",
    "Packed",
    "Page",
    "PatternSet",
    "Problem",
    "Pruned",
    "Recall",
    "Record",
    "RecordFilter",
    "Revision",
    "SessionInUse",
    "SessionLock",
    "Step",
    "StorageStatus",
    "StoredGrant",
    "StoredText",
    "TableSize",
    "Transcript",
    "Unfinished",
    "Upkeep",
    "Verified",
    "Version",
    "Weighed",
    "body_of",
    "escaped_pattern",
    "event_of",
    "first_kept",
    "hash_key",
    "heads_in",
    "linear_pattern",
    "oldest_first",
    "packed_content",
    "standing_grants",
]
