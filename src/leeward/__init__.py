"""An async agent runtime for the terminal with the security pipeline built in.

    async with Runtime.open() as runtime:
        async with runtime.run("read notes.txt") as events:
            async for event in events: ...

The names below are the public ones; each is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leeward.memory.audit import AuditLogger
    from leeward.runtime.app import Runtime, RuntimeSession
    from leeward.runtime.config import ConfigError
    from leeward.runtime.providers.interface import ErrorKind, ModelError
    from leeward.security.call import Asker, Cleared, Exchange, ToolCall, ToolExecutor, ToolResult, ToolSpec
    from leeward.security.kinds import Effect
    from leeward.security.outcome import (
        InvalidParameters,
        LeewardError,
        NetworkError,
        Output,
        Part,
        PermanentFailure,
        Picture,
        PolicyBlocked,
        RateLimited,
        ServerError,
        ToolError,
        ToolNotFound,
        ToolTimeout,
        TypeMismatch,
    )
    from leeward.security.paths import Preview
    from leeward.security.permissions import Always
    from leeward.security.policy import Autonomy
    from leeward.security.ports import Answer, DetailedAnswer, Question, RecordError, Reply
    from leeward.security.session import AnomalyDetector, Scope
    from leeward.security.trust import Origin, TrustLevel
    from leeward.security.url import Provenance
    from leeward.tools.composite import CompositeExecutor, NameClash
    from leeward.tools.declare import (
        Destination,
        ResourceId,
        Secret,
        ShellCommand,
        SourcePath,
        Text,
        Url,
        WorkspacePath,
        schema_tool,
        spec_from_schema,
        tool,
    )

    __version__: str

__all__ = [
    "Always",
    "AnomalyDetector",
    "Answer",
    "Asker",
    "AuditLogger",
    "Autonomy",
    "Cleared",
    "CompositeExecutor",
    "ConfigError",
    "Destination",
    "DetailedAnswer",
    "Effect",
    "ErrorKind",
    "Exchange",
    "InvalidParameters",
    "LeewardError",
    "ModelError",
    "NameClash",
    "NetworkError",
    "Origin",
    "Output",
    "Part",
    "PermanentFailure",
    "Picture",
    "PolicyBlocked",
    "Preview",
    "Provenance",
    "Question",
    "RateLimited",
    "RecordError",
    "Reply",
    "ResourceId",
    "Runtime",
    "RuntimeSession",
    "Scope",
    "Secret",
    "ServerError",
    "ShellCommand",
    "SourcePath",
    "Text",
    "ToolCall",
    "ToolError",
    "ToolExecutor",
    "ToolNotFound",
    "ToolResult",
    "ToolSpec",
    "ToolTimeout",
    "TrustLevel",
    "TypeMismatch",
    "Url",
    "WorkspacePath",
    "__version__",
    "schema_tool",
    "spec_from_schema",
    "tool",
]

_HOMES = {
    "Always": "leeward.security.permissions",
    "AnomalyDetector": "leeward.security.session",
    "Answer": "leeward.security.ports",
    "Asker": "leeward.security.call",
    "AuditLogger": "leeward.memory.audit",
    "Autonomy": "leeward.security.policy",
    "Cleared": "leeward.security.call",
    "CompositeExecutor": "leeward.tools.composite",
    "ConfigError": "leeward.runtime.config",
    "Destination": "leeward.tools.declare",
    "DetailedAnswer": "leeward.security.ports",
    "Effect": "leeward.security.kinds",
    "ErrorKind": "leeward.runtime.providers.interface",
    "Exchange": "leeward.security.call",
    "InvalidParameters": "leeward.security.outcome",
    "LeewardError": "leeward.security.outcome",
    "ModelError": "leeward.runtime.providers.interface",
    "NameClash": "leeward.tools.composite",
    "NetworkError": "leeward.security.outcome",
    "Origin": "leeward.security.trust",
    "Output": "leeward.security.outcome",
    "Part": "leeward.security.outcome",
    "PermanentFailure": "leeward.security.outcome",
    "Picture": "leeward.security.outcome",
    "PolicyBlocked": "leeward.security.outcome",
    "Preview": "leeward.security.paths",
    "Provenance": "leeward.security.url",
    "Question": "leeward.security.ports",
    "RateLimited": "leeward.security.outcome",
    "RecordError": "leeward.security.ports",
    "Reply": "leeward.security.ports",
    "ResourceId": "leeward.tools.declare",
    "Runtime": "leeward.runtime.app",
    "RuntimeSession": "leeward.runtime.app",
    "Scope": "leeward.security.session",
    "Secret": "leeward.tools.declare",
    "ServerError": "leeward.security.outcome",
    "ShellCommand": "leeward.tools.declare",
    "SourcePath": "leeward.tools.declare",
    "Text": "leeward.tools.declare",
    "ToolCall": "leeward.security.call",
    "ToolError": "leeward.security.outcome",
    "ToolExecutor": "leeward.security.call",
    "ToolNotFound": "leeward.security.outcome",
    "ToolResult": "leeward.security.call",
    "ToolSpec": "leeward.security.call",
    "ToolTimeout": "leeward.security.outcome",
    "TrustLevel": "leeward.security.trust",
    "TypeMismatch": "leeward.security.outcome",
    "Url": "leeward.tools.declare",
    "WorkspacePath": "leeward.tools.declare",
    "schema_tool": "leeward.tools.declare",
    "spec_from_schema": "leeward.tools.declare",
    "tool": "leeward.tools.declare",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name == "__version__":
        value: Any = importlib.import_module("leeward.runtime.version").VERSION
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'leeward' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
