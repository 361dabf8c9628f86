"""Find calls without a known outcome: those of sessions whose process was killed.

An open session is locked (`sessions/lock.py`), and one that ended properly has no lock file. So a lock
file that nobody holds belongs to a session that could not finish: its calls that were allowed and have
no outcome on record may have done anything, or nothing. A call that started a background command is
finished only when that command has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from leeward.security.lazy import dataclass

from ..sessions import LOCKS, SessionInUse, SessionLock

__all__ = ["UNFINISHED", "Unfinished", "abandoned"]

# Where a row is no JSON any more, this is not the place to tell of it. The plus keeps SQLite from walking
# through the decisions of all sessions; what a decision says is only read where no end of it is found.
UNFINISHED = """
WITH endless AS MATERIALIZED (
    SELECT seq, session, call, tool, at, body FROM audit AS decided
    WHERE session = ? AND +kind = 'decision' AND NOT EXISTS (
        SELECT 1 FROM audit AS ended
        WHERE ended.call = decided.call AND ended.session = decided.session
            AND ended.kind IN ('outcome', 'job') AND ended.seq > decided.seq
            AND CASE WHEN json_valid(ended.body)
                THEN json_extract(ended.body, iif(ended.kind = 'job', '$.state', '$.status'))
                    NOT IN ('running', 'started') ELSE TRUE END
    )
    ORDER BY seq
)
SELECT session, call, tool, at, json_extract(body, '$.digest'), json_extract(body, '$.arguments')
FROM endless
WHERE CASE WHEN json_valid(body)
    THEN json_extract(body, '$.allowed') AND NOT coalesce(json_extract(body, '$.hop'), 0) END
"""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A call that was allowed at `at`, and has no outcome on record.

    `digest` and `arguments` (redacted JSON) are those of its decision.
    """

    session: str
    call: str
    tool: str
    at: float
    digest: str
    arguments: str


def abandoned(database: Path) -> Iterator[tuple[str, SessionLock]]:
    """Yield the sessions whose process was killed, each with its lock, so that only one settles them.

    What is no file is no lock of ours, and keeps nobody from starting.

    Raises:
        RecordError: a lock cannot be made.
    """
    folder = database.with_name(database.name + LOCKS)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            with suppress(SessionInUse):
                yield path.name, SessionLock.take(database, path.name)
