"""Declare a tool: its schema, the kinds of its arguments, its validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .decorator import Function, Run, SingleTool, check_name, schema_tool, spec_from_schema, tool
    from .kinds import Destination, ResourceId, Secret, ShellCommand, SourcePath, Text, Url, WorkspacePath
    from .schema import guarded, nodes, rewritten
    from .validation import inner_references_only, plain, schema_validator

__all__ = [
    "Destination",
    "Function",
    "ResourceId",
    "Run",
    "Secret",
    "ShellCommand",
    "SingleTool",
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
    "Function": ".decorator",
    "ResourceId": ".kinds",
    "Run": ".decorator",
    "Secret": ".kinds",
    "ShellCommand": ".kinds",
    "SingleTool": ".decorator",
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
