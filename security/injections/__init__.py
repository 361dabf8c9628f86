"""What looks like an order to an assistant in a text, whatever disguises it; loaded by the first text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .scanner import Finding, find_injections

__all__ = ["Finding", "find_injections"]

_HOMES = {"Finding": ".scanner", "find_injections": ".scanner"}

__getattr__: Loads = lazy_names(__name__, _HOMES)
