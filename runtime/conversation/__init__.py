"""A turn, its calls, the history, the window and the cost."""

from .chat import Talk
from .cost import cost_lines
from .history import BROKEN_OFF, Conversation, Taken, attached_to, with_summary

__all__ = ["BROKEN_OFF", "Conversation", "Taken", "Talk", "attached_to", "cost_lines", "with_summary"]
