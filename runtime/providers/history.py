"""What of a conversation may be sent to any service? Every call answered once, and in words all accept.

Services refuse a whole conversation over one message: a call without its result, a result without its
call, an id or a name with a character they do not know, arguments that are not JSON. A conversation may
come from another model, from a turn that was cancelled, or from a file; here it is made sound. How a
dialect writes it down is left to the dialect.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from .events import Message, Requested
from .wire import repaired

__all__ = ["NO_ANSWER", "object_text", "sendable"]

NO_ANSWER = "cancelled: this was stopped before it was done"
"""What a call is answered with whose result is missing."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64


def sendable(messages: Sequence[Message], is_id: Callable[[str], bool]) -> list[Message]:
    """Return a conversation in which every service finds what it insists on.

    Each call has an id of its own that `is_id` accepts, a name of letters, digits, `_` and `-`, and an
    object as its arguments; it is answered exactly once, right behind the message that asked for it, in
    the order asked. Results that answer nothing and replies that say nothing are left out. The same
    conversation always gives the same bytes, for services cache by them.
    """
    told: list[Message] = []
    taken: set[str] = set()
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue
        if message.role != "assistant":
            told.append(message)
        elif message.calls:
            calls = tuple(_call(call, _id(call.id, taken, is_id)) for call in message.calls)
            told.append(replace(message, calls=calls))
            told.extend(_answers(messages, index, calls))
        elif message.text.strip():
            told.append(message)
    return told


def _answers(messages: Sequence[Message], asked: int, calls: Sequence[Requested]) -> Iterator[Message]:
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


def _call(call: Requested, call_id: str) -> Requested:
    name = _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_NAME] or "unnamed"
    return Requested(call_id, name, object_text(call.arguments))


def _id(call_id: str, taken: set[str], is_id: Callable[[str], bool]) -> str:
    """Return the id itself, or one made of it that is accepted and new."""
    seed, tries = call_id, 0
    while not is_id(call_id) or call_id in taken:
        digest = hashlib.sha256(f"{tries}:{seed}".encode("utf-8", "surrogatepass")).hexdigest()
        call_id, tries = f"call_{digest[:24]}", tries + 1
    taken.add(call_id)
    return call_id


def object_text(arguments: str) -> str:
    """Return the arguments of an earlier call as a JSON object, whatever the model had written."""
    try:
        value = json.loads(arguments, parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        value = {"invalid_json": arguments}
    elif "\\" not in arguments and arguments.isascii():
        return arguments
    # An escape may name half a character, which not every parser takes.
    return repaired(json.dumps(value, ensure_ascii=False))


def _refuse(constant: str) -> None:
    """Refuse NaN and the infinities, which Python reads although JSON has none."""
    raise ValueError(constant)
