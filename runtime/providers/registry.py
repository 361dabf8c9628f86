"""Open the models a turn can use: built in, scripted, or on the network.

`open_models` is the one way to get them: all models of a process share one client. What a model learns
and what is done with its answer is decided in `conversation/turn.py`; where the settings come from, and who
is asked again or in whose place, in `model.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from leeward.security.lazy import LazyModule

from .interface import Provider, ProviderSetupError
from .settings import KINDS, NetworkSettings, ProviderSettings

if TYPE_CHECKING:
    from . import network, offline, scripted
    from .transport import ModelClient
else:
    # Each start needs one of them, and httpx costs more than the rest of a start together.
    network = LazyModule("leeward.runtime.providers.network")
    offline = LazyModule("leeward.runtime.providers.offline")
    scripted = LazyModule("leeward.runtime.providers.scripted")

__all__ = ["PROVIDERS", "Models", "open_models", "open_provider"]

PROVIDERS = ("offline", "scripted:FILE.toml", *(f"{kind}:MODEL" for kind in KINDS))
"""How each known provider is written."""


class Models:
    """Where models come from; those on the network share one client, made when the first is wanted."""

    def __init__(self, network: NetworkSettings) -> None:
        self._network = network
        self._client: ModelClient | None = None

    def provider(self, spec: str, settings: ProviderSettings | None = None) -> Provider:
        """Return the model that `spec` names; nothing is sent yet.

        Raises:
            ProviderSetupError: no such provider, or its settings or script cannot be used.
        """
        kind, _, name = spec.strip().partition(":")
        match kind.lower(), name:
            case "offline", "":
                return offline.Offline()
            case "scripted", file if file:
                return scripted.load_script(file)
            case kind, model if kind in KINDS and model.strip():
                return self._reach(kind, model, settings or ProviderSettings())
        raise ProviderSetupError(f"there is no model {spec[:80]!r}; known are {', '.join(PROVIDERS)}")

    async def aclose(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()

    def _reach(self, kind: str, model: str, settings: ProviderSettings) -> Provider:
        if self._client is None:
            self._client = network.open_network(self._network)
        return network.reach(self._client, kind, model, settings)


@asynccontextmanager
async def open_models(network: NetworkSettings | None = None) -> AsyncGenerator[Models, None]:
    """Open what models are reached by, and close their connections at the end."""
    models = Models(network or NetworkSettings())
    try:
        yield models
    finally:
        await models.aclose()


@asynccontextmanager
async def open_provider(
    spec: str, settings: ProviderSettings | None = None, network: NetworkSettings | None = None
) -> AsyncGenerator[Provider, None]:
    """Open the one model that `spec` names, and close its connections at the end.

    Raises:
        ProviderSetupError: no such provider, or its settings or script cannot be used.
    """
    async with open_models(network) as models:
        yield models.provider(spec, settings)
