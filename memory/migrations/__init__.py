"""How does an older file become a newer one? The whole history, in its order, one file each.

Entry n brings a file from version n to n + 1 and is never edited once it was released; a change of
the tables is one file and one entry more.
"""

from __future__ import annotations

from .first import STATEMENTS as FIRST

__all__ = ["MIGRATIONS"]

MIGRATIONS: tuple[tuple[str, ...], ...] = (FIRST,)
