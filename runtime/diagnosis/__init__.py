"""What is well and what is not, of all that the protection rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .findings import Finding, findings_of

__all__ = ["Finding", "findings_of"]

_HOMES = {"Finding": ".findings", "findings_of": ".findings"}

__getattr__: Loads = lazy_names(__name__, _HOMES)
