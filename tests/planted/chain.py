"""The obvious wrong ways to chain records and to look at the chain."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

from leeward.memory.database import RecordRow


def record_hash(prev: bytes, at: float, *texts: str | bytes | None) -> bytes:
    """Wrong: columns run together, and one that is not there is like an empty one."""
    joined = "".join(
        "" if text is None else text if isinstance(text, str) else text.decode() for text in texts
    )
    return hashlib.sha256(prev + f"{at}{joined}".encode()).digest()


def is_chained(rows: list[tuple[bytes, bytes]]) -> bool:
    """Wrong: looks only whether (prev, hash) of the rows fit each other, not whether they fit the
    contents.
    """
    return all(prev == own for (_, own), (prev, _) in zip(rows, rows[1:], strict=False))


def append(connection: sqlite3.Connection, drafts: Sequence[RecordRow]) -> None:
    """Wrong: takes the INSERT at its word; a trigger that ignores it, or deletes the row, is not noticed."""
    count, tip = connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").fetchone() or (
        0,
        bytes(32),
    )
    for draft in drafts:
        texts = (draft.session, draft.kind, draft.call, draft.tool, draft.body, draft.id)
        own = record_hash(tip, draft.at, *texts)
        if connection.execute(
            "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            (count + 1, draft.at, *texts, tip, own),
        ).rowcount:
            count, tip = count + 1, own
