"""Views over the audit for other programs that read the file (`sqlite3`, datasette).

The columns are described in `docs/audit.md`. A view is only a query: nothing is stored twice.
"""

from __future__ import annotations

__all__ = ["CALLS", "DENIALS", "EGRESS", "STATEMENTS"]


def _columns(row: str, *names: str) -> str:
    """Return the columns that take fields of these names out of a row's body."""
    return ", ".join(f"json_extract({row}.body, '$.{name}') AS {name}" for name in names)


_TIME = "strftime('%Y-%m-%d %H:%M:%S', {}.at, 'unixepoch') AS time"

# An outcome may have been written twice where its writer could not be sure: the first one counts.
CALLS = f"""
    SELECT decided.seq, decided.at, {_TIME.format("decided")}, decided.session, decided.call, decided.tool,
        {_columns("decided", "asker", "model", "arguments", "allowed", "gate", "rule", "reason", "approver")},
        {_columns("decided", "waited", "trust", "labels")},
        {_columns("ended", "status", "category", "exit_code")},
        json_extract(ended.body, '$.size') AS bytes,
        {_columns("ended", "truncated", "overflow", "seconds")}
    FROM audit AS decided LEFT JOIN audit AS ended ON ended.seq = (
        SELECT min(seq) FROM audit
        WHERE call = decided.call AND session = decided.session AND kind = 'outcome'
    )
    WHERE decided.kind = 'decision' AND json_extract(decided.body, '$.hop') = 0
    """  # noqa: S608 - only names from here go in

DENIALS = f"""
    SELECT seq, at, {_TIME.format("audit")}, session, call, tool,
        {_columns("audit", "hop", "gate", "rule", "code", "reason", "approver", "asker", "arguments")}
    FROM audit WHERE kind = 'decision' AND json_extract(body, '$.allowed') = 0
    """  # noqa: S608 - the same

# A canonical URL has a path and no user, so the text in between is the host, and a port if it is odd.
EGRESS = f"""
    WITH attempt AS (
        SELECT seq, at, session, call, tool, body,
            json_extract(body, '$.hop') AS hop, json_extract(body, '$.url') AS url
        FROM audit WHERE kind = 'egress' AND json_extract(body, '$.ended') = 0
    )
    SELECT attempt.seq, attempt.at, {_TIME.format("attempt")}, attempt.session, attempt.call, attempt.tool,
        attempt.hop, attempt.url,
        substr(
            substr(attempt.url, instr(attempt.url, '://') + 3), 1,
            instr(substr(attempt.url, instr(attempt.url, '://') + 3) || '/', '/') - 1
        ) AS host,
        {_columns("attempt", "allowed", "gate", "rule")},
        {_columns("ended", "method", "address", "http_status", "sent", "received", "seconds", "problem")}
    FROM attempt LEFT JOIN audit AS ended ON ended.seq = (
        SELECT min(seq) FROM audit
        WHERE call = attempt.call AND session = attempt.session AND kind = 'egress'
            AND json_extract(body, '$.ended') = 1
            AND json_extract(body, '$.hop') = attempt.hop AND json_extract(body, '$.url') = attempt.url
    )
    """  # noqa: S608 - the same

STATEMENTS = (
    f"CREATE VIEW calls AS {CALLS}",
    f"CREATE VIEW denials AS {DENIALS}",
    f"CREATE VIEW egress AS {EGRESS}",
    """
    CREATE VIEW tools_by_failure AS
    SELECT tool, count(*) AS calls, sum(allowed) AS allowed, sum(NOT allowed) AS denied,
        count(*) FILTER (WHERE status IN ('error', 'timeout')) AS failed,
        count(*) FILTER (WHERE status = 'timeout') AS timeouts,
        round(100.0 * count(*) FILTER (WHERE status IN ('error', 'timeout')) / nullif(sum(allowed), 0), 1)
            AS failed_percent,
        round(avg(seconds), 3) AS mean_seconds
    FROM calls GROUP BY tool ORDER BY failed DESC, calls DESC, tool
    """,
)
