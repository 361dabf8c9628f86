"""Undo of what calls changed in the workspace."""

from .checkpoints import Checkpoints, Conflict, NothingToUndo, Turned
from .snapshot import SnapshotLimits

__all__ = ["Checkpoints", "Conflict", "NothingToUndo", "SnapshotLimits", "Turned"]
