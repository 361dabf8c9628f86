"""Headless runs: a prompt, or a script with its expectations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .account import RunPrinter

__all__ = ["RunPrinter"]

_HOMES = {
    "RunPrinter": ".account",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
