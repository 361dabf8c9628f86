"""Write requests in the Chat Completions dialect, for OpenAI and every server that speaks it.

`response.py` reads the reply; the network is left to `runtime/providers/remote.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import islice
from typing import ClassVar

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass

from ..history import History
from ..interface import Message, ModelInfo, Request, ToolView
from ..wire import assembled, base64_of, count, encoded, mappings, text_of
from .response import ChatReader

__all__ = ["ChatCompletions", "ChatWriter"]

_LONGEST_ID = 40  # characters that OpenAI takes in the id of a call
_RETURNED = ("reasoning_content", "reasoning_details", "extra_content")
_WINDOWS = ("context_length", "context_window", "max_model_len")  # how servers name what a model can read


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """The dialect; `fields` go into every request, and `bound` is what the server calls a reply's bound."""

    fields: Mapping[str, Json] = field(default_factory=dict)
    bound: str = "max_tokens"
    with_usage: bool = True

    path: ClassVar[str] = "/chat/completions"
    headers: ClassVar[Mapping[str, str]] = {}

    def base_path(self, path: str) -> str:
        """Return a base URL's path; the dialect's own may have been written with it."""
        return path.rstrip("/").removesuffix(self.path)

    def writer(self, model: str, owner: str) -> ChatWriter:
        """Return a writer of requests to a model."""
        return ChatWriter(self, model, owner)

    def tool(self, view: ToolView) -> dict[str, Json]:
        """Return the description of a tool."""
        return {"name": view.name, "description": view.description, "parameters": dict(view.schema)}

    def message(self, message: Message, owner: str) -> dict[str, Json]:
        """Return one message, with what its own model wants back if that is `owner`."""
        if message.role == "tool":
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        own, extras = self.verbatim(message, owner)
        encoded: dict[str, Json] = {"role": message.role, "content": _content(message), **own}
        if message.calls:
            encoded["content"] = message.text or None
            encoded["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.tool, "arguments": call.arguments},
                    **extra,
                }
                for call, extra in zip(message.calls, extras, strict=True)
            ]
        return encoded

    def verbatim(self, message: Message, owner: str) -> tuple[Mapping[str, Json], list[Mapping[str, Json]]]:
        """Return the fields that go back with a message, and those that go back with each of its calls."""
        none: list[Mapping[str, Json]] = [{}] * len(message.calls)
        kept = message.verbatim
        if kept is None or kept.owner != owner or not kept.parts:
            return {}, none
        own, *extras = map(_returned, kept.parts)
        return own, extras if len(extras) == len(none) else none

    def reader(self, owner: str) -> ChatReader:
        """Return a reader for one reply."""
        return ChatReader(owner)

    def without(self, refusal: str) -> ChatCompletions | None:
        """Return the dialect in an older or newer form, if it is a field of ours that was refused."""
        if self.with_usage and "stream_options" in refusal:
            return replace(self, with_usage=False)
        if self.bound == "max_tokens" and "max_completion_tokens" in refusal:
            return replace(self, bound="max_completion_tokens")
        return None

    def models(self, answer: Mapping[str, object]) -> tuple[list[ModelInfo], Mapping[str, str]]:
        """Return the models a service lists; the dialect knows no second page."""
        listed = [*mappings(answer.get("data")), *mappings(answer.get("models"))]
        return [_info(entry) for entry in listed if text_of(entry.get("id"))], {}


class ChatWriter:
    """Writes requests to one model, each message and each list of tools once."""

    def __init__(self, dialect: ChatCompletions, model: str, owner: str) -> None:
        self._dialect = dialect
        self._model = model
        self._owner = owner
        self._history = History(_is_id)
        self._messages: list[bytes] = []
        self._views: tuple[ToolView, ...] = ()
        self._tools: list[bytes] = []

    def write(self, request: Request) -> bytes:
        """Return the body of a request for a streamed reply."""
        dialect = self._dialect
        messages, kept = self._history.sendable(request.messages)
        self._messages[kept:] = [
            encoded(dialect.message(m, self._owner)) for m in islice(messages, kept, None)
        ]
        if request.tools != self._views:
            functions = [dialect.tool(view) for view in request.tools]
            self._views = request.tools
            self._tools = [encoded({"type": "function", "function": function}) for function in functions]
        fields: dict[str, Json] = {**dialect.fields, "model": self._model, "stream": True}
        if dialect.with_usage:
            fields["stream_options"] = {"include_usage": True}
        if request.max_tokens is not None:
            fields[dialect.bound] = request.max_tokens
        return assembled(fields, {"messages": self._messages, "tools": self._tools})


def _content(message: Message) -> Json:
    """Return the text of a message, or its parts where pictures go along."""
    if not message.pictures:
        return message.text
    urls = (f"data:{picture.media_type};base64,{base64_of(picture)}" for picture in message.pictures)
    shown: list[Json] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"type": "text", "text": message.text}, *shown]


def _info(entry: Mapping[str, object]) -> ModelInfo:
    windows = (count(entry.get(name)) for name in _WINDOWS)
    named = text_of(entry.get("name")) or text_of(entry.get("display_name"))
    return ModelInfo(text_of(entry["id"]), named, next((size for size in windows if size), None))


def _returned(part: Json) -> Mapping[str, Json]:
    """Return the fields that may go back; they never overlap with those that we fill in."""
    return {name: part[name] for name in _RETURNED if name in part} if isinstance(part, Mapping) else {}


def _is_id(call_id: str) -> bool:
    return 0 < len(call_id) <= _LONGEST_ID and call_id.isprintable()
