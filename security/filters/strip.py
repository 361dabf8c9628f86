"""Remove terminal escape sequences from a tool result and make invisible characters visible.

Both are found by `text/ansi.py` and `text/unicode.py`.
"""

from __future__ import annotations

from ..text import Stripper
from .screened import Stepwise

__all__ = ["strip"]

strip: Stepwise = Stepwise(lambda _source: Stripper())
"""The filter: `(Screened, Source) -> Screened`."""
