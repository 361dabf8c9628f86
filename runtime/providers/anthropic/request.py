"""Write requests in Anthropic's Messages dialect: content blocks in alternating turns.

The prefix that stays the same from request to request is marked for the service's cache. `response.py` reads
the reply; the network is left to `runtime/providers/remote.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import ClassVar

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass, regex

from ..history import History
from ..interface import Message, ModelInfo, Request, ToolView
from ..wire import assembled, base64_of, count, encoded, mappings, text_of
from .response import MessageReader

__all__ = ["MessageWriter", "Messages"]

_IS_ID = regex(r"[A-Za-z0-9_-]{1,64}")
_VERSIONED = regex(r"/v\d+\w*$")
_BOUND = 16_384  # tokens of a reply; the dialect wants a number, and every current model takes this one
_MARK = b',"cache_control":{"type":"ephemeral"}}'  # in place of the brace that ends a block
_OPEN = 4  # turns at the end that the next request may still continue, or mark otherwise
_THOUGHTS = ("thinking", "redacted_thinking")
_NO_TEXT = "(no text)"
_NO_OUTPUT = "(no output)"
_LEFT_OUT = "(the beginning of this conversation was left out)"


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

    def writer(self, model: str, owner: str) -> MessageWriter:
        """Return a writer of requests to a model."""
        return MessageWriter(self.fields, model, owner)

    def reader(self, owner: str) -> MessageReader:
        """Return a reader for one reply."""
        return MessageReader(owner)

    def without(self, refusal: str) -> None:  # noqa: ARG002 - part of what a dialect is
        """Return None: everything sent belongs to the dialect's first version."""
        return

    def models(self, answer: Mapping[str, object]) -> tuple[list[ModelInfo], Mapping[str, str]]:
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


@dataclass(frozen=True, slots=True)
class _Part:
    """What a message adds to a turn: whose turn it is, its blocks, and what the first of them is."""

    role: str
    blocks: tuple[bytes, ...]
    first: str


class MessageWriter:
    """Writes requests to one model, each message and each list of tools once."""

    def __init__(self, fields: Mapping[str, Json], model: str, owner: str) -> None:
        self._fields = fields
        self._model = model
        self._owner = owner
        self._history = History(lambda call_id: _IS_ID.fullmatch(call_id) is not None)
        self._parts: list[_Part] = []
        self._closed: list[bytes] = []
        self._closed_parts = 0
        self._views: tuple[ToolView, ...] = ()
        self._tools: list[bytes] = []

    def write(self, request: Request) -> bytes:
        """Return the body of a request for a streamed reply."""
        messages, kept = self._history.sendable(request.messages)
        self._parts[kept:] = [_part(message, self._owner) for message in islice(messages, kept, None)]
        if request.tools != self._views:
            self._views, self._tools = request.tools, [encoded(_tool(view)) for view in request.tools]
        turns = self._open_turns(kept)
        fields: dict[str, Json] = {
            "max_tokens": _BOUND,
            **self._fields,
            "model": self._model,
            "stream": True,
        }
        if request.max_tokens is not None:
            fields["max_tokens"] = request.max_tokens
        if _thinks(fields) and _is_inside_foreign_calls(turns):
            # The service refuses to go on thinking where the last calls came without their thoughts.
            del fields["thinking"]
        system = [block for part in self._parts if part.role == "system" for block in part.blocks]
        lists = {"system": _marked(system), "tools": _marked(self._tools)}
        return assembled(fields, {**lists, "messages": [*self._closed, *_written(turns)]})

    def _open_turns(self, kept: int) -> list[list[_Part]]:
        """Return the last turns, and see that all before them are written, as they will always be."""
        if sum(part.role != "system" for part in islice(self._parts, kept)) <= self._closed_parts:
            # The blocks behind the last written turn may have changed, and may belong to it now.
            self._closed, self._closed_parts = [], 0
        spoken = [part for part in self._parts if part.role != "system"]
        turns = _turns(spoken[self._closed_parts :], begins=not self._closed)
        for turn in turns[:-_OPEN]:
            self._closed.append(_turn(turn))
            self._closed_parts += sum(part is not _BEGINNING for part in turn)
        return turns[-_OPEN:]


