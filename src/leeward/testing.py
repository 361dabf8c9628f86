"""Test tools in a session of their own, behind the real gates and filters."""

from __future__ import annotations

from leeward.runtime.testing import (
    FakeWeb,
    RecordingApprover,
    ScriptedModel,
    SessionBench,
    ToolBench,
    open_session,
)
from leeward.security.policy import Autonomy
from leeward.security.ports import Answer
from leeward.security.trust import TrustLevel

__all__ = [
    "Answer",
    "Autonomy",
    "FakeWeb",
    "RecordingApprover",
    "ScriptedModel",
    "SessionBench",
    "ToolBench",
    "TrustLevel",
    "open_session",
]
