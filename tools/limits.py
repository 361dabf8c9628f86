"""How much of the machine may one program take? Limits every program is started with, and its niceness."""

from __future__ import annotations

import math
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["Limits"]

# Soft and hard. No core files, which would hold what a program had in memory; the rest is far above what
# builds and tests need, and far below what would take the machine down.
_VALUES = MappingProxyType(
    {
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (4096, 16_384),
        "RLIMIT_FSIZE": (16 << 30, 16 << 30),
        "RLIMIT_NPROC": (8192, 8192),
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What every program is held to; `values` are soft and hard limits by their names in `resource`."""

    niceness: int = 5
    values: Mapping[str, tuple[int, int]] = field(default_factory=lambda: _VALUES)

    def items(self) -> list[tuple[int, tuple[int, int]]]:
        """Return the limits this system knows, none above what this process has itself."""
        known = ((getattr(resource, name, None), both) for name, both in self.values.items())
        return [(which, _within(which, both)) for which, both in known if which is not None]


def _within(which: int, both: tuple[int, int]) -> tuple[int, int]:
    _, most = resource.getrlimit(which)
    highest = math.inf if most == resource.RLIM_INFINITY else most
    return int(min(both[0], highest)), int(min(both[1], highest))
