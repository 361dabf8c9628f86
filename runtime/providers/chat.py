"""What does a streamed reply in the Chat Completions dialect say? Chunks in, events out, no I/O.

Servers that speak this dialect differ in details; where they do, the reading that loses nothing is
taken: ids that are missing are made, ids given twice are told apart, an index is not relied upon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .events import (
    CallRequested,
    ErrorKind,
    ModelError,
    ModelEvent,
    Requested,
    Stopped,
    StopReason,
    TextDelta,
    Usage,
    new_call_id,
    one_line,
)

__all__ = ["ReplyReader", "error_in", "read_chunk"]

_MAX_CALLS = 1000
_MAX_HELD = 32 * 1024 * 1024  # characters of arguments kept until the reply ends
_MAX_ID = 256
_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS_BY_WORD = (
    (re.compile(r"auth|api_key|permission"), ErrorKind.AUTH),
    (re.compile(r"rate_limit|quota|too_many"), ErrorKind.RATE_LIMITED),
    (re.compile(r"invalid|context_length|not_found|bad_request"), ErrorKind.BAD_REQUEST),
)


@dataclass(slots=True)
class _Slot:
    """A call that is still being told."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


class ReplyReader:
    """Assembles one reply. `finish` must be asked at its end; only then are its calls complete."""

    __slots__ = ("_by_index", "_held", "_high", "_reason", "_seen", "_slots", "_usage")

    def __init__(self) -> None:
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._held = 0
        self._high = ""
        self._reason: str | None = None
        self._seen = False
        self._usage: Usage | None = None

    def feed(self, chunk: Mapping[str, Any]) -> str:
        """Take one chunk in and return the text it adds ("" for none).

        Raises:
            ModelError: the chunk is an error message, or the calls exceed every measure.
        """
        self._seen = True
        if (error := error_in(chunk)) is not None:
            raise error
        self._usage = _usage(chunk.get("usage")) or self._usage
        choice = _first_choice(chunk.get("choices"))
        if isinstance(reason := choice.get("finish_reason"), str):
            self._reason = reason
        delta = _mapping(choice.get("delta") or choice.get("message"))
        for piece in _mappings(delta.get("tool_calls")):
            self._add_call(piece)
        return self._whole(_text(delta.get("content")) + _text(delta.get("refusal")))

    def finish(self, *, told: bool) -> Iterator[ModelEvent]:
        """Yield what was held back: calls, usage, end. `told` is whether the server said it was done.

        Raises:
            ModelError: the reply broke off; none of its calls are told, for any may be half of one.
        """
        if not self._seen:
            raise ModelError("the model's server sent an empty answer", ErrorKind.PROTOCOL)
        if not told and self._reason is None:
            raise ModelError("the model's reply broke off before its end", ErrorKind.PROTOCOL)
        if self._high:
            yield TextDelta("\N{REPLACEMENT CHARACTER}")
        reason = self._stop_reason()
        yield from self._calls(cut=reason is StopReason.LENGTH)
        if self._usage is not None:
            yield self._usage
        yield Stopped(reason)

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function = _mapping(piece.get("function"))
        name, arguments = _text(function.get("name")), _arguments(function.get("arguments"))
        slot = self._slot(piece.get("index"), _text(piece.get("id")), name)
        # Some servers repeat the name in each piece; others may cut it.
        if name != slot.name and not slot.arguments:
            slot.name += name
        if arguments:
            slot.arguments.append(arguments)
        self._held += len(arguments) + len(name)
        if self._held > _MAX_HELD or len(self._slots) > _MAX_CALLS:
            raise ModelError("the model asks for more than can be held", ErrorKind.PROTOCOL)

    def _slot(self, index: object, call_id: str, name: str) -> _Slot:
        """Return the call that a piece belongs to; a new id together with a name starts one."""
        if isinstance(index, int):
            slot = self._by_index.get(index)
        else:
            slot = self._slots[-1] if self._slots and not name else None
        if slot is None or (name and call_id and slot.id and call_id != slot.id):
            slot = _Slot(call_id, "")
            self._slots.append(slot)
            if isinstance(index, int):
                self._by_index[index] = slot
        slot.id = slot.id or call_id
        return slot

    def _calls(self, *, cut: bool) -> Iterator[CallRequested]:
        taken: set[str] = set()
        for slot in self._slots:
            arguments = _repaired("".join(slot.arguments))
            # No arguments at all is how many servers write "no arguments"; in a reply that was cut
            # it may as well be a call of which nothing has come yet.
            if not arguments.strip() and not cut:
                arguments = "{}"
            yield CallRequested(Requested(_unique(slot.id, taken), _repaired(slot.name), arguments))

    def _stop_reason(self) -> StopReason:
        if self._reason in (StopReason.LENGTH, StopReason.CONTENT_FILTER):
            return StopReason(self._reason)
        return StopReason.TOOL_CALLS if self._slots else StopReason.STOP

    def _whole(self, text: str) -> str:
        """Return text without lone surrogates; half of a pair at the end waits for its other half."""
        if not text or (not self._high and text.isascii()):
            return text
        text = self._high + text
        self._high = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return _repaired(text[: len(text) - len(self._high)])


