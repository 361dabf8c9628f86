"""How a tool is declared: its schema, the kinds of its arguments, its validation."""

from .decorator import check_name, schema_tool, spec_from_schema, tool
from .kinds import Destination, ResourceId, Secret, ShellCommand, SourcePath, Text, Url, WorkspacePath
from .schema import guarded

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
    "schema_tool",
    "spec_from_schema",
    "tool",
]
