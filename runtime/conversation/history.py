"""The history sent to a model, always valid even after cancellation, and its masked stored form.

Every call an assistant message names is answered by exactly one tool message before any other
message, and no two calls have one id; providers refuse any other history. Secrets in a
model's words and arguments are masked before they are stored; a call keeps its id and stays valid JSON. The
person's own words are stored as typed. Pure.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from leeward.memory.sessions import Charge, Line
from leeward.security.kinds import Json, with_leaves
from leeward.security.lazy import dataclass
from leeward.security.ports import RecordError
from leeward.security.text import redact_text
from leeward.security.trust import Origin

from ..providers.interface import Message, Verbatim, new_call_id

if TYPE_CHECKING:
    from leeward.security.call import ToolCall
    from leeward.security.outcome import Picture

__all__ = [
    "BROKEN_OFF",
    "CANCELLED",
    "History",
    "HistorySnapshot",
    "Pending",
    "at_rest",
    "attached_to",
    "with_summary",
]


def at_rest(content: Json, secrets: Collection[str]) -> Json:
    """Return what is kept of an assistant's message; `secrets` are the values known for such."""
    match content:
        case {"text": str(text), "calls": [*calls]} if isinstance(content, Mapping):
            kept = [_call(call, secrets) for call in calls]
            return {**content, "text": redact_text(text, secrets), "calls": kept}
        case _:
            return content


def _call(call: Json, secrets: Collection[str]) -> Json:
    match call:
        case [call_id, name, str(arguments)]:
            return [call_id, name, _arguments(arguments, secrets)]
        case _:
            return call


def _arguments(text: str, secrets: Collection[str]) -> str:
    """Return arguments without secrets, however those are spelled; what was JSON still is."""
    try:
        given = json.loads(text)
        masked = with_leaves(given, lambda one: redact_text(one, secrets) if isinstance(one, str) else one)
        text = text if masked == given else json.dumps(masked, ensure_ascii=False)
    except (ValueError, RecursionError):
        return redact_text(text, secrets)
    # Some are known only by the name before them; where a mask takes a bracket along, it stays with the rest.
    whole = redact_text(text, secrets)
    return whole if whole != text and _is_json(whole) else text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


CANCELLED = "cancelled: this was stopped before it was done"

BROKEN_OFF = (
    "cancelled: the session was broken off before a result came; what was done by then is unknown, "
    "so look before you do it again"
)

Pending: TypeAlias = Callable[[], Awaitable[None]]
Keep: TypeAlias = Callable[[Line], Pending]
"""Puts a line of the conversation in line to be stored.

What it returns waits until that is done. Both may raise `RecordError`.
"""

_FREE = Charge()
_AUTHORS = {"user": Origin.PERSON, "assistant": Origin.MODEL, "summary": Origin.MODEL}


@dataclass(frozen=True, slots=True)
class HistorySnapshot:
    """A conversation as it was left: messages, the place of each, and how far places and turns were counted.

    Calls of the last reply may be unanswered.
    """

    messages: Sequence[Message] = ()
    places: Sequence[int] = ()
    last_place: int = 0
    last_turn: int = 0


