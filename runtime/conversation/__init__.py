"""A turn, its calls, the history, the window and the cost."""

from .chat import Chat
from .cost import cost_lines
from .history import BROKEN_OFF, History, HistorySnapshot, attached_to, with_summary

__all__ = ["BROKEN_OFF", "Chat", "History", "HistorySnapshot", "attached_to", "cost_lines", "with_summary"]
