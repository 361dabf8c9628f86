"""Modification times (ns) of files that a trial run wrote or replaced.

`checkpoint.undone` knows one value more from here on: 3, while a step is being applied.
"""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = (
    "ALTER TABLE checkpoint_change ADD COLUMN was_mtime INTEGER",
    "ALTER TABLE checkpoint_change ADD COLUMN became_mtime INTEGER",
    "CREATE INDEX checkpoint_pending ON checkpoint (workspace) WHERE undone = 3",
)
