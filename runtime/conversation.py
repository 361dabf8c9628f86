"""The history a model is sent: always valid, whatever was cancelled where.

Every call an assistant message names is answered by exactly one tool message before anything else
is said, and no two calls have one id; providers refuse a history in which that is not so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from leeward.security import Json, RecordError

from .providers.events import Message, Requested, Role, Verbatim, new_call_id

__all__ = ["CANCELLED", "Conversation"]

CANCELLED = "cancelled: this was stopped before it was done"

Keep: TypeAlias = Callable[[int, Role, Json], Awaitable[None]]
"""Stores the content of one message under the number of its turn, or raises `RecordError`."""


class Conversation:
    """Messages in order. What was added is owed to the store until `store` has handed it to `keep`.

    A conversation goes on where it cannot be stored: `warn` is told once, and what is owed is stored
    later, in order.
    """

    def __init__(self, keep: Keep, warn: Callable[[str], None]) -> None:
        self.messages: list[Message] = []
        self.turn = 0
        self._keep = keep
        self._warn = warn
        self._owed: deque[tuple[int, Role, Json]] = deque()
        self._unanswered: dict[str, Requested] = {}
        self._ids: set[str] = set()
        self._warned = False

    def say(self, text: str, attached: str = "") -> None:
        """Add the person's message, a new turn; `attached` goes along and is kept apart from the words."""
        self.turn += 1
        message = Message("user", f"{text}\n\n{attached}" if attached else text)
        self._add(message, {"text": text, "attached": attached} if attached else {"text": text})

    def reply(
        self, text: str, calls: tuple[Requested, ...], verbatim: Verbatim | None = None
    ) -> tuple[Requested, ...]:
        """Add the model's message and return its calls; an empty one with no calls is left out.

        A call whose id was used before in this conversation gets another. `verbatim` is what the model
        wants back as it came.
        """
        came, calls = calls, tuple(self._with_own_id(call) for call in calls)
        # What goes back as it came names the calls by the ids they came with.
        verbatim = verbatim if calls == came else None
        self._unanswered = {call.id: call for call in calls}
        if text or calls:
            told: Json = [[call.id, call.name, call.arguments] for call in calls]
            self._add(Message("assistant", text, calls, verbatim=verbatim), {"text": text, "calls": told})
        return calls

    def answer(self, call_id: str, text: str) -> None:
        """Add the result of a call."""
        self._unanswered.pop(call_id, None)
        self._add(Message("tool", text, call_id=call_id), {"text": text, "call_id": call_id})

    def close(self) -> None:
        """Answer what was left unanswered, so that the history stays valid."""
        for call_id in tuple(self._unanswered):
            self.answer(call_id, CANCELLED)

    def clear(self) -> None:
        """Forget the conversation."""
        self.messages.clear()
        self._unanswered.clear()
        self._ids.clear()

    async def store(self) -> None:
        """Hand what is owed to the store, in order; what cannot be stored now stays owed."""
        while self._owed:
            # Taken out before the wait: a caller who is cancelled leaves behind what will be written.
            entry = self._owed.popleft()
            try:
                await self._keep(*entry)
            except RecordError as error:
                self._owed.appendleft(entry)
                self._warn_once(f"the conversation cannot be stored at the moment: {error}")
                return
        self._warned = False

    def _with_own_id(self, call: Requested) -> Requested:
        if not call.id or call.id in self._ids:
            call = replace(call, id=new_call_id())
        self._ids.add(call.id)
        return call

    def _add(self, message: Message, content: Json) -> None:
        self.messages.append(message)
        self._owed.append((self.turn, message.role, content))

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(message)
