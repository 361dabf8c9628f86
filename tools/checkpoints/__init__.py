"""Undo of what calls changed in the workspace."""

from .checkpoints import Checkpoints, Conflict, NothingToUndo, Turned
from .snapshot import Limits

__all__ = ["Checkpoints", "Conflict", "Limits", "NothingToUndo", "Turned"]
