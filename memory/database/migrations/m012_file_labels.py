"""Which files hold words of others or confidential ones, by path and by content; `memory/labels.py` reads it.

`path` is relative to the workspace, or one of the marks of `memory/changes.py`; below a folder it is about
all in it. `labels` are bits, `clean` is the SHA-256 of what a file held before.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    """
    CREATE TABLE file_label (
        workspace TEXT NOT NULL,
        path TEXT NOT NULL,
        labels INTEGER NOT NULL,
        source TEXT NOT NULL,
        clean TEXT,
        PRIMARY KEY (workspace, path)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE content_label (
        workspace TEXT NOT NULL,
        digest TEXT NOT NULL,
        labels INTEGER NOT NULL,
        source TEXT NOT NULL,
        PRIMARY KEY (workspace, digest)
    ) WITHOUT ROWID
    """,
)
