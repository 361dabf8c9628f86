"""The types that appear in signatures of public names, for annotations.

Their names are stable. What Leeward hands out, such as the `Action` of a question, has further members, which
may change.
"""

from __future__ import annotations

from leeward.memory.audit import Head, Record, Unfinished, Verified
from leeward.runtime.app import RuntimeOptions, SessionOptions
from leeward.runtime.config import Config, Loaded, Locations
from leeward.runtime.conversation import History
from leeward.runtime.embedding import BlockingRuntimeOptions, BlockingSessionOptions
from leeward.runtime.providers.interface import (
    CallRequested,
    FellBack,
    Message,
    ModelEvent,
    Provider,
    Reasoning,
    Request,
    Retrying,
    Role,
    Stopped,
    StopReason,
    TextDelta,
    ToolView,
    Usage,
    Verbatim,
)
from leeward.runtime.sessions import ResumedSession
from leeward.runtime.testing import Says
from leeward.security.call import Action, Again, Checked, Outcome, Proposal, Rerun, Status
from leeward.security.kinds import Json
from leeward.security.paths import ResolvedPath
from leeward.security.permissions import Patterns
from leeward.security.policy import AgentFrame, AnomalyLimits
from leeward.security.ports import Approver, Clock
from leeward.security.session import Decided, Event, Grant, Session, ToolOutcome
from leeward.security.verdict import Ask
from leeward.tools.composite import Around, Registered
from leeward.tools.declare import Function, Run, SingleTool
from leeward.tools.http.resolve import Resolver

__all__ = [
    "Action",
    "Again",
    "AgentFrame",
    "AnomalyLimits",
    "Approver",
    "Around",
    "Ask",
    "BlockingRuntimeOptions",
    "BlockingSessionOptions",
    "CallRequested",
    "Checked",
    "Clock",
    "Config",
    "Decided",
    "Event",
    "FellBack",
    "Function",
    "Grant",
    "Head",
    "History",
    "Json",
    "Loaded",
    "Locations",
    "Message",
    "ModelEvent",
    "Outcome",
    "Patterns",
    "Proposal",
    "Provider",
    "Reasoning",
    "Record",
    "Registered",
    "Request",
    "Rerun",
    "ResolvedPath",
    "Resolver",
    "ResumedSession",
    "Retrying",
    "Role",
    "Run",
    "RuntimeOptions",
    "Says",
    "Session",
    "SessionOptions",
    "SingleTool",
    "Status",
    "StopReason",
    "Stopped",
    "TextDelta",
    "ToolOutcome",
    "ToolView",
    "Unfinished",
    "Usage",
    "Verbatim",
    "Verified",
]
