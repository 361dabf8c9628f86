"""Test tools behind the real gates and filters; `leeward.testing` and the pytest plug-in hand it out."""

from .bench import ToolBench
from .session import RecordingApprover, Says, ScriptedModel, SessionBench, open_session
from .web import FakeWeb

__all__ = [
    "FakeWeb",
    "RecordingApprover",
    "Says",
    "ScriptedModel",
    "SessionBench",
    "ToolBench",
    "open_session",
]
