"""Parse and judge shell command lines. Nothing is loaded before the first line there is to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .expand import parse_command
    from .judge import (
        ANYWHERE,
        Ruling,
        Say,
        assess,
        covers_words,
        effects_of,
        explain,
        hosts_of,
        is_shown_in_full,
        matches_words,
        reach_of,
        ruling_of,
        suggestion_for,
        surveyed,
        urls_by_proxy,
        wanted,
    )
    from .syntax import success_is_of_all

__all__ = [
    "ANYWHERE",
    "Ruling",
    "Say",
    "assess",
    "covers_words",
    "effects_of",
    "explain",
    "hosts_of",
    "is_shown_in_full",
    "matches_words",
    "parse_command",
    "reach_of",
    "ruling_of",
    "success_is_of_all",
    "suggestion_for",
    "surveyed",
    "urls_by_proxy",
    "wanted",
]

_HOMES = {
    "ANYWHERE": ".judge",
    "Ruling": ".judge",
    "Say": ".judge",
    "assess": ".judge",
    "covers_words": ".judge",
    "effects_of": ".judge",
    "explain": ".judge",
    "hosts_of": ".judge",
    "is_shown_in_full": ".judge",
    "matches_words": ".judge",
    "parse_command": ".expand",
    "reach_of": ".judge",
    "ruling_of": ".judge",
    "success_is_of_all": ".syntax",
    "suggestion_for": ".judge",
    "surveyed": ".judge",
    "urls_by_proxy": ".judge",
    "wanted": ".judge",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
