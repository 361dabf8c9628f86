"""Open the configured model, and collect the keys that must be kept secret."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path

from leeward.security.lazy import dataclass

from .config import Config
from .config import ProviderSection as ProviderConfig
from .exits import CliError, Exit
from .providers.interface import Provider, ProviderSetupError
from .providers.registry import PROVIDERS, Models, open_models
from .providers.retry import FallbackProvider, RetryingProvider, RetryPolicy
from .providers.settings import KINDS, NetworkSettings, ProviderSettings
from .vault import read_private

__all__ = ["Model", "open_model"]

_MAKERS = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
}
"""Who offers models whose names begin so."""
_OURS = frozenset({"offline", "scripted"})  # what answers here, and needs no settings


@dataclass(frozen=True, slots=True)
class Model:
    """An open provider, how to get another one by its name, and the values that must never be shown.

    `choose` raises `CliError` where the name, its settings or its key cannot be used. What it returns
    shares the connections of the first, and its key is among the secrets.
    """

    provider: Provider
    choose: Callable[[str], Provider]
    secrets: frozenset[str] = frozenset()


@asynccontextmanager
async def open_model(
    config: Config, provider: Provider | None = None, key: str = ""
) -> AsyncGenerator[Model, None]:
    """Open the model the configuration names ("" is the offline one), or pass a given one on.

    `key` is used for the service of the configured model, instead of the one that is configured for it.

    Raises:
        CliError: no such model, or its key cannot be read.
    """
    llm = config.llm
    network = NetworkSettings(llm.ca_file or None, llm.proxy or None, stall_timeout=llm.stall_timeout)
    async with open_models(network) as models:
        choice = _Choice(config, models, key)
        chosen = provider or choice.provider(llm.model or "offline")
        yield Model(chosen, choice.provider, frozenset(choice.secrets()))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Turns names into providers, each with its retries and its fallbacks."""

    config: Config
    models: Models
    key: str = field(default="", repr=False)

    def provider(self, spec: str) -> Provider:
        llm = self.config.llm
        first = self._one(spec)
        if isinstance(first, RetryingProvider):
            others = [self._one(name) for name in llm.fallback if name != spec]
            return FallbackProvider([first, *others]) if others else first
        return first

    def secrets(self) -> Iterator[str]:
        """Yield the keys of all services, those included that may yet be switched to."""
        if self.key:
            yield self.key
        usual = (ProviderConfig(name=name, api_key_env=kind.key_env) for name, kind in KINDS.items())
        for entry in (*self.config.llm.providers, *usual):
            # Whether a key is missing matters once its service is wanted.
            with suppress(CliError):
                if key := _key(entry):
                    yield key

    def _one(self, spec: str) -> Provider:
        """Return one model without fallbacks; what is on the network is asked again."""
        kind, settings = self._written(spec)
        try:
            found = self.models.provider(kind, settings)
        except ProviderSetupError as error:
            raise CliError(Exit.ARG_ERROR, "MODEL_ERROR", str(error)) from error
        llm = self.config.llm
        policy = RetryPolicy(llm.retries, llm.retry_seconds)
        return found if settings is None else RetryingProvider(found, policy)

    def _written(self, spec: str) -> tuple[str, ProviderSettings | None]:
        """Return how a model is written where the person's names are not known, and its settings."""
        name, _, model = spec.partition(":")
        configured = next((entry for entry in self.config.llm.providers if entry.name == name), None)
        if configured is None and name in KINDS:
            configured = ProviderConfig.model_validate({"name": name, "kind": name})
        if configured is None and name.lower() in _OURS:
            return spec, None
        if configured is None:
            known = (*PROVIDERS, *(f"{entry.name}:MODEL" for entry in self.config.llm.providers))
            why = f"there is no model {spec[:80]!r}; known are {', '.join(known)}"
            kind = next((kind for start, kind in _MAKERS.items() if spec.lower().startswith(start)), "")
            meant = f"{kind}:{spec[:80]}" if kind and ":" not in spec else None
            raise CliError(Exit.ARG_ERROR, "MODEL_ERROR", why, suggestion=meant and f"--model {meant}")
        if not (model or configured.model):
            raise CliError(Exit.ARG_ERROR, "MODEL_ERROR", f"which model of {name}? Write {name}:NAME")
        service = self.config.llm.model.partition(":")[0]
        key = self.key if name == service and self.key else _key(_with_usual_key(configured))
        return f"{configured.kind}:{model or configured.model}", _settings(configured, key)


def _settings(provider: ProviderConfig, key: str) -> ProviderSettings:
    return ProviderSettings(
        base_url=provider.base_url or None,
        api_key=key,
        auth_header=provider.auth_header,
        headers=provider.headers,
        query=provider.query,
        body=provider.body,
        label=provider.name,
        pictures=provider.pictures == "on" if provider.pictures else None,
    )


def _with_usual_key(provider: ProviderConfig) -> ProviderConfig:
    """Return a provider with its kind's own variable, if it is the kind's own service that is meant.

    A key that was given for one service is never sent to another.
    """
    if provider.base_url or provider.api_key_env or provider.api_key_file:
        return provider
    return provider.model_copy(update={"api_key_env": KINDS[provider.kind].key_env})


def _key(provider: ProviderConfig) -> str:
    """Read the key from the environment or its file; a service on this machine may need none."""
    if name := provider.api_key_env:
        key = os.environ.get(name, "").strip()
        if not key:
            why = f"the key of {provider.name} is read from {name}, which is not set"
            raise CliError(Exit.AUTH_REQUIRED, "NO_KEY", why)
        return key
    if not provider.api_key_file:
        return ""
    return read_private(Path(provider.api_key_file).expanduser(), f"the key of {provider.name}")
