"""A turn, its calls, the history, the context window and the cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import lazy_names

if TYPE_CHECKING:
    from .chat import Chat
    from .cost import cost_lines
    from .history import BROKEN_OFF, History, HistorySnapshot, attached_to, with_summary
    from .prompt import system_prompt
    from .reader import ModelReader

__all__ = [
    "BROKEN_OFF",
    "Chat",
    "History",
    "HistorySnapshot",
    "ModelReader",
    "attached_to",
    "cost_lines",
    "system_prompt",
    "with_summary",
]

_HOMES = {
    "system_prompt": ".prompt",
    "BROKEN_OFF": ".history",
    "Chat": ".chat",
    "History": ".history",
    "HistorySnapshot": ".history",
    "ModelReader": ".reader",
    "attached_to": ".history",
    "cost_lines": ".cost",
    "with_summary": ".history",
}

__getattr__ = lazy_names(__name__, _HOMES)
