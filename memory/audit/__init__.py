"""The audit: chained, signed records that are written, read and verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "AuditLogger": ".logger",
    "DAMAGED": ".rows",
    "Head": ".heads",
    "KINDS": ".events",
    "Record": ".rows",
    "RecordFilter": ".reports",
    "Unfinished": ".unfinished",
    "Verified": ".heads",
    "body_of": ".events",
    "event_of": ".events",
    "hash_key": ".key_files",
    "heads_in": ".heads",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
