"""The system clock, used unless another clock is passed in."""

from __future__ import annotations

import time

__all__ = ["SystemClock"]


class SystemClock:
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()
