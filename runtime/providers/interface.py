"""The interface of all models: requests, messages and the events of a reply.

A provider translates at its edge, in both directions; no type of a wire format goes beyond it. What
is done with the events is decided in `conversation/turn.py`.

    ModelError            kind           the process ends with   passes by itself
    ├── AUTH              the key was refused or is missing       8   no
    ├── RATE_LIMITED      too many requests, or nothing left     11   unless nothing is left
    ├── UNAVAILABLE       not reached, broken off or failing     12   yes
    ├── PROTOCOL          answered, but not in its own dialect   12   no
    └── BAD_REQUEST       understood and refused what was asked   1   no

    ProviderSetupError    a model that cannot be opened as it was configured   2
    └── ScriptError       a script for the scripted model has a mistake        2
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from leeward.security.call import ToolCall
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.outcome import LeewardError, Picture

__all__ = [
    "CallRequested",
    "ErrorKind",
    "FellBack",
    "Message",
    "ModelCatalog",
    "ModelError",
    "ModelEvent",
    "ModelInfo",
    "Provider",
    "ProviderSetupError",
    "Reasoning",
    "Request",
    "Retrying",
    "Role",
    "ScriptError",
    "StopReason",
    "Stopped",
    "TextDelta",
    "ToolView",
    "Usage",
    "Verbatim",
    "new_call_id",
    "one_line",
    "takes_pictures",
    "without_pictures",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Parts of a reply that its own model wants back exactly as they came, such as signed reasoning.

    Sent at most once, before `Stopped`, and kept on the assistant's message. `owner` names the model
    and its server: a conversation that goes to another one goes without them.
    """

    owner: str
    parts: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    `calls` and `verbatim` belong to an assistant's message only, `call_id` to a tool's: which call it
    answers. `words` are the person's own in a message that something is attached to, None elsewhere.
    `pictures` go along with a message of the person's.
    """

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    verbatim: Verbatim | None = None
    words: str | None = None
    pictures: tuple[Picture, ...] = ()

    @property
    def own_words(self) -> str:
        """The text without what is attached to it."""
        return self.text if self.words is None else self.words


@dataclass(frozen=True, slots=True)
class ToolView:
    """The description of a tool for a model; `schema` is the JSON Schema of the arguments object."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model. `max_tokens` bounds the reply (None: the provider's own bound)."""

    messages: tuple[Message, ...]
    tools: tuple[ToolView, ...] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply's text, never empty and free of lone surrogates."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of what the model thinks before it answers; never part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallRequested:
    """A tool call, sent once it is complete; the id is unique within the reply."""

    requested: ToolCall


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of the reply, in tokens; sent at most once, before `Stopped`.

    `input_tokens` counts the whole prompt. What of it was read from the service's cache, and what was
    put there, are shares of it, for they have prices of their own.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Retrying:
    """The request failed and is sent again after `seconds`; nothing of the answer was sent on yet."""

    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class FellBack:
    """Another model answers in place of the one that failed; nothing of the answer was sent on yet.

    `again` tells that it has done so before, and the one that failed was not asked this time.
    """

    name: str
    reason: str
    again: bool = False


class StopReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The reply is complete; always the last event. A stream without it raised a `ModelError`."""

    reason: StopReason


ModelEvent: TypeAlias = (
    TextDelta | Reasoning | CallRequested | Verbatim | Usage | Retrying | FellBack | Stopped
)


class ErrorKind(StrEnum):
    """Why a model could not answer."""

    AUTH = "auth"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    PROTOCOL = "protocol"
    BAD_REQUEST = "bad_request"


class ModelError(LeewardError):
    """A model could not answer; the message is one line for the person and never holds a key.

    `passing` says whether the same request may succeed later (None: as is usual for its kind), and
    `retry_after` how many seconds the server asked to be left alone. `is_about_content` is set where what was
    sent is refused, rather than the model's name, the address or the key.
    """

    code: str = "MODEL_ERROR"

    def __init__(
        self,
        message: str,
        kind: ErrorKind,
        *,
        passing: bool | None = None,
        retry_after: float | None = None,
        is_about_content: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.passing: bool = (
            kind in (ErrorKind.RATE_LIMITED, ErrorKind.UNAVAILABLE) if passing is None else passing
        )
        self.retry_after = retry_after
        self.is_about_content = is_about_content

    def reworded(self, message: str) -> ModelError:
        """Return the same error in other words."""
        return ModelError(
            message,
            self.kind,
            passing=self.passing,
            retry_after=self.retry_after,
            is_about_content=self.is_about_content,
        )


class ProviderSetupError(ValueError):
    """A model cannot be opened as it was configured; the message says what to change."""


class ScriptError(ProviderSetupError):
    """A script for the scripted model has a mistake; the message names the file and the place."""


class Provider(Protocol):
    """A model that answers requests.

    One that has `takes_pictures`, and says True, is given those of a message; others get its text alone.
    """

    @property
    def name(self) -> str:
        """The name under which the person chose it, such as "offline" or "openai:NAME"."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Ask, and read the reply as it comes; leaving the context early drops the connection.

        Raises:
            ModelError: on entering or while reading; calls not yielded until then were never complete.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that a service offers; `context_tokens` is how much it reads at once, if known."""

    id: str
    name: str = ""
    context_tokens: int | None = None


@runtime_checkable
class ModelCatalog(Protocol):
    """A provider that can say which models its service offers."""

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the service offers, in its own order.

        Raises:
            ModelError: it could not be asked.
        """
        ...


def takes_pictures(provider: Provider) -> bool:
    """Whether a provider is given the pictures of a message."""
    return getattr(provider, "takes_pictures", False) is True


def without_pictures(request: Request) -> Request:
    """Return a request whose messages are their text alone."""
    if not any(message.pictures for message in request.messages):
        return request
    return replace(request, messages=tuple(replace(one, pictures=()) for one in request.messages))


def new_call_id() -> str:
    """Return an id for a call that came without one; never given twice, also not across sessions."""
    return f"call_{secrets.token_hex(12)}"


def one_line(text: str, limit: int = 300) -> str:
    """Return a foreign text as one printable line of at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
