"""Wires everything together: turns, models, interfaces. Start with `composition.py`.

The names below are loaded when they are first used: `--help` does without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .app import Runtime
    from .config import Config, ConfigError, Loaded, Locations, find_places, load
    from .events import Alert, CallEnded, CallStarted, EndReason, LiveOutput, RunEvent, Text, TurnEnded
    from .exits import CliError, Exit

__all__ = [
    "Alert",
    "CallEnded",
    "CallStarted",
    "CliError",
    "Config",
    "ConfigError",
    "EndReason",
    "Exit",
    "LiveOutput",
    "Loaded",
    "Locations",
    "RunEvent",
    "Runtime",
    "Text",
    "TurnEnded",
    "find_places",
    "load",
]

_HOMES = {
    "CliError": "exits",
    "Config": "config",
    "ConfigError": "config",
    "Exit": "exits",
    "Loaded": "config",
    "Locations": "config",
    "Runtime": "app",
    "find_places": "config",
    "load": "config",
}


def __getattr__(name: str) -> object:
    """Load a public name on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'leeward.runtime' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES.get(name, 'events')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
