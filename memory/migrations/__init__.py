"""How does an older file become a newer one? The whole history, in its order, one file each.

Entry n brings a file from version n to n + 1 and is never edited once it was released; a change of
the tables is one file and one entry more.
"""

from __future__ import annotations

from .chain import STATEMENTS as CHAIN
from .checkpoints import STATEMENTS as CHECKPOINTS
from .conversations import STATEMENTS as CONVERSATIONS
from .first import STATEMENTS as FIRST
from .grant_folders import STATEMENTS as GRANT_FOLDERS
from .grants import STATEMENTS as GRANTS
from .overflow import STATEMENTS as OVERFLOW
from .views import STATEMENTS as VIEWS

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
)
