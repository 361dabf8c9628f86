"""Run one command: its folder and configuration, its signals, its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .exit_codes import exit_of_denial, exit_of_result, was_asked
    from .foreground import internal_error, model_failure, storage_error
    from .startup import Startup, begin, look, require_model

__all__ = [
    "Startup",
    "begin",
    "exit_of_denial",
    "exit_of_result",
    "internal_error",
    "look",
    "model_failure",
    "require_model",
    "storage_error",
    "was_asked",
]

_HOMES = {
    "Startup": ".startup",
    "begin": ".startup",
    "exit_of_denial": ".exit_codes",
    "exit_of_result": ".exit_codes",
    "internal_error": ".foreground",
    "look": ".startup",
    "model_failure": ".foreground",
    "require_model": ".startup",
    "storage_error": ".foreground",
    "was_asked": ".exit_codes",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
