"""Parse a streamed reply in Anthropic's Messages dialect into our events. No I/O.

A reply is a list of blocks. Those that hold the model's thoughts are signed and go back verbatim; the reader
keeps the order of all blocks, because the signature covers it. `request.py` writes a request.
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

__all__ = ["MessageReader"]

_MAX_BLOCKS = 2000
_MAX_HELD = 32 * 1024 * 1024  # characters kept until the reply ends
_REASONS = {
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "pause_turn": StopReason.STOP,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.CONTENT_FILTER,
}
_CONTINUED = {"thinking_delta": "thinking", "signature_delta": "signature", "text_delta": "text"}
"""Which field of a block a piece continues."""

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass(slots=True)
class _Block:
    """A block that is still arriving: how it began, and the pieces of its fields and its input."""

    start: Mapping[str, object]
    fields: dict[str, list[str]] = field(default_factory=dict)
    input: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return text_of(self.start.get("type"))

    def whole(self) -> dict[str, Any]:
        """Return the block as it is once all its pieces have come."""
        continued = {
            name: text_of(self.start.get(name)) + repaired("".join(pieces))
            for name, pieces in self.fields.items()
        }
        return {**self.start, **continued}


class MessageReader:
    """Assembles one reply; only when `finish` is asked at its end are the calls complete."""

    __slots__ = ("_blocks", "_by_index", "_counts", "_held", "_owner", "_reason", "_seen", "_text", "done")

    def __init__(self, owner: str = "") -> None:
        self.done: bool = False
        self._owner = owner
        self._blocks: list[_Block] = []
        self._by_index: dict[str, _Block] = {}
        self._counts: dict[str, int] = {}
        self._held = 0
        self._reason = ""
        self._seen = False
        self._text = TextJoiner()

    def feed(self, data: str) -> str | Sequence[ModelEvent]:
        """Take the data of one event in and return what it tells; a piece of text alone as it is.

        Kinds of events that are new say nothing.

        Raises:
            ModelError: it is an error message, cannot be read, or the reply exceeds every measure.
        """
        event = read_object(data)
        self._seen = True
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event.get("index"), mapping(event.get("delta")))
            case "content_block_start":
                return self._start(event.get("index"), mapping(event.get("content_block")))
            case "message_start":
                self._count(mapping(event.get("message")).get("usage"))
            case "message_delta":
                self._count(event.get("usage"))
                self._reason = text_of(mapping(event.get("delta")).get("stop_reason")) or self._reason
            case "message_stop":
                self.done = True
            case "message":
                return self._whole(event)
            case _ if (error := error_in(event)) is not None:
                raise error
        return ""

    def finish(self) -> Iterator[ModelEvent]:
        """Yield what was held back: calls, what goes back verbatim, usage, end.

        Raises:
            ModelError: the reply broke off; its calls are dropped, for any may be half of one.
        """
        if not self._seen:
            raise ModelError("the model's server sent an empty answer", ErrorKind.UNAVAILABLE)
        if not self.done and not self._reason:
            raise ModelError("the model's reply broke off before its end", ErrorKind.UNAVAILABLE)
        if left := self._text.flush():
            yield TextDelta(left)
        calls = list(self._calls())
        yield from calls
        if parts := self._parts():
            yield Verbatim(self._owner, parts)
        if self._counts:
            yield self._usage()
        yield Stopped(self._stop_reason(has_calls=bool(calls)))

    def _whole(self, message: Mapping[str, Any]) -> list[ModelEvent]:
        """Take in a reply that was not streamed."""
        self.done = True
        self._count(message.get("usage"))
        self._reason = text_of(message.get("stop_reason"))
        events: list[ModelEvent] = []
        for index, block in enumerate(mappings(message.get("content"))):
            shown = self._start(index, block)
            events += ([TextDelta(shown)] if shown else []) if isinstance(shown, str) else shown
        return events

    def _start(self, index: object, start: Mapping[str, Any]) -> str | Sequence[ModelEvent]:
        block = _Block(start)
        self._blocks.append(block)
        # An index may be given again: what follows then continues the newer block.
        self._by_index[str(index)] = block
        if len(self._blocks) > _MAX_BLOCKS:
            raise ModelError("the model's reply holds more than can be held", ErrorKind.PROTOCOL)
        return self._text_events(block.kind, text_of(start.get("text")) or text_of(start.get("thinking")))

    def _delta(self, index: object, delta: Mapping[str, object]) -> str | Sequence[ModelEvent]:
        kind = delta.get("type")
        if kind == "text_delta" and type(text := delta.get("text")) is str:
            self._continue(index, "text", text)
            return self._text.feed(text)
        if kind == "input_json_delta":
            piece = text_of(delta.get("partial_json"))
            self._block(index).input.append(piece)
            self._hold(len(piece))
        elif kind in _CONTINUED:
            name = _CONTINUED[kind]
            self._continue(index, name, text_of(delta.get(name)))
            return self._text_events(name, text_of(delta.get(name)))
        return ""

    def _continue(self, index: object, name: str, piece: str) -> None:
        self._block(index).fields.setdefault(name, []).append(piece)
        self._hold(len(piece))

    def _block(self, index: object) -> _Block:
        """Return the block that a piece belongs to.

        Raises:
            ModelError: no such block was begun.
        """
        block = self._by_index.get(str(index))
        if block is None:
            raise ModelError("the model's server continued what it never began", ErrorKind.PROTOCOL)
        return block

    def _text_events(self, kind: str, text: str) -> str | Sequence[ModelEvent]:
        if kind == "text":
            return self._text.feed(text)
        return (Reasoning(repaired(text)),) if kind == "thinking" and text else ()

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > _MAX_HELD:
            raise ModelError("the model's reply holds more than can be held", ErrorKind.PROTOCOL)

    def _calls(self) -> Iterator[CallRequested]:
        taken: set[str] = set()
        cut = _REASONS.get(self._reason) is StopReason.LENGTH
        for block in self._blocks:
            if block.kind == "tool_use":
                arguments = repaired("".join(block.input))
                # No input means no arguments, but not in a reply that was cut.
                if not arguments.strip() and not (cut and block is self._blocks[-1]):
                    arguments = json.dumps(block.start.get("input") or {}, ensure_ascii=False)
                call_id = unique_id(text_of(block.start.get("id")), taken)
                name = repaired(text_of(block.start.get("name")))
                yield CallRequested(ToolCall(call_id, name, repaired(arguments)))

    def _parts(self) -> tuple[Json, ...]:
        """Return all blocks, if any says more than text and calls do; a call only marks its place."""
        if all(block.kind in ("text", "tool_use") for block in self._blocks):
            return ()
        return tuple({"type": "tool_use"} if b.kind == "tool_use" else _kept(b) for b in self._blocks)

    def _count(self, usage: object) -> None:
        """Take counts in; those of the end go before those of the beginning."""
        counts = mapping(usage)
        found = {name: count(counts.get(name)) for name in _COUNTS}
        self._counts.update({name: number for name, number in found.items() if number is not None})

    def _usage(self) -> Usage:
        plain, output, read, written = (self._counts.get(name, 0) for name in _COUNTS)
        return Usage(plain + read + written, output, read, written)

    def _stop_reason(self, *, has_calls: bool) -> StopReason:
        reason = _REASONS.get(self._reason, StopReason.STOP)
        if reason in (StopReason.STOP, StopReason.TOOL_CALLS):
            return StopReason.TOOL_CALLS if has_calls else StopReason.STOP
        return reason


def _kept(block: _Block) -> dict[str, Json]:
    whole = block.whole()
    if block.input:
        try:
            whole["input"] = json.loads("".join(block.input))
        except (ValueError, RecursionError):
            whole["input"] = {}
    return whole
