"""Find paths and lines: the tools find_path and grep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .gitignore import Ignored, IgnoredFolders
    from .tools import Search
    from .walk import SKIPPED_FOLDERS

__all__ = ["SKIPPED_FOLDERS", "Ignored", "IgnoredFolders", "Search"]

_HOMES = {
    "Ignored": ".gitignore",
    "IgnoredFolders": ".gitignore",
    "SKIPPED_FOLDERS": ".walk",
    "Search": ".tools",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
