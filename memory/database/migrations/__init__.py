"""All migrations of the database file in order, one file each.

Entry n brings a file from version n to n + 1 and is never edited once it was released; a change of
the tables is one more file and one more entry.
"""

from __future__ import annotations

from .m001_first import STATEMENTS as FIRST
from .m002_conversations import STATEMENTS as CONVERSATIONS
from .m003_overflow import STATEMENTS as OVERFLOW
from .m004_chain import STATEMENTS as CHAIN
from .m005_views import STATEMENTS as VIEWS
from .m006_grants import STATEMENTS as GRANTS
from .m007_checkpoints import STATEMENTS as CHECKPOINTS
from .m008_grant_folders import STATEMENTS as GRANT_FOLDERS
from .m009_checkpoint_times import STATEMENTS as CHECKPOINT_TIMES
from .m010_grant_commands import STATEMENTS as GRANT_COMMANDS
from .m011_call_changes import STATEMENTS as CALL_CHANGES
from .m012_file_labels import STATEMENTS as FILE_LABELS
from .m013_grant_effects import STATEMENTS as GRANT_EFFECTS
from .m014_keyed_runs import STATEMENTS as KEYED_RUNS

__all__ = ["MIGRATIONS"]

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    FIRST,
    CHAIN,
    OVERFLOW,
    CONVERSATIONS,
    GRANTS,
    VIEWS,
    CHECKPOINTS,
    GRANT_FOLDERS,
    CHECKPOINT_TIMES,
    GRANT_COMMANDS,
    CALL_CHANGES,
    FILE_LABELS,
    GRANT_EFFECTS,
    KEYED_RUNS,
)
