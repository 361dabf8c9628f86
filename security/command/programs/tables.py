"""Load the TOML tables beside this file, once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["groups_of", "lines_of", "table"]


@lru_cache(maxsize=8)
def table(name: str) -> dict[str, Any]:
    """Return a TOML table of this folder by its file name."""
    return tomllib.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


@lru_cache(maxsize=8)
def lines_of(name: str) -> dict[str, Any]:
    """Return the lines of all groups of a table together."""
    return {key: line for group in table(name).values() for key, line in group.items()}


def groups_of(groups: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each program of some groups of a table, with what its group says of it."""
    for group in groups:
        fields = {key: value for key, value in group.items() if key != "programs"}
        yield from ((program, fields) for program in group["programs"].split())
