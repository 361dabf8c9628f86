"""Where a text comes from, and how far its words may steer what is done."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Origin", "integrity"]


class Origin(StrEnum):
    """Who wrote a text. `SECRET` is not an author but a mark: something private was read."""

    PERSON = "person"
    PROJECT = "project"
    TOOL = "tool"
    WORKSPACE = "workspace"
    MODEL = "model"
    WEB = "web"
    MCP = "mcp"
    SECRET = "secret"  # noqa: S105 - a mark, not a value


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
