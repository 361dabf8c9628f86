"""Load the TOML tables beside this file, once."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["lines_of", "table"]


@lru_cache(maxsize=8)
def table(name: str) -> dict[str, Any]:
    """Return a TOML table of this folder by its file name."""
    return tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


@lru_cache(maxsize=8)
def lines_of(name: str) -> dict[str, Any]:
    """Return the lines of all groups of a table together."""
    return {key: line for group in table(name).values() for key, line in group.items()}
