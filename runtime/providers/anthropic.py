"""How is a request written in Anthropic's Messages dialect? Blocks in turns of user and assistant.

The prefix that stays the same from request to request is marked for the service's cache. How the reply
reads is left to `messages.py`, the network to `remote.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leeward.security import Json

from .events import Message, ModelInfo, Request, ToolView
from .history import sendable
from .messages import MessageReader
from .wire import count, mappings, text_of

__all__ = ["Messages"]

_IS_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VERSIONED = re.compile(r"/v\d+\w*$")
_BOUND = 16_384  # tokens of a reply; the dialect wants a number, and every current model takes this one
_CACHE: Json = {"type": "ephemeral"}
_THOUGHTS = ("thinking", "redacted_thinking")
_NO_TEXT = "(no text)"
_NO_OUTPUT = "(no output)"
_LEFT_OUT = "(the beginning of this conversation was left out)"

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Messages:
    """The dialect; `fields` go into every request."""

    fields: Mapping[str, Json] = field(default_factory=dict)

    path: ClassVar[str] = "/messages"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

    def base_path(self, path: str) -> str:
        """Return a base URL's path with the version at its end, which many leave out."""
        path = path.rstrip("/").removesuffix(self.path)
        return path if _VERSIONED.search(path) else f"{path}/v1"

    def body(self, model: str, request: Request, owner: str) -> dict[str, Json]:
        """Return a request for a streamed reply."""
        sent = sendable(request.messages, lambda call_id: _IS_ID.fullmatch(call_id) is not None)
        turns = _turns(sent, owner)
        body: dict[str, Any] = {"max_tokens": _BOUND, **self.fields, "model": model, "stream": True}
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        if _thinks(body) and _is_inside_foreign_calls(turns):
            # The service refuses to go on thinking where the last calls came without their thoughts.
            del body["thinking"]
        system = [_text(m.text) for m in sent if m.role == "system" and m.text.strip()]
        tools = [_tool(view) for view in request.tools]
        for blocks in (tools, system, *_ends(turns)):
            if blocks:
                blocks[-1]["cache_control"] = _CACHE
        named = {"system": system, "tools": tools, "messages": turns}
        return {**body, **{name: value for name, value in named.items() if value}}

    def reader(self, owner: str) -> MessageReader:
        """Return a reader for one reply."""
        return MessageReader(owner)

    def without(self, refusal: str) -> None:  # noqa: ARG002 - part of what a dialect is
        """Return None: everything sent belongs to the dialect's first version."""
        return

    def models(self, answer: Mapping[str, Any]) -> tuple[list[ModelInfo], Mapping[str, str]]:
        """Return the models on a page of the list, and how to ask for the next one."""
        found = [
            ModelInfo(
                text_of(entry.get("id")),
                text_of(entry.get("display_name")),
                count(entry.get("max_input_tokens")) or None,
            )
            for entry in mappings(answer.get("data"))
            if text_of(entry.get("id"))
        ]
        last = text_of(answer.get("last_id"))
        return found, {"after_id": last} if answer.get("has_more") is True and last else {}


def _tool(view: ToolView) -> Block:
    return {"name": view.name, "description": view.description, "input_schema": dict(view.schema)}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _turns(messages: Sequence[Message], owner: str) -> list[dict[str, Any]]:
    """Return the conversation as turns of user and assistant, each other's neighbours, a user's first.

    What the tools returned is a user's, and stands before the words of the person.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [_text(_LEFT_OUT)]})
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"].extend(_blocks(message, owner))
    return turns


def _blocks(message: Message, owner: str) -> Iterator[Block]:
    if message.role == "assistant":
        yield from _replied(message, owner)
    elif message.role == "tool":
        content = message.text if message.text.strip() else _NO_OUTPUT
        yield {"type": "tool_result", "tool_use_id": message.call_id, "content": content}
    else:
        yield _text(message.text if message.text.strip() else _NO_TEXT)


def _replied(message: Message, owner: str) -> Iterator[Block]:
    """Yield the blocks of a reply: as they came if they are this model's own, else its text and calls."""
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in message.calls
    ]
    kept = _own_parts(message, owner)
    if sum(part["type"] == "tool_use" for part in kept) == len(calls) and kept:
        waiting = iter(calls)
        yield from (next(waiting) if part["type"] == "tool_use" else part for part in kept)
        return
    if message.text.strip():
        yield _text(message.text)
    yield from calls


def _own_parts(message: Message, owner: str) -> list[Block]:
    """Return the blocks kept of a reply of this very model.

    Empty texts cannot go back, nor thoughts that nothing follows: such a reply was cut.
    """
    if message.verbatim is None or message.verbatim.owner != owner:
        return []
    parts = [dict(part) for part in message.verbatim.parts if isinstance(part, Mapping) and "type" in part]
    parts = [part for part in parts if part["type"] != "text" or text_of(part.get("text")).strip()]
    while parts and parts[-1]["type"] in _THOUGHTS:
        parts.pop()
    return parts


def _ends(turns: Sequence[Mapping[str, Any]]) -> list[list[Block]]:
    """Return the blocks of the last two user turns.

    The last one is where the next request will continue from, the one before is where this one does;
    the service finds an earlier mark by itself only within 20 blocks.
    """
    return [turn["content"] for turn in turns if turn["role"] == "user"][-2:]


def _thinks(body: Mapping[str, Any]) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _is_inside_foreign_calls(turns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether results are to be answered whose calls were made without a thought of this model."""
    if len(turns) < 2 or turns[-1]["content"][0]["type"] != "tool_result":
        return False
    return turns[-2]["content"][0]["type"] not in _THOUGHTS
