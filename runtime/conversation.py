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

__all__ = ["CANCELLED", "Conversation", "Pending"]

CANCELLED = "cancelled: this was stopped before it was done"

Pending: TypeAlias = Callable[[], Awaitable[None]]
Keep: TypeAlias = Callable[[int, Role, Json], Pending]
"""Puts the content of one message, under the number of its turn, in line to be stored.

What it returns waits until that is done. Both may raise `RecordError`.
"""

_Entry: TypeAlias = tuple[int, Role, Json]


class Conversation:
    """Messages in order. Each is put in line for the store as soon as `hand_over` is called.

    A conversation goes on where it cannot be stored: `warn` is told once, and what is owed is stored
    later, in order.
    """

    def __init__(
        self, keep: Keep, warn: Callable[[str], None], masked: Callable[[str, str], str] | None = None
    ) -> None:
        """Begin; `masked` takes a tool and the arguments of a call, and returns those that may be kept."""
        self.messages: list[Message] = []
        self.turn = 0
        self._keep = keep
        self._warn = warn
        self._masked = masked or (lambda _tool, arguments: arguments)
        self._owed: deque[_Entry] = deque()
        self._handed_over: deque[tuple[_Entry, Pending]] = deque()
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
            told: Json = [[call.id, call.name, self._masked(call.name, call.arguments)] for call in calls]
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

    def take_back(self) -> None:
        """Forget the person's message that was said last and could not be sent."""
        self.messages.pop()
        self._owed.pop()

    def hand_over(self) -> None:
        """Put what is owed in line for the store; nothing is waited for."""
        try:
            while self._owed:
                self._handed_over.append((self._owed[0], self._keep(*self._owed[0])))
                self._owed.popleft()
        except RecordError as error:
            self._warn_once(error)

    async def store(self) -> None:
        """Return once everything is stored; what cannot be stored now stays owed."""
        self.hand_over()
        failed: list[_Entry] = []
        try:
            while self._handed_over:
                entry, pending = self._handed_over[0]
                try:
                    await pending()
                except RecordError as error:
                    failed.append(entry)
                    self._warn_once(error)
                self._handed_over.popleft()
        finally:
            self._owed.extendleft(reversed(failed))
        self._warned = self._warned and bool(self._owed)

    def _with_own_id(self, call: Requested) -> Requested:
        if not call.id or call.id in self._ids:
            call = replace(call, id=new_call_id())
        self._ids.add(call.id)
        return call

    def _add(self, message: Message, content: Json) -> None:
        self.messages.append(message)
        self._owed.append((self.turn, message.role, content))

    def _warn_once(self, error: RecordError) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"the conversation cannot be stored at the moment: {error}")
