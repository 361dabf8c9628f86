"""Fit a conversation into its model's context window before it is sent.

The oldest results of tools, then the arguments of past calls, are replaced by a notice in what is sent and
nowhere else. Where that is not enough, a summary may replace the rest (`compaction.py`). What the person
wrote is never removed; where that alone is too much, nothing is sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass, regex

from ..providers.interface import Message, Request, ToolView

if TYPE_CHECKING:
    from leeward.security.call import ToolCall

__all__ = ["ContextWindow", "MessageSize", "TooLong", "first_kept", "oldest_first", "tokens_in"]


_WORTH_IT = 80  # tokens below which cutting gains nothing


@dataclass(frozen=True, slots=True)
class MessageSize:
    """A message: who says it ("user", "assistant" or "tool"), its tokens, and whether it asks for calls."""

    role: str
    size: float
    has_calls: bool = False


def oldest_first(gains: Iterable[tuple[int, float]], excess: float) -> Iterator[int]:
    """Yield the places of what is cut until so many tokens are gained; `gains` tells them, oldest first.

    What gains next to nothing stays as it is.
    """
    for place, gain in gains:
        if excess <= 0:
            return
        if gain > _WORTH_IT:
            excess -= gain
            yield place


def first_kept(messages: Sequence[MessageSize], tail: float) -> int:
    """Return the first message that stays when all before it are summed up, 0 if there is nothing to sum up.

    At least what the model has not read yet stays: the person's last message, or the results of its last
    calls. So do the messages before that, as far as `tail` tokens reach. A result stays with its call.
    """
    unread = [n for n, message in enumerate(messages) if message.role == "user" or message.has_calls]
    kept = unread[-1] if unread else 0
    left = tail
    for place in reversed(range(kept)):
        left -= messages[place].size
        if left < 0:
            break
        if messages[place].role != "tool":
            kept = place
    return kept if any(message.role != "user" for message in messages[:kept]) else 0


_PER_PICTURE = 1600  # tokens, about what services count for a picture that they scale to their bound
_PER_MESSAGE = 8  # tokens around a message or a tool, for its role and its marks
_FIRST_GUESS = 1.25
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 4.0
_LARGEST_RESERVE = 8192  # tokens left free for the reply, where that is less than an eighth of all
_ROOMY = 0.75  # down to which share of the room results are shortened at once
_TAIL = 0.25  # which share of the room the latest messages have that no summary replaces
_LONGEST_TAIL = 2000
_LONG = 400  # characters of arguments that are left out first
_SPAN = regex(r"«UNTRUSTED:([0-9a-f]{32}):[^»]{0,64}»")


class TooLong(Exception):
    """A request would be longer than its model can read; the message says what to do."""


def tokens_in(text: str) -> float:
    """Estimate the tokens of a text: four ASCII characters each, and others by the bytes they take."""
    if text.isascii():
        return len(text) / 4
    more = len(text.encode("utf-8", "replace")) - len(text)
    return len(text) / 4 + 0.4 * more


class ContextWindow:
    """How one conversation fits into `tokens` (0: any length).

    Estimates are corrected by what services count. A result that was shortened stays so, and several
    are shortened at once: services keep the beginning of a conversation that does not change.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._factor = _FIRST_GUESS
        self._views: tuple[ToolView, ...] = ()
        self._views_size = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin with another conversation."""
        self._messages: list[Message] = []
        self._sent: list[Message] = []
        self._sizes: list[float] = []
        self._size = 0.0
        self._request_size = 0.0

    @property
    def expected(self) -> int:
        """How many tokens the last request is thought to have."""
        return round(self._request_size * self._factor)

    @property
    def room(self) -> float:
        """How many tokens a request may have that nothing is sent along with, infinite where any may be."""
        return (self._tokens - self._reserve) / self._factor if self._tokens else math.inf

    def learn(self, input_tokens: int) -> None:
        """Take in what a service counted for the last request."""
        if input_tokens > 0 and self._request_size:
            factor = input_tokens / self._request_size
            self._factor = min(max(factor, _LEAST_FACTOR), _MOST_FACTOR)

    def request(self, system: Message, messages: Sequence[Message], tools: tuple[ToolView, ...]) -> Request:
        """Return the request to send.

        Raises:
            TooLong: it would not fit, whatever is shortened.
        """
        self._take_in(messages)
        around = self._around(system, tools)
        if self._tokens:
            self._fit(around)
        self._request_size = around + self._size
        return Request((system, *self._sent), tools)

    def is_full(self, system: Message, messages: Sequence[Message], tools: tuple[ToolView, ...]) -> bool:
        """Whether leaving out what the model has read before is not enough; it is left out by then."""
        self._take_in(messages)
        room = self.room - self._around(system, tools)
        self._shorten_read(room)
        return self._size > room

    def first_kept(self) -> int:
        """Return which message is the first to stay if all before it are summed up, 0 if that cannot help."""
        weighed = [
            MessageSize(message.role, size, bool(message.calls))
            for message, size in zip(self._sent, self._sizes, strict=True)
        ]
        return first_kept(weighed, self.room * _TAIL)

    def shorten(self, messages: Sequence[Message]) -> int:
        """Leave out every result that can be, and return how many of them are left out now."""
        self._take_in(messages)
        self._shorten(range(len(self._sent)), -1, _without_result)
        return sum(now is not was for now, was in zip(self._sent, self._messages, strict=True))

    def _take_in(self, messages: Sequence[Message]) -> None:
        """Look at what is new; a conversation that is not the one before is begun with."""
        known = len(self._messages)
        if known > len(messages) or (known and messages[known - 1] is not self._messages[-1]):
            self.begin()
        for message in messages[len(self._messages) :]:
            self._messages.append(message)
            self._sent.append(message)
            self._sizes.append(_size(message))
            self._size += self._sizes[-1]

    @property
    def _reserve(self) -> int:
        return min(_LARGEST_RESERVE, self._tokens // 8)

    def _around(self, system: Message, tools: tuple[ToolView, ...]) -> float:
        if tools != self._views:
            self._views, self._views_size = tools, sum(map(_tool_size, tools))
        return _size(system) + self._views_size

    def _fit(self, around: float) -> None:
        room = self.room - around
        unseen = self._shorten_read(room)
        # What the model has not seen yet goes late, and no more of it than must.
        self._shorten(range(unseen, len(self._sent)), room, _without_result)
        self._shorten(range(unseen, len(self._sent)), room, _without_arguments)
        if self._size > room:
            needed = round((around + self._size) * self._factor) + self._reserve
            raise TooLong(
                f"the conversation needs about {needed} tokens, more than the {self._tokens} of [agent] "
                "context_tokens, and nothing was sent; /clear begins anew"
            )

    def _shorten_read(self, room: float) -> int:
        """Shorten what the model has read before, if there is need; return where the rest begins."""
        unseen = next((n for n in reversed(range(len(self._sent))) if self._sent[n].calls), 0)
        if self._size > room:
            self._shorten(range(unseen), room * _ROOMY, _without_result)
            self._shorten(range(unseen), room * _ROOMY, _without_arguments)
        return unseen

    def _shorten(self, places: Iterable[int], room: float, without: Callable[[Message], Message]) -> None:
        """Shorten messages, oldest first, until they fit; what was shortened once stays as it is."""
        shorter: dict[int, Message] = {}

        def gains() -> Iterator[tuple[int, float]]:
            for place in places:
                message = self._sent[place]
                if message is self._messages[place] and (short := without(message)) is not message:
                    shorter[place] = short
                    yield place, self._sizes[place] - _size(short)

        for place in oldest_first(gains(), self._size - room):
            self._sent[place] = shorter[place]
            self._size -= self._sizes[place]
            self._sizes[place] = _size(shorter[place])
            self._size += self._sizes[place]


def _size(message: Message) -> float:
    size = _PER_MESSAGE + tokens_in(message.text) + _PER_PICTURE * len(message.pictures)
    for call in message.calls:
        size += _PER_MESSAGE + tokens_in(call.tool) + tokens_in(call.arguments)
    return size if message.verbatim is None else size + tokens_in(repr(message.verbatim.parts))


def _tool_size(view: ToolView) -> float:
    return _PER_MESSAGE + tokens_in(view.name) + tokens_in(view.description) + tokens_in(repr(view.schema))


def _without_result(message: Message) -> Message:
    """Return a result as a notice; our own lines behind its span stay, such as where it is kept."""
    if message.role != "tool":
        return message
    text = message.text
    begin = _SPAN.match(text)
    end = text.rfind(f"«END:{begin[1]}»") if begin is not None else -1
    tail = text[end:].partition("»")[2] if end >= 0 else ""
    notice = f"[a result of {len(text)} characters was left out here, so that the rest fits]"
    return replace(message, text=notice + tail if len(tail) <= _LONGEST_TAIL else notice)


def _without_arguments(message: Message) -> Message:
    """Return a reply with a notice in place of long arguments; calls keep their ids and names."""
    if all(len(call.arguments) <= _LONG for call in message.calls):
        return message
    calls = (replace(c, arguments=_left_out(c)) if len(c.arguments) > _LONG else c for c in message.calls)
    return replace(message, calls=tuple(calls))


def _left_out(call: ToolCall) -> str:
    return json.dumps({"left_out": f"{len(call.arguments)} characters of arguments, so that the rest fits"})
