"""Which text stands in everything that an expression matches? Looking for that first spares most of the work.

A quick look that is wrong in one direction only: where it is not certain, there is none.
"""

from __future__ import annotations

import re

__all__ = ["literal_in"]

# One piece of an expression and what it is repeated by; whatever else there is ends the look.
_PIECE = re.compile(
    r"(?P<literal>[A-Za-z0-9_ \"'#%&,/:;<=>@`~!-])"
    r"|\\(?P<escaped>[^A-Za-z0-9\s])"
    r"|(?P<other>\\[AbBdDsSwWz]|\.|\^|\$|\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\\[])*\])"
)
_REPEATED = re.compile(r"(?:[*+?]|\{\d{1,4}(?:,\d{0,4})?\})\??")


def literal_in(pattern: str) -> bytes:
    """Return a text that every match of an RE2 expression holds, the longest that is seen, or nothing."""
    runs: list[str] = []
    run, at = "", 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            # A group, an alternative, a flag: what is said so far need not hold.
            return b""
        at = piece.end()
        repeated = _REPEATED.match(pattern, at)
        at = repeated.end() if repeated else at
        char = piece["literal"] or piece["escaped"] or ""
        if char and not repeated:
            run += char
            continue
        runs.append(run + char if char and repeated and repeated[0][0] == "+" else run)
        run = ""
    return max((*runs, run), key=len).encode()
