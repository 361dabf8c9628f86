"""The folder in which a command's grant holds; without one it is the workspace's root."""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = ("ALTER TABLE lasting_grant ADD COLUMN folder TEXT",)
