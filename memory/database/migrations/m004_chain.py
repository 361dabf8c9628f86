"""The audit becomes a chain: every record carries its own hash and that of the record before it.

The existing records are chained as they are, and a record of kind `chain` behind them says
so: nothing vouches for what happened to them before.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

# `leeward_hash` is `chain.record_hash`, which `database/schema.py` makes known to SQLite for as long as this
# lasts.
STATEMENTS = (
    """
    CREATE TABLE chained (
        seq INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        session TEXT NOT NULL,
        kind TEXT NOT NULL,
        call TEXT,
        tool TEXT,
        body TEXT NOT NULL,
        id TEXT NOT NULL UNIQUE,
        prev BLOB NOT NULL CHECK (length(prev) = 32),
        hash BLOB NOT NULL CHECK (length(hash) = 32)
    )
    """,
    """
    INSERT INTO audit (at, session, kind, body, id)
    SELECT (julianday('now') - 2440587.5) * 86400, '', 'chain', json_object('records', count(*)),
        'chain' || lower(hex(randomblob(8)))
    FROM audit HAVING count(*) > 0
    """,
    """
    INSERT INTO chained
    WITH RECURSIVE chain (number, old, prev, hash) AS (
        SELECT 1, seq, zeroblob(32),
            leeward_hash(zeroblob(32), at, session, kind, call, tool, body, id)
        FROM audit WHERE seq = (SELECT min(seq) FROM audit)
        UNION ALL
        SELECT number + 1, seq, chain.hash,
            leeward_hash(chain.hash, at, session, kind, call, tool, body, id)
        FROM chain JOIN audit ON audit.seq = (SELECT min(seq) FROM audit WHERE seq > chain.old)
    )
    SELECT number, at, session, kind, call, tool, body, id, prev, hash
    FROM chain JOIN audit ON audit.seq = chain.old
    """,
    "DROP TABLE audit",
    "ALTER TABLE chained RENAME TO audit",
    "CREATE INDEX audit_by_session ON audit (session)",
    "CREATE INDEX audit_by_call ON audit (call) WHERE call IS NOT NULL",
    "CREATE INDEX audit_by_time ON audit (at)",
    # A list of one kind, for instance of all that went out, need not walk through all others.
    "CREATE INDEX audit_by_kind ON audit (kind)",
)
