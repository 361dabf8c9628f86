"""The settings of a model service, and the kinds of services that are built in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass

__all__ = ["KINDS", "NetworkSettings", "ProviderSettings", "ServiceKind"]


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """A dialect with the service it comes from: its address, its key's variable, and the key's header."""

    base_url: str
    key_env: str
    auth_header: str


KINDS: Mapping[str, ServiceKind] = MappingProxyType(
    {
        "openai": ServiceKind("https://api.openai.com/v1", "OPENAI_API_KEY", "authorization"),
        "anthropic": ServiceKind("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "x-api-key"),
        "gemini": ServiceKind(
            "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", "authorization"
        ),
    }
)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """How all models are reached; times are in seconds, None means the default.

    `ca_file` names authorities (PEM) to trust beside the public ones. `stall_timeout` is for how long a
    server may say nothing.
    """

    ca_file: str | None = None
    proxy: str | None = field(default=None, repr=False)
    connect_timeout: float | None = None
    stall_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """What one service needs; what is empty is as the service's kind has it.

    `headers` and `query` go along with every request, `body` holds more fields of it. `label` is what
    the person calls the service. `pictures` is whether its models take them, None where that is unknown.
    """

    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    auth_header: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Json] = field(default_factory=dict)
    label: str = ""
    pictures: bool | None = None
