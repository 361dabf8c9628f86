"""Sessions found, resumed and forked, and the one at work."""

from .background import job_lines, jobs_of, news_of
from .checkpointing import Foretelling, checkpoints_of
from .current import Alone, Current, Nobody, Relay
from .grants import grant_line, grant_lines, no_such_grant, revoke, revoked, take_in
from .store import (
    Kept,
    Left,
    configured,
    delete,
    expire,
    find,
    fork,
    lock,
    new_session_id,
    recorded,
    take_up,
    unknown_lines,
)
from .text import (
    conversation_json,
    entry_json,
    export_lines,
    found_json,
    found_line,
    last_lines,
    session_line,
    show_lines,
)

__all__ = [
    "Alone",
    "Current",
    "Foretelling",
    "Kept",
    "Left",
    "Nobody",
    "Relay",
    "checkpoints_of",
    "configured",
    "conversation_json",
    "delete",
    "entry_json",
    "expire",
    "export_lines",
    "find",
    "fork",
    "found_json",
    "found_line",
    "grant_line",
    "grant_lines",
    "job_lines",
    "jobs_of",
    "last_lines",
    "lock",
    "new_session_id",
    "news_of",
    "no_such_grant",
    "recorded",
    "revoke",
    "revoked",
    "session_line",
    "show_lines",
    "take_in",
    "take_up",
    "unknown_lines",
]
