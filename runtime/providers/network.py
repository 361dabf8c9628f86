"""Open models on the network: one HTTP client for all, one dialect per kind of service.

Imported only once such a model is wanted: httpx costs more than the rest of a start together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from leeward.security.kinds import Json
from leeward.security.lazy import LazyModule

from .dialect import Dialect
from .openai.request import ChatCompletions
from .remote import RemoteModel, Service
from .settings import KINDS, NetworkSettings, ProviderSettings
from .transport import ModelClient, Timeouts, make_client

if TYPE_CHECKING:
    from .anthropic import request as anthropic
    from .openai import gemini
else:
    anthropic = LazyModule("leeward.runtime.providers.anthropic.request")
    gemini = LazyModule("leeward.runtime.providers.openai.gemini")

__all__ = ["open_network", "reach"]

_DIALECTS: Mapping[str, Callable[[Mapping[str, Json]], Dialect]] = {
    "openai": ChatCompletions,
    "anthropic": lambda body: anthropic.Messages(body),  # noqa: PLW0108 - loaded when it is wanted
    "gemini": lambda body: gemini.Gemini(body),  # noqa: PLW0108 - the same
}


def open_network(settings: NetworkSettings) -> ModelClient:
    """Return the client for all models of a process; the caller closes it.

    Raises:
        ProviderSetupError: the proxy or the file of certificates cannot be used.
    """
    known = {"connect": settings.connect_timeout, "silence": settings.stall_timeout}
    timeouts = Timeouts(**{name: seconds for name, seconds in known.items() if seconds is not None})
    return make_client(ca_file=settings.ca_file, proxy=settings.proxy, timeouts=timeouts)


def reach(client: ModelClient, kind: str, model: str, settings: ProviderSettings) -> RemoteModel:
    """Return a model of a kind of service; nothing is sent yet.

    Raises:
        ProviderSetupError: a setting cannot be used.
    """
    known = KINDS[kind]
    own = not settings.base_url
    service = Service(
        settings.base_url or known.base_url,
        settings.api_key,
        settings.auth_header or known.auth_header,
        settings.headers,
        settings.query,
        f"set {known.key_env}" if own else "",
    )
    dialect = _DIALECTS[kind](settings.body)
    if own and isinstance(dialect, ChatCompletions) and kind == "openai":
        # OpenAI's newer models refuse the name that every other server knows.
        dialect = ChatCompletions(settings.body, bound="max_completion_tokens")
    name = f"{settings.label or kind}:{model.strip()}"
    # The current models of the three services take pictures; of another server's nothing is known.
    takes_pictures = own if settings.pictures is None else settings.pictures
    return RemoteModel(client, dialect, service, model, name, takes_pictures=takes_pictures)
