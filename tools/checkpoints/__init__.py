"""Undo for what calls changed in the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

from .restore import PARTIAL, RestoreTarget, restore

if TYPE_CHECKING:
    from .checkpoints import BlockingStore, Checkpoints, Conflict, NothingToUndo, Turned
    from .record import ChangeRecord, is_changing
    from .snapshot import SnapshotLimits, Stamp, is_left_out, stamp_of

__all__ = [
    "PARTIAL",
    "BlockingStore",
    "ChangeRecord",
    "Checkpoints",
    "Conflict",
    "NothingToUndo",
    "RestoreTarget",
    "SnapshotLimits",
    "Stamp",
    "Turned",
    "is_changing",
    "is_left_out",
    "restore",
    "stamp_of",
]

_HOMES = {
    "BlockingStore": ".checkpoints",
    "ChangeRecord": ".record",
    "Checkpoints": ".checkpoints",
    "Conflict": ".checkpoints",
    "NothingToUndo": ".checkpoints",
    "SnapshotLimits": ".snapshot",
    "Stamp": ".snapshot",
    "Turned": ".checkpoints",
    "is_changing": ".record",
    "is_left_out": ".snapshot",
    "stamp_of": ".snapshot",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
