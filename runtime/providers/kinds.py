"""Which kinds of services are built in, and what is known of each without asking anybody?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A dialect with the service it comes from: its address, its key's variable, and the key's header."""

    base_url: str
    key_env: str
    auth_header: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "openai": Kind("https://api.openai.com/v1", "OPENAI_API_KEY", "authorization"),
        "anthropic": Kind("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "x-api-key"),
        "gemini": Kind(
            "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", "authorization"
        ),
    }
)
