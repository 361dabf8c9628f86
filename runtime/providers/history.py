"""Repair a conversation so that any service accepts it: every call answered once, ids and names valid.

Services refuse a whole conversation over one message: a call without its result, a result without its call,
an id or a name with a character they do not accept, arguments that are not JSON. A conversation may come from
another model, from a turn that was cancelled, or from a file; here it is made valid. Each dialect writes it
down in its own form.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from leeward.security.call import ToolCall
from leeward.security.lazy import regex

from .interface import Message
from .wire import repaired

__all__ = ["NO_ANSWER", "History", "object_text"]

NO_ANSWER = "cancelled: this was stopped before it was done"
"""What a call is answered with whose result is missing."""

_NOT_IN_NAMES = regex(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64


class History:
    """A conversation in which every service finds what it insists on.

    Each call has an id of its own that `is_id` accepts, a name of letters, digits, `_` and `-`, and an
    object as its arguments; it is answered exactly once, right behind the message that asked for it, in
    the order asked. Results that answer nothing and replies that say nothing are left out. The same
    conversation always becomes the same messages, for services cache by them.

    A conversation grows by a few messages with each request. What was made of the others is kept.
    """

    def __init__(self, is_id: Callable[[str], bool]) -> None:
        self._is_id = is_id
        self._begin()

    def _begin(self) -> None:
        """Forget what was made: of no message anything is kept."""
        self._settled: list[Message] = []
        self._messages: list[Message] = []
        self._kept = 0
        self._taken: set[str] = set()
        self._latest: set[str] = set()

    def sendable(self, messages: Sequence[Message]) -> tuple[Sequence[Message], int]:
        """Return the messages to send, and how many of them are the same as the last time."""
        if not self._goes_on(messages):
            self._begin()
        kept = self._kept
        del self._messages[kept:]
        self._latest.clear()
        for index in range(len(self._settled), len(messages)):
            message = messages[index]
            if message.role == "assistant":
                # Results are looked for up to the next reply, so everything before one is settled.
                self._settle(messages, index)
                self._messages.extend(self._replied(messages, index))
            elif message.role != "tool":
                self._messages.append(message)
        return self._messages, kept

    def _goes_on(self, messages: Sequence[Message]) -> bool:
        """Whether a conversation begins with what is settled, and goes on so that it stays settled."""
        settled = len(self._settled)
        if len(messages) <= settled or messages[settled].role != "assistant":
            return False
        return all(a is b or a == b for a, b in zip(self._settled, messages, strict=False))

    def _settle(self, messages: Sequence[Message], index: int) -> None:
        self._settled.extend(messages[len(self._settled) : index])
        self._kept = len(self._messages)
        self._taken |= self._latest
        self._latest.clear()

    def _replied(self, messages: Sequence[Message], index: int) -> Iterator[Message]:
        """Yield a reply and the results of its calls."""
        message = messages[index]
        if message.calls:
            calls = tuple(_call(call, self._id(call.id)) for call in message.calls)
            yield message if calls == message.calls else replace(message, calls=calls)
            yield from _answers(messages, index, calls)
        elif message.text.strip():
            yield message

    def _id(self, call_id: str) -> str:
        """Return the id itself, or one made of it that is accepted and new."""
        seed, tries = call_id, 0
        while not self._is_id(call_id) or call_id in self._taken or call_id in self._latest:
            digest = hashlib.sha256(f"{tries}:{seed}".encode("utf-8", "surrogatepass")).hexdigest()
            call_id, tries = f"call_{digest[:24]}", tries + 1
        self._latest.add(call_id)
        return call_id


def _answers(messages: Sequence[Message], asked: int, calls: Sequence[ToolCall]) -> Iterator[Message]:
    """Yield one result for each call; of two calls with one id, the first result is the first one's."""
    found: dict[str, deque[str]] = defaultdict(deque)
    for index in range(asked + 1, len(messages)):
        message = messages[index]
        if message.role == "assistant":
            break
        if message.role == "tool":
            found[message.call_id].append(message.text)
    for was, call in zip(messages[asked].calls, calls, strict=True):
        text = found[was.id].popleft() if found[was.id] else NO_ANSWER
        yield Message("tool", text, call_id=call.id)


def _call(call: ToolCall, call_id: str) -> ToolCall:
    name = _NOT_IN_NAMES.sub("_", call.tool)[:_LONGEST_NAME] or "unnamed"
    return ToolCall(call_id, name, object_text(call.arguments))


def object_text(arguments: str) -> str:
    """Return the arguments of an earlier call as a JSON object, whatever the model had written."""
    try:
        value = json.loads(arguments)
        # Python reads NaN and numbers without bounds, of which JSON has none.
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return repaired(json.dumps({"invalid_json": arguments}, ensure_ascii=False))
    # An escape may name half a character, which not every parser takes.
    return arguments if "\\" not in arguments and arguments.isascii() else repaired(text)
