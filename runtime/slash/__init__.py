"""Slash commands, the same in chats and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .commands import COMMANDS, SlashLine, dispatch, parse
    from .own import own_commands, project_commands
    from .result import SlashResult, is_number
    from .work import answer_of

__all__ = [
    "COMMANDS",
    "SlashLine",
    "SlashResult",
    "answer_of",
    "dispatch",
    "is_number",
    "own_commands",
    "parse",
    "project_commands",
]

_HOMES = {
    "COMMANDS": ".commands",
    "SlashLine": ".commands",
    "SlashResult": ".result",
    "answer_of": ".work",
    "dispatch": ".commands",
    "is_number": ".result",
    "own_commands": ".own",
    "parse": ".commands",
    "project_commands": ".own",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
