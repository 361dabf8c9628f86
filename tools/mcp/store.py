"""What is known of servers between sessions: the tools they listed, and how far the person trusts each.

One file for each server, mode 0600, in the data folder; one that is broken or that others may write to knows
nothing. A level holds for the digest it was given for: a tool that changed is quarantined, and the definition
that was trusted is kept to show what changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from leeward.memory.private_file import read_private, write_private
from leeward.security.lazy import dataclass
from leeward.security.trust import TrustLevel

from .listing import ListedTool, Listing, ListingRefused, difference
from .settings import ServerSettings

__all__ = ["KnownServer", "ServerStore"]

_LARGEST = 4 << 20

# 80 bits in hex: more than a server can try, so that it has another list of the same digest.
_SEAL = 20


@dataclass(frozen=True, slots=True)
class KnownServer:
    """What is known of a server under one definition.

    `listing` is None until it was started once. `trusted` holds by tool the definition that was trusted, and
    the level. `is_allowed` tells that the person allowed a server which a workspace brought along.
    """

    listing: Listing | None = None
    trusted: Mapping[str, tuple[ListedTool, TrustLevel]] = field(default_factory=lambda: MappingProxyType({}))
    is_allowed: bool = False

    @property
    def levels(self) -> dict[str, TrustLevel]:
        """The levels that were given, by the digest they were given for."""
        return {tool.digest: level for tool, level in self.trusted.values()}

    def seal(self, settings: ServerSettings) -> str:
        """Return the digest of what a person is shown of a server: how it is started, and each tool."""
        tools = sorted(self.listing.tools.items()) if self.listing is not None else []
        shown = [settings.definition, *(f"{name}:{tool.digest}" for name, tool in tools)]
        return hashlib.sha256("\0".join(shown).encode("utf-8", "surrogatepass")).hexdigest()[:_SEAL]

    def changed(self) -> dict[str, list[str]]:
        """Return what changed of each tool since it was trusted."""
        tools = self.listing.tools if self.listing is not None else {}
        both = ((name, old, tools.get(name)) for name, (old, _) in self.trusted.items())
        return {
            name: difference(old, new)
            for name, old, new in both
            if self.listing is not None and (new is None or new.digest != old.digest)
        }

    def trusting(self, level: TrustLevel, only: str = "") -> KnownServer:
        """Return it with its tools as they are now at a level, or one of them."""
        listed = self.listing.tools if self.listing is not None else {}
        named = {name: (tool, level) for name, tool in listed.items() if only in ("", name)}
        return replace(self, trusted=MappingProxyType({**self.trusted, **named}))


@dataclass(frozen=True, slots=True)
class ServerStore:
    """The files; `folder` is made when something is kept."""

    folder: Path

    def get(self, settings: ServerSettings) -> KnownServer:
        """Return what is known of a server as it is configured now; this waits for the disk."""
        content = read_private(self._file(settings), _LARGEST)
        if content.get("definition") != settings.definition:
            return KnownServer()
        try:
            return KnownServer(
                _listing(content.get("listing")), _trusted(content), content.get("is_allowed") is True
            )
        except (ListingRefused, KeyError, TypeError, AttributeError):
            return KnownServer()

    def put(self, settings: ServerSettings, known: KnownServer) -> None:
        """Keep what is known; readers see the old file or the new one, never half of one.

        Raises:
            OSError: it cannot be written.
        """
        listing = known.listing
        content = {
            "definition": settings.definition,
            "is_allowed": known.is_allowed,
            "listing": None
            if listing is None
            else {
                "server": listing.server,
                "version": listing.version,
                "tools": [tool.to_json() for tool in listing.tools.values()],
            },
            "trusted": {
                name: {"level": level.name.lower(), "tool": tool.to_json()}
                for name, (tool, level) in known.trusted.items()
            },
        }
        write_private(self._file(settings), content)

    def forget(self, settings: ServerSettings) -> None:
        """Forget what is known of a server."""
        self._file(settings).unlink(missing_ok=True)

    def _file(self, settings: ServerSettings) -> Path:
        """Return the file of a server; two workspaces may bring servers of one name."""
        brought = hashlib.sha256(os.fsencode(settings.workspace)).hexdigest()[:12]
        return self.folder / f"{settings.name}{f'.{brought}' if settings.workspace else ''}.json"


def _listing(stored: Any) -> Listing | None:
    if stored is None:
        return None
    tools = map(ListedTool.from_json, stored["tools"])
    return Listing.of(str(stored["server"]), str(stored["version"]), tools)


def _trusted(stored: Mapping[str, Any]) -> Mapping[str, tuple[ListedTool, TrustLevel]]:
    return MappingProxyType(
        {
            str(name): (ListedTool.from_json(one["tool"]), TrustLevel[one["level"].upper()])
            for name, one in stored.get("trusted", {}).items()
        }
    )
