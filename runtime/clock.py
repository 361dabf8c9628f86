"""What time is it? Where nothing else is handed in, what the system says."""

from __future__ import annotations

import time

__all__ = ["SystemClock"]


class SystemClock:
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()
