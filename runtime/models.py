"""Which model answers: from the configuration's words to an open provider and the keys to keep quiet."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from .config import Config
from .config_models import Provider as ProviderConfig
from .exits import CliError, Exit
from .providers import Provider, ProviderSettings, ProviderSetupError, open_provider

__all__ = ["Model", "open_model"]


@dataclass(frozen=True, slots=True)
class Model:
    """An open provider, and the values that must never be shown."""

    provider: Provider
    secrets: frozenset[str] = frozenset()


@asynccontextmanager
async def open_model(config: Config, provider: Provider | None = None) -> AsyncGenerator[Model, None]:
    """Open the model the configuration names ("" is the offline one), or pass a given one on.

    Raises:
        CliError: no such model, or its key cannot be read.
    """
    if provider is not None:
        yield Model(provider)
        return
    spec, settings = _chosen(config)
    try:
        async with open_provider(spec, settings) as opened:
            secret = {settings.api_key} if settings is not None and settings.api_key else set()
            yield Model(opened, frozenset(secret))
    except ProviderSetupError as error:
        raise CliError(Exit.ARG_ERROR, "MODEL_ERROR", str(error)) from error


def _chosen(config: Config) -> tuple[str, ProviderSettings | None]:
    """Return how a provider is written for `open_provider`, and its settings."""
    kind, _, name = (config.llm.model or "offline").partition(":")
    configured = next((entry for entry in config.llm.providers if entry.name == kind), None)
    if configured is not None:
        model = name or configured.model
        if not model:
            raise CliError(Exit.ARG_ERROR, "MODEL_ERROR", f"which model of {kind}? Write {kind}:NAME")
        return f"{configured.kind}:{model}", _settings(config, configured)
    if kind == "openai":
        usual = ProviderConfig(name="openai", api_key_env="OPENAI_API_KEY")
        return f"openai:{name}", _settings(config, usual)
    return config.llm.model or "offline", None


def _settings(config: Config, provider: ProviderConfig) -> ProviderSettings:
    return ProviderSettings(
        base_url=provider.base_url,
        api_key=_key(provider),
        ca_file=config.llm.ca_file or None,
        proxy=config.llm.proxy or None,
    )


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
    path = Path(provider.api_key_file).expanduser()
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                why = f"{path} may be read by others; run: chmod 600 {path}"
                raise CliError(Exit.AUTH_REQUIRED, "KEY_FILE", why)
            key = file.read(65536).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(Exit.AUTH_REQUIRED, "KEY_FILE", f"{path} cannot be read: {error}") from error
    if not key:
        raise CliError(Exit.AUTH_REQUIRED, "KEY_FILE", f"{path} is empty")
    return key
