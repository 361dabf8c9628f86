"""Declare a tool: its schema, the kinds of its arguments, its validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .decorator import check_name, schema_tool, spec_from_schema, tool
    from .kinds import Destination, ResourceId, Secret, ShellCommand, SourcePath, Text, Url, WorkspacePath
    from .schema import guarded, nodes, rewritten
    from .validation import inner_references_only, plain, schema_validator

__all__ = [
    "Destination",
    "ResourceId",
    "Secret",
    "ShellCommand",
    "SourcePath",
    "Text",
    "Url",
    "WorkspacePath",
    "check_name",
    "guarded",
    "inner_references_only",
    "nodes",
    "plain",
    "rewritten",
    "schema_tool",
    "schema_validator",
    "spec_from_schema",
    "tool",
]

_HOMES = {
    "Destination": ".kinds",
    "ResourceId": ".kinds",
    "Secret": ".kinds",
    "ShellCommand": ".kinds",
    "SourcePath": ".kinds",
    "Text": ".kinds",
    "Url": ".kinds",
    "WorkspacePath": ".kinds",
    "check_name": ".decorator",
    "guarded": ".schema",
    "inner_references_only": ".validation",
    "nodes": ".schema",
    "plain": ".validation",
    "rewritten": ".schema",
    "schema_tool": ".decorator",
    "schema_validator": ".validation",
    "spec_from_schema": ".decorator",
    "tool": ".decorator",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
