"""What was worked out of a line is kept with it, for whoever needs it next.

One line is asked about several times on its way: what to look up for it, what it can do, whether it may
run, what would pass instead. Each time the same is found, so it is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, TypeVar, TypeVarTuple

__all__ = ["Once"]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class Once:
    """Keeps the last that each function made, as long as it is given the very same things.

    They must be frozen, and the function a pure one: then nobody can tell that it was not called again.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[object, tuple[tuple[object, ...], Any]] = {}

    def of(self, work: Callable[[*_Ts], _T], *given: *_Ts) -> _T:
        """Return `work(*given)`."""
        kept = self._kept.get(work)
        if kept is None or not all(map(is_, kept[0], given)):
            kept = self._kept[work] = (given, work(*given))
        found: _T = kept[1]
        return found
