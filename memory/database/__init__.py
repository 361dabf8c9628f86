"""One SQLite file: connection, writer, migrations, backup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .asyncio_thread import AsyncioThread
    from .backup import BACKUP_SUFFIX, SIDES, shared_lock
    from .chain import GENESIS, Body, RecordRow, record_hash
    from .connection import FAILURES, Statement, Value, is_damage, reason
    from .database import Database
    from .encoding import CHUNK, Chunk, packed, parsed, storable, stored_json, unpacked
    from .maintenance import StorageStatus, TableSize, Upkeep
    from .schema import AROUND_AUDIT, ForeignFile, audit_schema, check_owner
    from .writer import Row, Write

__all__ = [
    "AROUND_AUDIT",
    "BACKUP_SUFFIX",
    "CHUNK",
    "FAILURES",
    "GENESIS",
    "SIDES",
    "AsyncioThread",
    "Body",
    "Chunk",
    "Database",
    "ForeignFile",
    "RecordRow",
    "Row",
    "Statement",
    "StorageStatus",
    "TableSize",
    "Upkeep",
    "Value",
    "Write",
    "audit_schema",
    "check_owner",
    "is_damage",
    "packed",
    "parsed",
    "reason",
    "record_hash",
    "shared_lock",
    "storable",
    "stored_json",
    "unpacked",
]

_HOMES = {
    "AROUND_AUDIT": ".schema",
    "AsyncioThread": ".asyncio_thread",
    "BACKUP_SUFFIX": ".backup",
    "Body": ".chain",
    "CHUNK": ".encoding",
    "Chunk": ".encoding",
    "Database": ".database",
    "FAILURES": ".connection",
    "ForeignFile": ".schema",
    "GENESIS": ".chain",
    "RecordRow": ".chain",
    "Row": ".writer",
    "SIDES": ".backup",
    "Statement": ".connection",
    "StorageStatus": ".maintenance",
    "TableSize": ".maintenance",
    "Upkeep": ".maintenance",
    "Value": ".connection",
    "Write": ".writer",
    "audit_schema": ".schema",
    "check_owner": ".schema",
    "is_damage": ".connection",
    "packed": ".encoding",
    "parsed": ".encoding",
    "reason": ".connection",
    "record_hash": ".chain",
    "shared_lock": ".backup",
    "storable": ".encoding",
    "stored_json": ".encoding",
    "unpacked": ".encoding",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
