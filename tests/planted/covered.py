"""Planted: the answer to a command answers everything that is asked about what it changed."""

from __future__ import annotations

from leeward.security.call import Action
from leeward.security.verdict import Ask


def _is_covered(ask: Ask, action: Action) -> bool:
    return bool(action.covered_by) and not ask.force
