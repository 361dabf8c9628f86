"""Which URLs may be opened, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .url import Url

__all__ = ["Ledger", "Provenance"]


class Provenance(StrEnum):
    """How a URL became known."""

    PERSON = "person"
    SLASH = "slash command"
    CONFIG = "config"
    REDIRECT = "redirect"
    LINK = "link"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Ledger:
    def with_urls(self, urls: Iterable[Url], provenance: Provenance) -> Ledger:
        return self
