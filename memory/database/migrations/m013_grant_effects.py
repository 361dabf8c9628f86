"""What a trusted value is trusted for; "" is anything, as in grants of earlier releases."""

from __future__ import annotations

__all__ = ["STATEMENTS"]

STATEMENTS = ("ALTER TABLE lasting_grant ADD COLUMN effect TEXT NOT NULL DEFAULT ''",)
