"""Headless runs: a prompt, or a script with its expectations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .account import RunPrinter
    from .stdin import bytes_of

__all__ = ["RunPrinter", "bytes_of"]

_HOMES = {
    "RunPrinter": ".account",
    "bytes_of": ".stdin",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
