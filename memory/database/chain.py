"""Hash chain of the audit: each record holds the hash of the record before it.

A record's hash is taken over the previous record's hash and all of its own columns, and both hashes are
stored in its row. Linking happens under the write lock, so that all processes which have the file open
make one chain. `audit/verify.py` detects a broken chain, `audit/heads.py` describes the heads that sign
it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from leeward.security.lazy import dataclass

__all__ = ["GENESIS", "Body", "RecordRow", "append", "record_hash"]

GENESIS = bytes(32)
"""The value in place of a hash before the first record."""

# Nothing else that is hashed anywhere begins with these bytes, so no hash can mean two things.
_DOMAIN = b"leeward audit record 1\0"
_TIP = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
_IS_THERE = "SELECT 1 FROM audit WHERE id = ?"
_COUNT = "SELECT count(*) FROM audit WHERE seq > ? AND seq <= ?"
_INSERT = (
    "INSERT INTO audit (seq, at, session, kind, call, tool, body, id, prev, hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)

Body: TypeAlias = Callable[[int, str], str]
"""Makes a body that tells of the chain itself, from the number of records before it and the last hash."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record that has no place in the chain yet; `id` is a name that no process gives to another."""

    at: float
    session: str
    kind: str
    call: str | None
    tool: str | None
    body: str | Body
    id: str


def record_hash(prev: bytes, at: float, *texts: str | bytes | None) -> bytes:
    """Return the hash of a record: SHA-256 over domain, previous hash and columns in canonical bytes.

    `texts` are session, kind, call, tool, body and id, as UTF-8. Each column is a byte 1, its length in
    8 bytes, and its bytes; one that is NULL is a byte 0. The time is an IEEE double. All numbers have
    their greatest byte first.
    """
    # SQLite keeps a whole number in a REAL column as an integer, which has no negative zero.
    parts = [_DOMAIN, prev, struct.pack(">d", at + 0.0)]
    for text in texts:
        if text is None:
            parts.append(b"\0")
        else:
            value = text.encode() if isinstance(text, str) else text
            parts += (b"\1", len(value).to_bytes(8, "big"), value)
    return hashlib.sha256(b"".join(parts)).digest()


def append(connection: sqlite3.Connection, drafts: Sequence[RecordRow]) -> None:
    """Add records to the end of the chain; one that is in it already is not added again.

    To be called inside of a transaction that has the write lock: nobody else may add one meanwhile.
    What somebody put into the schema may swallow a record without a word, so it is looked for.

    Raises:
        sqlite3.Error: they could not be added, or are not there afterwards.
    """
    before, tip = connection.execute(_TIP).fetchone() or (0, GENESIS)
    if not isinstance(tip, bytes) or len(tip) != len(GENESIS):
        raise sqlite3.IntegrityError(f"record {before} of the audit carries no hash: it was tampered with")
    count = before
    for draft in drafts:
        body = draft.body if isinstance(draft.body, str) else draft.body(count, tip.hex())
        texts = (draft.session, draft.kind, draft.call, draft.tool, body, draft.id)
        own = record_hash(tip, draft.at, *texts)
        if connection.execute(_INSERT, (count + 1, draft.at, *texts, tip, own)).rowcount:
            count, tip = count + 1, own
        elif connection.execute(_IS_THERE, (draft.id,)).fetchone() is None:
            raise sqlite3.IntegrityError("the audit took a record and does not hold it: it was tampered with")
    if connection.execute(_COUNT, (before, count)).fetchone() != (count - before,):
        raise sqlite3.IntegrityError("the audit lost records as it took them: it was tampered with")
