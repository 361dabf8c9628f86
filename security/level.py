"""How far the source of a tool or a text is trusted, and which of several levels holds."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["TrustLevel", "min_trust"]


class TrustLevel(IntEnum):
    """A severity: the higher the number, the less is allowed."""

    TRUSTED = 0
    VERIFIED = 1
    QUARANTINED = 2
    BLOCKED = 3


def min_trust(*levels: TrustLevel) -> TrustLevel:
    """Return the weakest trust among the levels; without any, nothing is known, so `BLOCKED`."""
    return max(levels, default=TrustLevel.BLOCKED)
