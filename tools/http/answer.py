"""What did a URL answer? The one noun between `client.py`, which asks, and the tools that read it."""

from __future__ import annotations

from dataclasses import dataclass

from leeward.security.outcome import NetworkError
from leeward.security.url import Url

from .response import Body

__all__ = ["Answer", "StaleConnection"]


class StaleConnection(NetworkError):
    """A connection that had been used before broke before any answer: the other side had left it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a URL answered. `location` is where it leads, as the header has it, if it is a redirect."""

    url: Url
    status: int
    content_type: str
    body: Body
    location: str | None = None
