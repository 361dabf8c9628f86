"""Conversations that can be resumed: ordered entries, their cost, and a word index.

The index of words holds no text of its own: its text is in the entries, and leaves it with
them. `sessions/transcript.py` gives and takes, for no trigger may touch such a table in a file that is not
trusted.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    "ALTER TABLE conversation ADD COLUMN used REAL NOT NULL DEFAULT 0",
    "ALTER TABLE conversation ADD COLUMN turns INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE conversation ADD COLUMN forked_from TEXT",
    "ALTER TABLE conversation ADD COLUMN forked_turn INTEGER",
    "ALTER TABLE conversation ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE entry ADD COLUMN place INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE entry ADD COLUMN model TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE entry ADD COLUMN input_tokens INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE entry ADD COLUMN output_tokens INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE entry ADD COLUMN cache_read_tokens INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE entry ADD COLUMN cost REAL",
    "ALTER TABLE entry ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0",
    # What was written in one order before there were places stays in it.
    "UPDATE entry SET place = seq",
    """
    UPDATE conversation SET
        used = max(started, coalesce((SELECT max(at) FROM entry WHERE session = conversation.id), 0)),
        turns = coalesce((SELECT max(turn) FROM entry WHERE session = conversation.id), 0)
    """,
    "DROP INDEX entry_by_session",
    "CREATE UNIQUE INDEX entry_by_place ON entry (session, place)",
    "CREATE INDEX entry_by_role ON entry (session, role, place)",
    # Only these are listed: a session without a message cannot be resumed.
    "CREATE INDEX conversation_by_use ON conversation (used) WHERE turns > 0 AND deleted = 0",
    "CREATE INDEX conversation_by_place ON conversation (workspace, used) WHERE turns > 0 AND deleted = 0",
    "CREATE INDEX conversation_to_prune ON conversation (used)",
    "CREATE INDEX conversation_half_gone ON conversation (id) WHERE deleted = 1",
    "DROP INDEX conversation_by_start",
    """
    CREATE VIRTUAL TABLE entry_words USING fts5(
        words, content = '', tokenize = 'unicode61 remove_diacritics 2'
    )
    """,
    """
    INSERT INTO entry_words (rowid, words)
    SELECT seq, coalesce(json_extract(content, '$.text'), '')
        || char(10) || coalesce(json_extract(content, '$.attached'), '')
    FROM entry WHERE json_type(content) = 'object'
    """,
)
