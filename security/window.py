"""When has a tool failed, or a session been refused, too often? Pure counting, no action.

What follows from it is done elsewhere: `book.py` sets and records the block, `gates/anomaly.py` says it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .policy import AnomalyLimits, BreakerLimits

__all__ = ["AnomalyDetector", "Breaker"]


@dataclass(frozen=True, slots=True)
class AnomalyDetector:
    """One sliding window of successes (True) and failures (False) for each tool."""

    windows: Mapping[str, tuple[bool, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def record(self, tool: str, succeeded: bool, limits: AnomalyLimits) -> AnomalyDetector:
        """Return the detector with one more outcome of a tool, the oldest beyond the window dropped."""
        if not limits.enabled:
            return self
        window = (*self.windows.get(tool, ()), succeeded)[-limits.window_size :]
        return AnomalyDetector(MappingProxyType({**self.windows, tool: window}))

    def emptied(self, tool: str) -> AnomalyDetector:
        """Return the detector without the past of one tool."""
        return AnomalyDetector(MappingProxyType({k: v for k, v in self.windows.items() if k != tool}))

    def failures(self, tool: str) -> tuple[int, int]:
        """Return how many of the outcomes in a tool's window are failures, and how many there are."""
        window = self.windows.get(tool, ())
        return window.count(False), len(window)

    def is_tripped(self, tool: str, limits: AnomalyLimits) -> bool:
        """Whether a tool failed at or above the threshold, once there are enough samples to say so."""
        failed, seen = self.failures(tool)
        if not limits.enabled or seen < max(1, limits.min_samples):
            return False
        # A quotient is rounded as the threshold was; 0.55 * 20 would be more than 11.
        return failed / seen >= limits.failure_threshold


@dataclass(frozen=True, slots=True)
class Breaker:
    """Denials of a session: in a row, in all, and whether that was too many (it stays so until reset)."""

    consecutive: int = 0
    total: int = 0
    tripped: bool = False

    def denied(self, limits: BreakerLimits) -> Breaker:
        """Return the breaker after one more denial."""
        consecutive, total = self.consecutive + 1, self.total + 1
        tripped = self.tripped or consecutive >= limits.consecutive or total >= limits.total
        return Breaker(consecutive, total, tripped)

    def relieved(self) -> Breaker:
        """Return the breaker after a call ran or a person said yes: no longer "in a row"."""
        return replace(self, consecutive=0) if self.consecutive else self
