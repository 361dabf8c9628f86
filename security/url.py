"""One URL, one meaning."""

from __future__ import annotations

from dataclasses import dataclass

from .unreadable import Unreadable

__all__ = ["Url", "parse_url"]


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL. `text` is the canonical form that is judged, shown, recorded and sent.

    `host` is ASCII, lower case, without a trailing dot, IPv6 without brackets; `port` is explicit;
    `segments` are the path's parts as they are sent, percent-encoding normalised.
    """

    text: str
    scheme: str
    host: str
    port: int
    segments: tuple[str, ...]
    query: str | None
    fragment: str | None

    def __str__(self) -> str:
        return self.text


def parse_url(raw: str) -> Url | Unreadable:
    """Read a URL into its canonical form, or say why it was not read."""
    return Unreadable("not implemented")
