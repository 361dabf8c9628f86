"""Grants that outlive a session, and notes for later sessions."""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    """
    CREATE TABLE lasting_grant (
        id TEXT PRIMARY KEY,
        tool TEXT NOT NULL,
        pattern TEXT,
        scope TEXT NOT NULL,
        workspace TEXT,
        granted_at REAL NOT NULL,
        expires_at REAL,
        session TEXT NOT NULL,
        call TEXT,
        last_used REAL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE note (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace TEXT,
        session TEXT NOT NULL,
        saved_at REAL NOT NULL,
        origin TEXT NOT NULL,
        integrity INTEGER NOT NULL
    )
    """,
    "CREATE INDEX note_by_workspace ON note (workspace, saved_at)",
    # The one place of the text itself, under the `seq` of its note.
    "CREATE VIRTUAL TABLE note_text USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2')",
)
