"""Filter that removes terminal escape sequences and reveals invisible characters in a tool result.

Both are found by `text/ansi.py` and `text/unicode.py`.
"""

from __future__ import annotations

from ..text import Stripper
from .screened import Stepwise

__all__ = ["strip"]

strip = Stepwise(lambda _source: Stripper())
"""The filter: `(Screened, Source) -> Screened`."""
