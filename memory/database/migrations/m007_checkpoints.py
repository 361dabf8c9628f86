"""Changes that calls made in workspaces, and file contents before and after, each stored once.

Paths and targets of links are bytes, as the disk has them. A content without all its chunks is not
`complete`, and nobody counts on it.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    """
    CREATE TABLE content (
        hash TEXT PRIMARY KEY,
        size INTEGER NOT NULL,
        stored INTEGER NOT NULL DEFAULT 0,
        complete INTEGER NOT NULL DEFAULT 0,
        used_at REAL NOT NULL
    )
    """,
    """
    CREATE TABLE content_chunk (
        hash TEXT NOT NULL REFERENCES content (hash),
        number INTEGER NOT NULL,
        packed INTEGER NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (hash, number)
    )
    """,
    # `undone` is 2 until all that the call changed is stored; `mark` finds the row that was just added.
    """
    CREATE TABLE checkpoint (
        id INTEGER PRIMARY KEY,
        session TEXT NOT NULL,
        workspace TEXT NOT NULL,
        call TEXT NOT NULL,
        tool TEXT NOT NULL,
        at REAL NOT NULL,
        undone INTEGER NOT NULL,
        mark TEXT NOT NULL UNIQUE
    )
    """,
    "CREATE INDEX checkpoint_by_session ON checkpoint (session, id)",
    # The state of a path before and after; nothing at all is a NULL in `was` and `became`.
    """
    CREATE TABLE checkpoint_change (
        checkpoint INTEGER NOT NULL REFERENCES checkpoint (id),
        path BLOB NOT NULL,
        was TEXT, was_mode INTEGER, was_size INTEGER, was_hash TEXT, was_target BLOB,
        became TEXT, became_mode INTEGER, became_size INTEGER, became_hash TEXT, became_target BLOB,
        PRIMARY KEY (checkpoint, path)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX checkpoint_by_was ON checkpoint_change (was_hash) WHERE was_hash IS NOT NULL",
    "CREATE INDEX checkpoint_by_became ON checkpoint_change (became_hash) WHERE became_hash IS NOT NULL",
)
