"""Mask secrets in a tool result.

Secrets are recognised by `text/secrets.py` with the table `text/secrets.toml`.
"""

from __future__ import annotations

from ..text import Redactor
from .screened import Stepwise

__all__ = ["redact"]

redact: Stepwise = Stepwise(lambda source: Redactor(source.secrets))
"""The filter: `(Screened, Source) -> Screened`."""
