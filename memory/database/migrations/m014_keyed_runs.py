"""Runs that have a key, and what is on record of their steps; `memory/sessions/keyed.py` reads it.

`key` is a hash, `task` says by digests what was to be done. A row of `keyed_run` stays when its session is
deleted, so that no key is used twice; what came of its steps goes with the session.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    """
    CREATE TABLE keyed_run (
        key TEXT PRIMARY KEY,
        session TEXT NOT NULL UNIQUE,
        begun REAL NOT NULL,
        task TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE keyed_step (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL,
        step INTEGER NOT NULL,
        kind TEXT NOT NULL,
        content TEXT NOT NULL,
        at REAL NOT NULL
    )
    """,
    "CREATE INDEX keyed_step_by_session ON keyed_step (session, seq)",
)
