"""Parse a streamed reply in the Chat Completions dialect into our events. No I/O.

Servers that speak this dialect differ in details; where they do, it is read in the way that loses nothing:
missing ids are made up, ids given twice are made distinct, an index is not relied upon. What some of them
want back with the next request is collected beside it. `request.py` writes a request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from leeward.security.call import ToolCall
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass

from ..interface import (
    CallRequested,
    ErrorKind,
    ModelError,
    ModelEvent,
    Reasoning,
    Stopped,
    StopReason,
    TextDelta,
    Usage,
    Verbatim,
)
from ..wire import TextJoiner, count, error_in, mapping, mappings, read_object, repaired, text_of, unique_id

__all__ = ["ChatReader"]

_MAX_CALLS = 1000
_MAX_HELD = 32 * 1024 * 1024  # characters kept until the reply ends
_REASONS = {
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.CONTENT_FILTER,
    "safety": StopReason.CONTENT_FILTER,
    "recitation": StopReason.CONTENT_FILTER,
    "prohibited_content": StopReason.CONTENT_FILTER,
    "blocklist": StopReason.CONTENT_FILTER,
    "spii": StopReason.CONTENT_FILTER,
}


@dataclass(slots=True)
class _Slot:
    """A call that is still arriving."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    extra: Json = None

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are a JSON object, so that nothing can follow."""
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads("".join(self.arguments)), dict)
        except (ValueError, RecursionError):
            return False


class ChatReader:
    """Assembles one reply; only when `finish` is asked at its end are the calls complete."""

    __slots__ = (
        "_by_index",
        "_details",
        "_extra",
        "_held",
        "_owner",
        "_reason",
        "_seen",
        "_slots",
        "_text",
        "_thought",
        "_usage",
        "done",
    )

    def __init__(self, owner: str = "") -> None:
        self.done: bool = False
        self._owner = owner
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._held = 0
        self._text = TextJoiner()
        self._reason = ""
        self._seen = False
        self._usage: Usage | None = None
        self._thought: list[str] = []
        self._details: dict[tuple[object, object], dict[str, Any]] = {}
        self._extra: Json = None

    def feed(self, data: str) -> str | Sequence[ModelEvent]:
        """Take the data of one event in and return what it tells; a piece of text alone as it is.

        Raises:
            ModelError: it is an error message, cannot be read, or the reply exceeds every measure.
        """
        if data[:1] == "[" and data.strip() == "[DONE]":
            self.done = True
            return ""
        chunk = read_object(data)
        self._seen = True
        if (chunk.get("error") or chunk.get("object") == "error") and (error := error_in(chunk)) is not None:
            raise error
        if usage := chunk.get("usage"):
            self._usage = _usage(usage) or self._usage
        choice = _first_choice(chunk.get("choices"))
        if isinstance(reason := choice.get("finish_reason"), str):
            self._reason = reason
        delta = mapping(choice.get("delta") or choice.get("message"))
        text = delta.get("content")
        if len(delta) == 1 and type(text) is str:
            # Nearly every chunk says a piece of text and nothing else.
            return self._text.feed(text)
        return self._delta(delta)

    def finish(self) -> Iterator[ModelEvent]:
        """Yield what was held back: calls, what goes back verbatim, usage, end.

        Raises:
            ModelError: the reply broke off; its calls are dropped, for any may be half of one.
        """
        if not self._seen:
            raise ModelError("the model's server sent an empty answer", ErrorKind.UNAVAILABLE)
        if not self.done and not self._reason:
            raise ModelError("the model's reply broke off before its end", ErrorKind.UNAVAILABLE)
        if not self._slots and "malformed_function_call" in self._reason.lower():
            raise ModelError("the model's call could not be read by its own service", ErrorKind.UNAVAILABLE)
        if left := self._text.flush():
            yield TextDelta(left)
        reason = self._stop_reason()
        yield from self._calls(cut=reason is StopReason.LENGTH)
        if parts := self._parts():
            yield Verbatim(self._owner, parts)
        if self._usage is not None:
            yield self._usage
        yield Stopped(reason)

    def _delta(self, delta: Mapping[str, Any]) -> Sequence[ModelEvent]:
        events: list[ModelEvent] = []
        for piece in mappings(delta.get("tool_calls")):
            self._add_call(piece)
        self._extra = delta.get("extra_content") or self._extra
        thought = self._thoughts(delta)
        text = self._text.feed(text_of(delta.get("content")) + text_of(delta.get("refusal")))
        if mapping(mapping(delta.get("extra_content")).get("google")).get("thought") is True:
            # Google tells its model's thoughts as content between tags, and marks them.
            thought, text = text.removeprefix("<thought>").removesuffix("</thought>"), ""
        if thought:
            events.append(Reasoning(repaired(thought)))
        if text:
            events.append(TextDelta(text))
        return events

    def _thoughts(self, delta: Mapping[str, Any]) -> str:
        """Return the reasoning in a piece, and keep what its service wants back of it."""
        kept = text_of(delta.get("reasoning_content"))
        if kept:
            self._thought.append(kept)
            self._hold(len(kept))
        for detail in mappings(delta.get("reasoning_details")):
            self._add_detail(detail)
        return kept or text_of(delta.get("reasoning"))

    def _add_detail(self, detail: Mapping[str, Any]) -> None:
        """Put the pieces of one block of reasoning together: texts are continued, other facts replaced."""
        key = detail.get("index"), detail.get("type")
        whole = self._details.setdefault((str(key[0]), str(key[1])), {})
        for name, value in detail.items():
            if name in ("text", "summary", "data") and isinstance(value, str):
                whole[name] = whole.get(name, "") + value
                self._hold(len(value))
            elif value is not None:
                whole[name] = value

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function = mapping(piece.get("function"))
        name, arguments = text_of(function.get("name")), _arguments(function.get("arguments"))
        slot = self._slot(piece.get("index"), text_of(piece.get("id")), name, arguments)
        # Some servers repeat the name in each piece; others may cut it.
        if name != slot.name and not slot.arguments:
            slot.name += name
        if arguments:
            slot.arguments.append(arguments)
        slot.extra = piece.get("extra_content") or slot.extra
        self._hold(len(arguments) + len(name))

    def _slot(self, index: object, call_id: str, name: str, arguments: str) -> _Slot:
        """Return the call that a piece belongs to.

        A name together with a new id, or with arguments after those of a call that is whole, starts one.
        """
        if isinstance(index, int):
            slot = self._by_index.get(index)
        else:
            slot = self._slots[-1] if self._slots and not name else None
        if slot is not None and name:
            known = call_id and slot.id
            if (known and call_id != slot.id) or (not known and arguments and slot.is_whole):
                slot = None
        if slot is None:
            slot = _Slot(call_id, "")
            self._slots.append(slot)
            if isinstance(index, int):
                self._by_index[index] = slot
        slot.id = slot.id or call_id
        return slot

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > _MAX_HELD or len(self._slots) > _MAX_CALLS:
            raise ModelError("the model asks for more than can be held", ErrorKind.PROTOCOL)

    def _calls(self, *, cut: bool) -> Iterator[CallRequested]:
        taken: set[str] = set()
        for slot in self._slots:
            arguments = repaired("".join(slot.arguments))
            # No arguments at all is how many servers write "no arguments"; in a reply that was cut
            # it may as well be a call of which nothing has come yet.
            if not arguments.strip() and not cut:
                arguments = "{}"
            yield CallRequested(ToolCall(unique_id(slot.id, taken), repaired(slot.name), arguments))

    def _parts(self) -> tuple[Json, ...]:
        """Return what goes back: first the message's own fields, then those of each call."""
        fields: dict[str, Json] = {}
        if self._thought:
            fields["reasoning_content"] = "".join(self._thought)
        if self._details:
            fields["reasoning_details"] = list(self._details.values())
        if self._extra:
            fields["extra_content"] = self._extra
        calls: list[Json] = [{"extra_content": slot.extra} if slot.extra else {} for slot in self._slots]
        return (fields, *calls) if fields or any(calls) else ()

    def _stop_reason(self) -> StopReason:
        if (reason := _REASONS.get(self._reason.lower())) is not None:
            return reason
        return StopReason.TOOL_CALLS if self._slots else StopReason.STOP


def _first_choice(value: object) -> Mapping[str, Any]:
    if type(value) is list and len(value) == 1 and type(value[0]) is dict and value[0].get("index") == 0:
        return value[0]
    return next((choice for choice in mappings(value) if choice.get("index", 0) in (0, None)), {})


def _usage(value: object) -> Usage | None:
    counts = mapping(value)
    prompt, completion = count(counts.get("prompt_tokens")), count(counts.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    # Where a model's thoughts are counted in the total alone, they were output all the same.
    completion = max(completion or 0, (count(counts.get("total_tokens")) or 0) - (prompt or 0))
    cached = count(mapping(counts.get("prompt_tokens_details")).get("cached_tokens"))
    if cached is None:
        cached = count(counts.get("prompt_cache_hit_tokens"))
    return Usage(prompt or 0, completion, min(cached or 0, prompt or 0))


def _arguments(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else text_of(value)