def read_chunk(data: str) -> Mapping[str, Any]:
    """Return one chunk of a reply.

    Raises:
        ModelError: it is not a JSON object.
    """
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"the model's server sent broken JSON: {one_line(data, 80)}", ErrorKind.PROTOCOL
        ) from error
    if not isinstance(chunk, dict):
        raise ModelError("the model's server sent JSON that is not an object", ErrorKind.PROTOCOL)
    return chunk


def error_in(body: object) -> ModelError | None:
    """Return the error that a server tells in its body, or None."""
    if isinstance(body, list) and body:
        body = body[0]
    whole = _mapping(body)
    error = whole.get("error") or (whole if whole.get("object") == "error" else None)
    if not error:
        return None
    facts = _mapping(error)
    message = one_line(_text(facts.get("message")) or _text(error) or json.dumps(error))
    return ModelError(f"the model's server reports: {message}", _kind(facts))


def _kind(facts: Mapping[str, Any]) -> ErrorKind:
    words = " ".join(str(facts.get(key, "")) for key in ("code", "type", "status")).lower()
    for status, kind in (
        ("401", ErrorKind.AUTH),
        ("429", ErrorKind.RATE_LIMITED),
        ("400", ErrorKind.BAD_REQUEST),
    ):
        if status in words.split():
            return kind
    return next((kind for pattern, kind in _KINDS_BY_WORD if pattern.search(words)), ErrorKind.UNAVAILABLE)


def _first_choice(value: object) -> Mapping[str, Any]:
    return next((choice for choice in _mappings(value) if choice.get("index", 0) in (0, None)), {})


def _usage(value: object) -> Usage | None:
    counts = _mapping(value)
    spent = [counts.get(key) for key in ("prompt_tokens", "completion_tokens")]
    if not any(isinstance(count, int) for count in spent):
        return None
    return Usage(*(max(0, count) if isinstance(count, int) else 0 for count in spent))


def _arguments(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else _text(value)


def _text(value: object) -> str:
    """Return a text, or the texts in a list of content parts; whatever else stands there is none."""
    if isinstance(value, str):
        return value
    return "".join(_text(part.get("text")) for part in _mappings(value) if part.get("type") == "text")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _repaired(text: str) -> str:
    """Return text in which pairs of surrogates are characters and lone ones are replaced."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unique(call_id: str, taken: set[str]) -> str:
    """Return an id that no call of this reply has yet, and note it as taken."""
    call_id = _repaired(call_id) if len(call_id) <= _MAX_ID else ""
    if not call_id or call_id in taken:
        call_id = new_call_id()
    taken.add(call_id)
    return call_id
