"""What has to be known to reach a model on the network? Values only; whoever has them puts them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leeward.security.kinds import Json

__all__ = ["NetworkSettings", "ProviderSettings"]


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
    the person calls the service.
    """

    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    auth_header: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Json] = field(default_factory=dict)
    label: str = ""
