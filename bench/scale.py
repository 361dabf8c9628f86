"""Scale a bench: by its command line, its default, or nearly nothing with `--smoke`.

`--smoke` shows within seconds that a bench works; its figures mean nothing then.
"""

from __future__ import annotations

import sys

__all__ = ["SMOKE", "scaled"]

SMOKE = "--smoke" in sys.argv[1:]
"""Whether it is only to be seen that the bench works."""


def scaled(usual: int, smoke: int, place: int | None = None) -> int:
    """Return a number of rounds, calls or bytes; `place` is where the command line may name it, from 0."""
    if SMOKE:
        return smoke
    words = sys.argv[1:]
    return int(words[place]) if place is not None and place < len(words) else usual
