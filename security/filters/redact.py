"""Which parts of a text are secrets that nobody but the person should see?

What is a secret stands in `secrets.py` and `secrets.toml`; here it becomes a filter.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..secrets import Redactor, redact_text
from .screened import Stepwise

__all__ = ["Redactor", "redact", "redact_text", "redact_with"]


def redact_with(known: Iterable[str]) -> Stepwise:
    """Return the filter that masks these values beside those the source names."""
    values = frozenset(known)
    return Stepwise(lambda source: Redactor(values | source.secrets))


redact = redact_with(())
"""The filter: `(Screened, Source) -> Screened`."""
