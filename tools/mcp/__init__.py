"""Servers of the Model Context Protocol as tool executors; the SDK is loaded when a server is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .asking import Asker, FieldKind, FormField, Requests, form_fields
    from .executor import McpExecutor
    from .gate import CallGate
    from .http import open_http
    from .listing import MOST_BYTES, MOST_TOOLS, ListedTool, Listing, ListingRefused, difference
    from .server import Server, Surroundings
    from .settings import ServerSettings, ToolDeclaration
    from .specs import specs_of, tool_name
    from .stdio import StdioTransport, open_stdio
    from .store import KnownServer, ServerStore
    from .transport import Transport

__all__ = [
    "MOST_BYTES",
    "MOST_TOOLS",
    "Asker",
    "CallGate",
    "FieldKind",
    "FormField",
    "KnownServer",
    "ListedTool",
    "Listing",
    "ListingRefused",
    "McpExecutor",
    "Requests",
    "Server",
    "ServerSettings",
    "ServerStore",
    "StdioTransport",
    "Surroundings",
    "ToolDeclaration",
    "Transport",
    "difference",
    "form_fields",
    "open_http",
    "open_stdio",
    "specs_of",
    "tool_name",
]

_HOMES = {
    "Asker": ".asking",
    "FieldKind": ".asking",
    "FormField": ".asking",
    "Requests": ".asking",
    "form_fields": ".asking",
    "CallGate": ".gate",
    "open_http": ".http",
    "KnownServer": ".store",
    "ListedTool": ".listing",
    "Listing": ".listing",
    "ListingRefused": ".listing",
    "MOST_BYTES": ".listing",
    "MOST_TOOLS": ".listing",
    "McpExecutor": ".executor",
    "Server": ".server",
    "ServerSettings": ".settings",
    "ServerStore": ".store",
    "StdioTransport": ".stdio",
    "Surroundings": ".server",
    "ToolDeclaration": ".settings",
    "Transport": ".transport",
    "difference": ".listing",
    "open_stdio": ".stdio",
    "specs_of": ".specs",
    "tool_name": ".specs",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