class History:
    """Messages in order. Each is put in line for the store as soon as `hand_over` is called.

    A conversation goes on where it cannot be stored: `warn` is called once, and what is owed is stored
    later, in order. `unanswered` are the calls of the last reply that have no result yet.
    """

    def __init__(
        self, keep: Keep, warn: Callable[[str], None], masked: Callable[[ToolCall], str] | None = None
    ) -> None:
        """Begin; `masked` takes a call and returns those of its arguments that may be kept."""
        self.messages: list[Message] = []
        self.turn: int = 0
        self._keep = keep
        self._warn = warn
        self._masked = masked or (lambda call: call.arguments)
        self._places: list[int] = []
        self._place = 0
        self._owed: deque[Line] = deque()
        self._handed_over: deque[tuple[Line, Pending]] = deque()
        self.unanswered: dict[str, ToolCall] = {}
        self._ids: set[str] = set()
        self._warned = False
        self.sends_pictures: bool = True
        """Whether the pictures of messages are sent; a service that refused them is not sent them again."""

    def resume(self, taken: HistorySnapshot, answers: Mapping[str, str] | None = None) -> None:
        """Resume a conversation; calls that it left open are answered first.

        With `answers` its last turn is to be resumed, too: the calls named there are answered so, others stay
        open, and a last reply without calls counts as one that broke off.
        """
        self.messages[:] = taken.messages
        self._places[:] = taken.places
        self._place, self.turn = taken.last_place, taken.last_turn
        self._ids.update(call.id for message in self.messages for call in message.calls)
        answered = {message.call_id for message in self.messages}
        last = next((message for message in reversed(self.messages) if message.calls), None)
        calls = last.calls if last is not None else ()
        self.unanswered = {call.id: call for call in calls if call.id not in answered}
        if answers is None:
            self.close(BROKEN_OFF)
            return
        for call_id, text in answers.items():
            self.answer(call_id, text)
        if self.messages and self.messages[-1].role == "assistant" and not self.messages[-1].calls:
            self.messages.pop()
            self._places.pop()

    def say(self, text: str, attached: str = "", pictures: tuple[Picture, ...] = ()) -> None:
        """Add the person's message, a new turn; `attached` goes along and is kept apart from the words.

        Pictures are sent for as long as this conversation is open, and never stored.
        """
        self.turn += 1
        message = replace(attached_to(text, attached), pictures=pictures)
        self._add(message, {"text": text, "attached": attached} if attached else {"text": text})

    def reply(
        self,
        text: str,
        calls: tuple[ToolCall, ...],
        verbatim: Verbatim | None = None,
        charge: Charge = _FREE,
    ) -> tuple[ToolCall, ...]:
        """Add the model's message and return its calls; of an empty one only what it cost is kept.

        A call whose id was used before in this conversation gets another. `verbatim` is what the model
        wants back as it came.
        """
        came, calls = calls, tuple(self._with_own_id(call) for call in calls)
        # What goes back as it came names the calls by the ids they came with.
        verbatim = verbatim if calls == came else None
        self.unanswered = {call.id: call for call in calls}
        body: Json = [[call.id, call.tool, self._masked(call)] for call in calls]
        if text or calls:
            message = Message("assistant", text, calls, verbatim=verbatim)
            self._add(message, {"text": text, "calls": body}, charge)
        elif charge.model:
            self._owe("assistant", {"text": "", "calls": []}, charge)
        return calls

    def answer(self, call_id: str, text: str) -> None:
        """Add the result of a call."""
        self.unanswered.pop(call_id, None)
        self._add(Message("tool", text, call_id=call_id), {"text": text, "call_id": call_id})

    def close(self, result: str = CANCELLED) -> None:
        """Answer what was left unanswered, so that the history stays valid."""
        for call_id in tuple(self.unanswered):
            self.answer(call_id, result)

    def compact(self, kept: int, summary: str, charge: Charge = _FREE) -> None:
        """Put a summary, as it was admitted, in the place of all before message `kept` but the person's."""
        first = self._places[kept] if kept < len(self.messages) else self._place + 1
        written = [n for n in range(kept) if self.messages[n].role == "user" and self.messages[n].words != ""]
        words = with_summary([self.messages[n] for n in written], summary)
        self.messages[:kept] = words
        # One that had to be made for the summary is put where the summarised part began.
        self._places[:kept] = [self._places[n] for n in written] or [self._places[0]] * len(words)
        self._owe("summary", {"text": summary, "kept": first}, charge)

    def clear(self) -> None:
        """Forget the conversation."""
        self.sends_pictures = True
        if self._place:
            self._owe("clear", None)
        self.messages.clear()
        self._places.clear()
        self.unanswered.clear()
        self._ids.clear()

    def take_back(self) -> None:
        """Forget the person's last message, which could not be sent and was not handed over."""
        self.messages.pop()
        place = self._places.pop()
        self._owed = deque(line for line in self._owed if line.place != place)
        self.turn -= 1

    def hand_over(self) -> None:
        """Put what is owed in line for the store; nothing is waited for."""
        try:
            while self._owed:
                self._handed_over.append((self._owed[0], self._keep(self._owed[0])))
                self._owed.popleft()
        except RecordError as error:
            self._warn_once(error)

    async def store(self) -> bool:
        """Return once everything is stored, and whether it is; what cannot be stored now stays owed."""
        self.hand_over()
        failed: list[Line] = []
        try:
            while self._handed_over:
                line, pending = self._handed_over[0]
                try:
                    await pending()
                except RecordError as error:
                    failed.append(line)
                    self._warn_once(error)
                self._handed_over.popleft()
        finally:
            self._owed.extendleft(reversed(failed))
        self._warned = self._warned and bool(self._owed)
        return not self._owed

    def _with_own_id(self, call: ToolCall) -> ToolCall:
        if not call.id or call.id in self._ids:
            call = replace(call, id=new_call_id())
        self._ids.add(call.id)
        return call

    def _add(self, message: Message, content: Json, charge: Charge = _FREE) -> None:
        self._owe(message.role, content, charge)
        self.messages.append(message)
        self._places.append(self._place)

    def _owe(self, role: str, content: Json, charge: Charge = _FREE) -> None:
        self._place += 1
        self._owed.append(
            Line(self._place, self.turn, role, content, _AUTHORS.get(role, Origin.TOOL), charge)
        )

    def _warn_once(self, error: RecordError) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"the conversation cannot be stored at the moment: {error}")


def attached_to(words: str, attached: str) -> Message:
    """Return a message of the person's with something that is not theirs behind it."""
    return Message("user", f"{words}\n\n{attached}", words=words) if attached else Message("user", words)


def with_summary(messages: Sequence[Message], summary: str) -> list[Message]:
    """Return the person's messages in their own words, and behind the last one what came of them all."""
    words = [message.own_words for message in messages]
    if not words:
        return [Message("user", summary, words="")]
    return [*(Message("user", text) for text in words[:-1]), attached_to(words[-1], summary)]
