"""The command whose changes a grant keeps; only grants about a trial run's changes have one."""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = ("ALTER TABLE lasting_grant ADD COLUMN command TEXT",)
