"""Sub-agents: other models that do a task for the session's own, and may do no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .definition import AgentDefinition, definitions, read_definition
    from .executor import AgentHost, Agents

__all__ = ["AgentDefinition", "AgentHost", "Agents", "definitions", "read_definition"]

_HOMES = {
    "AgentDefinition": ".definition",
    "AgentHost": ".executor",
    "Agents": ".executor",
    "definitions": ".definition",
    "read_definition": ".definition",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
