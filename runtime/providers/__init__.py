"""The models a turn can talk to: built in, scripted, or behind the Chat Completions dialect.

`open_provider` is the one way to get one. What a model is told and what is done with its answer is
decided in `runtime/turn.py`; where the settings come from, in `runtime/config.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from .events import (
    CallRequested,
    ErrorKind,
    Message,
    ModelError,
    ModelEvent,
    Provider,
    ProviderSetupError,
    Request,
    Requested,
    Role,
    ScriptError,
    Stopped,
    StopReason,
    TextDelta,
    ToolView,
    Usage,
    new_call_id,
)
from .offline import Offline
from .scripted import load_script

__all__ = [
    "PROVIDERS",
    "CallRequested",
    "ErrorKind",
    "Message",
    "ModelError",
    "ModelEvent",
    "Provider",
    "ProviderSettings",
    "ProviderSetupError",
    "Request",
    "Requested",
    "Role",
    "ScriptError",
    "StopReason",
    "Stopped",
    "TextDelta",
    "ToolView",
    "Usage",
    "new_call_id",
    "open_provider",
]

PROVIDERS = ("offline", "scripted:FILE.toml", "openai:MODEL")
"""How each known provider is written."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What a provider on the network needs to know; times are in seconds, None means its default."""

    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    ca_file: str | None = None
    proxy: str | None = field(default=None, repr=False)
    connect_timeout: float | None = None
    silence_timeout: float | None = None


@asynccontextmanager
async def open_provider(
    spec: str, settings: ProviderSettings | None = None
) -> AsyncGenerator[Provider, None]:
    """Open the model that `spec` names and close its connections at the end; nothing is sent yet.

    Raises:
        ProviderSetupError: no such provider, or its settings or script cannot be used.
    """
    kind, _, name = spec.strip().partition(":")
    match kind.lower(), name:
        case "offline", "":
            yield Offline()
        case "scripted", file if file:
            yield load_script(file)
        case "openai", model if model:
            async with _open_openai(model, settings or ProviderSettings()) as provider:
                yield provider
        case _:
            raise ProviderSetupError(f"there is no model {spec[:80]!r}; known are {', '.join(PROVIDERS)}")


@asynccontextmanager
async def _open_openai(model: str, settings: ProviderSettings) -> AsyncGenerator[Provider, None]:
    # httpx costs more than the rest of a start together, and offline runs never need it.
    from .openai import OpenAI  # noqa: PLC0415
    from .transport import Timeouts, open_client  # noqa: PLC0415

    known = {"connect": settings.connect_timeout, "silence": settings.silence_timeout}
    timeouts = Timeouts(**{name: seconds for name, seconds in known.items() if seconds is not None})
    async with open_client(ca_file=settings.ca_file, proxy=settings.proxy, timeouts=timeouts) as client:
        yield OpenAI(client, model, base_url=settings.base_url, api_key=settings.api_key)
