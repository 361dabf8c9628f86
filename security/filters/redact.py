"""Which parts of a text are secrets that nobody but the person should see?

What is a secret stands in `text/secrets.py` and `secrets.toml`; here it becomes a filter.
"""

from __future__ import annotations

from ..text import Redactor
from .screened import Stepwise

__all__ = ["redact"]

redact = Stepwise(lambda source: Redactor(source.secrets))
"""The filter: `(Screened, Source) -> Screened`."""