def _tool(view: ToolView) -> dict[str, Json]:
    return {"name": view.name, "description": view.description, "input_schema": dict(view.schema)}


def _text(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


_BEGINNING = _Part("user", (encoded(_text(_LEFT_OUT)),), "text")
"""The user's turn before a reply that is the first of what is left of a conversation."""


def _part(message: Message, owner: str) -> _Part:
    """Return what a message adds: what the tools returned is the user's to say."""
    blocks = list(_blocks(message, owner))
    role = "user" if message.role == "tool" else message.role
    return _Part(role, tuple(map(encoded, blocks)), str(blocks[0]["type"]) if blocks else "")


def _turns(parts: Sequence[_Part], *, begins: bool) -> list[list[_Part]]:
    """Return turns of user and assistant, each other's neighbours; a conversation begins with the user's."""
    turns: list[list[_Part]] = []
    for part in parts:
        if begins and not turns and part.role == "assistant":
            turns.append([_BEGINNING])
        if turns and turns[-1][0].role == part.role:
            turns[-1].append(part)
        else:
            turns.append([part])
    return turns


def _written(turns: Sequence[Sequence[_Part]]) -> list[bytes]:
    """Return the turns, the last two of the user marked.

    The last one is where the next request will continue from, the one before is where this one does;
    the service finds an earlier mark by itself only within 20 blocks.
    """
    users = [index for index, turn in enumerate(turns) if turn[0].role == "user"][-2:]
    return [_turn(turn, marked=index in users) for index, turn in enumerate(turns)]


def _turn(parts: Sequence[_Part], *, marked: bool = False) -> bytes:
    blocks = [block for part in parts for block in part.blocks]
    content = _marked(blocks) if marked else blocks
    return b'{"role":"%b","content":[%b]}' % (parts[0].role.encode(), b",".join(content))


def _marked(blocks: Sequence[bytes]) -> Sequence[bytes]:
    """Return blocks with the mark up to which the service keeps what it read."""
    return [*blocks[:-1], blocks[-1][:-1] + _MARK] if blocks else blocks


def _blocks(message: Message, owner: str) -> Iterator[dict[str, Json]]:
    """Yield the blocks of a message, without empty texts, which the service refuses."""
    has_text = bool(message.text.strip())
    if message.role == "assistant":
        yield from _replied(message, owner)
    elif message.role == "tool":
        content = message.text if has_text else _NO_OUTPUT
        yield {"type": "tool_result", "tool_use_id": message.call_id, "content": content}
    elif has_text or message.role == "user":
        yield _text(message.text if has_text else _NO_TEXT)
        for picture in message.pictures:
            data = {"type": "base64", "media_type": picture.media_type, "data": base64_of(picture)}
            yield {"type": "image", "source": data}


def _replied(message: Message, owner: str) -> Iterator[dict[str, Json]]:
    """Yield the blocks of a reply: as they came if they are this model's own, else its text and calls."""
    calls: list[dict[str, Json]] = [
        {"type": "tool_use", "id": call.id, "name": call.tool, "input": json.loads(call.arguments)}
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


def _own_parts(message: Message, owner: str) -> list[dict[str, Json]]:
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


def _thinks(fields: Mapping[str, Json]) -> bool:
    thinking = fields.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _is_inside_foreign_calls(turns: Sequence[Sequence[_Part]]) -> bool:
    """Whether results are to be answered whose calls were made without a thought of this model."""
    if len(turns) < 2 or turns[-1][0].first != "tool_result":
        return False
    return turns[-2][0].first not in _THOUGHTS
