"""A turn, its calls, the history, the context window and the cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .chat import Chat
    from .cost import Meter, cost_lines
    from .delegated import Delegation
    from .history import BROKEN_OFF, History, HistorySnapshot, attached_to, with_summary
    from .prompt import system_prompt
    from .reader import ModelReader
    from .skills import SKILLS_FOLDER, list_skills, skill_parents, skill_store, skills_of, used
    from .turn import Turn

__all__ = [
    "BROKEN_OFF",
    "SKILLS_FOLDER",
    "Chat",
    "Delegation",
    "History",
    "HistorySnapshot",
    "Meter",
    "ModelReader",
    "Turn",
    "attached_to",
    "cost_lines",
    "list_skills",
    "skill_parents",
    "skill_store",
    "skills_of",
    "system_prompt",
    "used",
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
    "Delegation": ".delegated",
    "Meter": ".cost",
    "Turn": ".turn",
    "cost_lines": ".cost",
    "with_summary": ".history",
    "SKILLS_FOLDER": ".skills",
    "list_skills": ".skills",
    "skill_parents": ".skills",
    "skill_store": ".skills",
    "skills_of": ".skills",
    "used": ".skills",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
