"""The history a model is sent: always valid, whatever was cancelled where.

Every call an assistant message names is answered by exactly one tool message before anything else
is said; providers refuse a history in which one is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from .providers.events import Message, Requested

__all__ = ["CANCELLED", "Conversation"]

CANCELLED = "cancelled: the person stopped this before it was done"

Keep: TypeAlias = Callable[[int, Message], Awaitable[None]]


class Conversation:
    """Messages in order. `keep` is told each one, with the number of its turn, and stores it."""

    def __init__(self, keep: Keep) -> None:
        self.messages: list[Message] = []
        self.turn = 0
        self._keep = keep
        self._unanswered: dict[str, Requested] = {}

    async def say(self, text: str) -> None:
        """Add the person's message: a new turn."""
        self.turn += 1
        await self._add(Message("user", text))

    async def reply(self, text: str, calls: tuple[Requested, ...]) -> None:
        """Add the model's message; an empty one with no calls says nothing and is left out."""
        self._unanswered = {call.id: call for call in calls}
        if text or calls:
            await self._add(Message("assistant", text, calls))

    async def answer(self, call_id: str, text: str) -> None:
        """Add the result of a call."""
        self._unanswered.pop(call_id, None)
        await self._add(Message("tool", text, call_id=call_id))

    async def close(self) -> None:
        """Answer what was left unanswered, so that the history stays valid."""
        for call_id in tuple(self._unanswered):
            await self.answer(call_id, CANCELLED)

    def clear(self) -> None:
        """Forget the conversation."""
        self.messages.clear()
        self._unanswered.clear()

    async def _add(self, message: Message) -> None:
        # The list first: a cancelled write must not leave a history that lacks what was said.
        self.messages.append(message)
        await self._keep(self.turn, message)
