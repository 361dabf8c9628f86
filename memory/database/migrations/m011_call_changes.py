"""Where model calls changed a workspace, and the contents of files that a grant is bound to.

`path` is relative to the workspace; "" is anything in it, "/" whatever checkpoints leave out. A row with a
session is of a call that may still change anything. Grants of earlier releases are bound to no file.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    """
    CREATE TABLE call_change (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        workspace TEXT NOT NULL,
        path TEXT NOT NULL,
        session TEXT,
        call TEXT
    )
    """,
    "CREATE UNIQUE INDEX call_change_by_path ON call_change (workspace, path) WHERE session IS NULL",
    "CREATE INDEX call_change_by_session ON call_change (session, call) WHERE session IS NOT NULL",
    "ALTER TABLE lasting_grant ADD COLUMN files TEXT",
    "ALTER TABLE lasting_grant ADD COLUMN mark INTEGER NOT NULL DEFAULT 0",
)
