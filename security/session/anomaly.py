"""Count the failures of a tool and the denials of a session; the gates act on the counts.

What counts is in `state.py`; `record/journal.py` sets and records the block, `gates/anomaly.py` denies by it.
"""

from __future__ import annotations

from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ..lazy import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..policy import AnomalyLimits, BreakerLimits

__all__ = ["AnomalyDetector", "Breaker", "ToolOutcome"]


class ToolOutcome(NamedTuple):
    """One outcome of a tool. `outage` names the call whose failure this is where it may pass by itself."""

    succeeded: bool
    refused: bool = False
    outage: str = ""


@dataclass(frozen=True, slots=True)
class AnomalyDetector:
    """The recent outcomes of each tool, in a sliding window per tool. Immutable."""

    windows: Mapping[str, tuple[ToolOutcome, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def record(
        self,
        tool: str,
        succeeded: bool,
        limits: AnomalyLimits,
        *,
        refused: bool = False,
        call: str = "",
        may_pass: bool = False,
    ) -> AnomalyDetector:
        """Return a detector with one more outcome of a tool.

        `call` identifies a call by its tool and arguments. If such a call failed in a way that may pass, its
        next outcome replaces that failure, so that a call with retries counts once.
        """
        if not limits.enabled:
            return self
        earlier = [one for one in self.windows.get(tool, ()) if not call or one.outage != call]
        outcome = ToolOutcome(succeeded, refused, call if may_pass and not succeeded else "")
        window = (*earlier, outcome)[-limits.window_size :]
        return AnomalyDetector(MappingProxyType({**self.windows, tool: window}))

    def emptied(self, tool: str) -> AnomalyDetector:
        """Return a detector without the outcomes of one tool."""
        return AnomalyDetector(MappingProxyType({k: v for k, v in self.windows.items() if k != tool}))

    def failures(self, tool: str) -> tuple[int, int]:
        """Return the number of failures in a tool's window, and the number of outcomes."""
        window = self.windows.get(tool, ())
        return sum(not one.succeeded for one in window), len(window)

    def told(self, tool: str) -> str:
        """Return how many calls in the window of a tool failed, in words."""
        failed, seen = self.failures(tool)
        refused = any(one.refused for one in self.windows.get(tool, ()))
        return f"{failed} of {seen} failed{' or were refused' if refused else ''}"

    def is_tripped(self, tool: str, limits: AnomalyLimits) -> bool:
        """Whether a tool fails too often: at or above the threshold, with enough samples."""
        failed, seen = self.failures(tool)
        if not limits.enabled or seen < max(1, limits.min_samples):
            return False
        # A quotient is rounded as the threshold was; 0.55 * 20 would be more than 11.
        return failed / seen >= limits.failure_threshold


@dataclass(frozen=True, slots=True)
class Breaker:
    """Denials of a session: in a row, in all, and whether that was too many (it stays so until a yes)."""

    consecutive: int = 0
    total: int = 0
    tripped: bool = False

    def denied(self, limits: BreakerLimits) -> Breaker:
        """Return the breaker after one more denial."""
        consecutive, total = self.consecutive + 1, self.total + 1
        tripped = self.tripped or consecutive >= limits.consecutive or total >= limits.total
        return Breaker(consecutive, total, tripped)

    def relieved(self) -> Breaker:
        """Return the breaker after a call was allowed: no longer "in a row"."""
        return replace(self, consecutive=0) if self.consecutive else self

    def lifted(self) -> Breaker:
        """Return the breaker after a person's yes; once the total is used up, each denial trips it again."""
        return Breaker(total=self.total)
