"""One SQLite file: connection, writer, migrations, backup."""

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
