"""Undo of what calls changed in the workspace."""

from .checkpoints import BlockingStore, Checkpoints, Conflict, NothingToUndo, Turned
from .restore import PARTIAL, RestoreTarget, restore
from .snapshot import SnapshotLimits, Stamp, stamp_of

__all__ = [
    "PARTIAL",
    "BlockingStore",
    "Checkpoints",
    "Conflict",
    "NothingToUndo",
    "RestoreTarget",
    "SnapshotLimits",
    "Stamp",
    "Turned",
    "restore",
    "stamp_of",
]
