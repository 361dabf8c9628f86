"""Chained and signed records: written, read and verified."""

from .events import KINDS, body_of, event_of
from .heads import Head, Verified, heads_in
from .key_files import hash_key
from .logger import AuditLogger
from .reports import RecordFilter
from .rows import DAMAGED, Record
from .unfinished import Unfinished

__all__ = [
    "DAMAGED",
    "KINDS",
    "AuditLogger",
    "Head",
    "Record",
    "RecordFilter",
    "Unfinished",
    "Verified",
    "body_of",
    "event_of",
    "hash_key",
    "heads_in",
]
