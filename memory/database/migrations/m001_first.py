"""The tables of the first version: audit, overflow, conversations."""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    """
    CREATE TABLE audit (
        seq INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        session TEXT NOT NULL,
        kind TEXT NOT NULL,
        call TEXT,
        tool TEXT,
        body TEXT NOT NULL,
        id TEXT NOT NULL UNIQUE
    )
    """,
    "CREATE INDEX audit_by_session ON audit (session)",
    "CREATE INDEX audit_by_call ON audit (call) WHERE call IS NOT NULL",
    "CREATE INDEX audit_by_time ON audit (at)",
    """
    CREATE TABLE overflow (
        id TEXT PRIMARY KEY,
        chars INTEGER NOT NULL,
        lines INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        stored_at REAL NOT NULL,
        complete INTEGER NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE overflow_chunk (
        id TEXT NOT NULL REFERENCES overflow (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (id, number)
    )
    """,
    """
    CREATE TABLE overflow_link (
        session TEXT NOT NULL,
        id TEXT NOT NULL REFERENCES overflow (id) ON DELETE CASCADE,
        stored_at REAL NOT NULL,
        origin TEXT NOT NULL,
        integrity INTEGER NOT NULL,
        PRIMARY KEY (session, id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX overflow_link_by_id ON overflow_link (id)",
    """
    CREATE TABLE conversation (
        id TEXT PRIMARY KEY,
        started REAL NOT NULL,
        workspace TEXT NOT NULL,
        title TEXT NOT NULL DEFAULT ''
    )
    """,
    "CREATE INDEX conversation_by_start ON conversation (started)",
    """
    CREATE TABLE entry (
        seq INTEGER PRIMARY KEY,
        session TEXT NOT NULL REFERENCES conversation (id),
        turn INTEGER NOT NULL,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        origin TEXT NOT NULL,
        at REAL NOT NULL
    )
    """,
    "CREATE INDEX entry_by_session ON entry (session)",
)
