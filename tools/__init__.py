"""What a model may ask for: how a tool is declared, the built-in ones, and all of them as one executor."""

from .builtin import BuiltinSettings, builtin_tools, open_builtin_tools
from .composite import GUARDED_TOOLS, CompositeExecutor, NameClash, Registered
from .declare import SingleTool, schema_tool, spec_from_schema, tool
from .fetch import DEFAULT_BODY_BYTES, Fetcher
from .files import Files
from .kinds import Destination, ResourceId, Secret, ShellCommand, Text, Url, WorkspacePath
from .overflow import Overflow, OverflowReader
from .process import Finished, environment, run_process
from .resolve import Resolver, dns_resolver
from .search import Search
from .shell import Shell
from .survey import Surveyor, resolved

__all__ = [
    "DEFAULT_BODY_BYTES",
    "GUARDED_TOOLS",
    "BuiltinSettings",
    "CompositeExecutor",
    "Destination",
    "Fetcher",
    "Files",
    "Finished",
    "NameClash",
    "Overflow",
    "OverflowReader",
    "Registered",
    "Resolver",
    "ResourceId",
    "Search",
    "Secret",
    "Shell",
    "ShellCommand",
    "SingleTool",
    "Surveyor",
    "Text",
    "Url",
    "WorkspacePath",
    "builtin_tools",
    "dns_resolver",
    "environment",
    "open_builtin_tools",
    "resolved",
    "run_process",
    "schema_tool",
    "spec_from_schema",
    "tool",
]
