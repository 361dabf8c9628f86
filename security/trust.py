"""Trust levels of tools and origins of texts."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from .lazy import dataclass

__all__ = ["FILE_LABELS", "FileWords", "Origin", "TrustLevel", "integrity", "min_trust"]


class TrustLevel(IntEnum):
    """How far a tool is trusted. A higher number means less trust, and fewer effects that it may have."""

    TRUSTED = 0
    VERIFIED = 1
    QUARANTINED = 2
    BLOCKED = 3


def min_trust(*levels: TrustLevel) -> TrustLevel:
    """Return the weakest trust among the levels; without any, nothing is known, so `BLOCKED`."""
    return max(levels, default=TrustLevel.BLOCKED)


class Origin(StrEnum):
    """Who wrote a text. `SECRET` is no author: it marks that something confidential was read."""

    PERSON = "person"
    PROJECT = "project"
    TOOL = "tool"
    WORKSPACE = "workspace"
    MODEL = "model"
    WEB = "web"
    MCP = "mcp"
    SECRET = "secret"  # noqa: S105 - a mark, not a value


FILE_LABELS = frozenset({Origin.WEB, Origin.MCP, Origin.SECRET})
"""The labels that a file keeps which was written after such a text was read."""


@dataclass(frozen=True, slots=True)
class FileWords:
    """The labels of files with words of others, and whose words these are, in our words."""

    labels: frozenset[Origin] = frozenset()
    source: str = ""


_INTEGRITY = {
    Origin.PERSON: 4,
    Origin.TOOL: 4,
    Origin.PROJECT: 3,
    Origin.WORKSPACE: 2,
    Origin.SECRET: 2,
    Origin.MODEL: 1,
    Origin.WEB: 0,
    Origin.MCP: 0,
}


def integrity(labels: frozenset[Origin]) -> int:
    """Return the integrity of a text made of several: that of its least trusted part (0 to 4)."""
    return min((_INTEGRITY[label] for label in labels), default=_INTEGRITY[Origin.PERSON])
