"""Slash commands, the same in chats and scripts."""

from .commands import COMMANDS, SlashCommand, SlashResult, dispatch, parse

__all__ = ["COMMANDS", "SlashCommand", "SlashResult", "dispatch", "parse"]
