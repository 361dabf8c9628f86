"""Outputs stored compressed, written as they arrive, addressable by line and by character.

A text gets a number of its own before anybody knows its hash; until it is complete it has no `id`, so
nobody can read half of one. What was kept before is taken over unchanged, uncompressed.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    "ALTER TABLE overflow RENAME TO former_overflow",
    "ALTER TABLE overflow_chunk RENAME TO former_chunk",
    "ALTER TABLE overflow_link RENAME TO former_link",
    "DROP INDEX overflow_link_by_id",
    # `stored` is what the chunks take in bytes, `used_at` when the text was last put or read, `dropped`
    # that it is being taken away, a few chunks at a time.
    """
    CREATE TABLE overflow (
        ref INTEGER PRIMARY KEY,
        id TEXT UNIQUE,
        chars INTEGER NOT NULL DEFAULT 0,
        lines INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        stored INTEGER NOT NULL DEFAULT 0,
        stored_at REAL NOT NULL,
        used_at REAL NOT NULL,
        dropped INTEGER NOT NULL DEFAULT 0
    )
    """,
    # `newlines` is the number of line ends in the chunks before this one.
    """
    CREATE TABLE overflow_chunk (
        ref INTEGER NOT NULL REFERENCES overflow (ref),
        number INTEGER NOT NULL,
        newlines INTEGER NOT NULL,
        packed INTEGER NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (ref, number)
    )
    """,
    "CREATE INDEX overflow_chunk_by_line ON overflow_chunk (ref, newlines, number)",
    """
    CREATE TABLE overflow_link (
        session TEXT NOT NULL,
        ref INTEGER NOT NULL REFERENCES overflow (ref),
        stored_at REAL NOT NULL,
        origin TEXT NOT NULL,
        integrity INTEGER NOT NULL,
        PRIMARY KEY (session, ref)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX overflow_link_by_ref ON overflow_link (ref)",
    """
    INSERT INTO overflow (ref, id, chars, lines, bytes, stored, stored_at, used_at)
    SELECT rowid, id, chars, lines, bytes, bytes, stored_at, stored_at FROM former_overflow WHERE complete
    """,
    """
    INSERT INTO overflow_chunk (ref, number, newlines, packed, body)
    SELECT former.rowid, number, coalesce(
        sum(
            length(body) - length(CAST(replace(CAST(body AS TEXT), char(10), '') AS BLOB))
        ) OVER (PARTITION BY chunk.id ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        0
    ), 0, body
    FROM former_chunk AS chunk JOIN former_overflow AS former ON former.id = chunk.id AND former.complete
    """,
    """
    INSERT INTO overflow_link (session, ref, stored_at, origin, integrity)
    SELECT session, former.rowid, link.stored_at, origin, integrity
    FROM former_link AS link JOIN former_overflow AS former ON former.id = link.id AND former.complete
    """,
    "DROP TABLE former_link",
    "DROP TABLE former_chunk",
    "DROP TABLE former_overflow",
)
