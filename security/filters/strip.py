"""What in a text speaks to a terminal, or hides from a reader, instead of saying something?

How it is found stands in `text/ansi.py` and `text/unicode.py`; here it becomes a filter.
"""

from __future__ import annotations

from ..text import Stripper
from .screened import Stepwise

__all__ = ["strip"]

strip = Stepwise(lambda _source: Stripper())
"""The filter: `(Screened, Source) -> Screened`."""
