"""Test tools in a session of their own, behind the real gates and filters."""

from __future__ import annotations

from leeward.runtime.testing import ToolBench
from leeward.security.policy import Autonomy
from leeward.security.ports import Answer

__all__ = ["Answer", "Autonomy", "ToolBench"]
