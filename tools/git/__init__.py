"""Describe a trial run's changes to git repositories in git's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .changes import GitChanges, GitLimits, git_changes_of
    from .history import Histories

__all__ = ["GitChanges", "GitLimits", "Histories", "git_changes_of"]

_HOMES = {
    "GitChanges": ".changes",
    "GitLimits": ".changes",
    "Histories": ".history",
    "git_changes_of": ".changes",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
