"""For tests of tools: a session with nothing but the tools under test, behind the real gates and filters."""

from __future__ import annotations

from leeward.runtime.testing import ToolBench
from leeward.security.policy import Autonomy
from leeward.security.ports import Answer

__all__ = ["Answer", "Autonomy", "ToolBench"]
