"""The MCP servers of a session: which there are, how they are reached, and as executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .asking import PersonAsker, TakesWords
    from .connections import Network, PersonsGate, connection
    from .servers import (
        WORKSPACE_SERVERS,
        NamedServers,
        Servers,
        allowed,
        known_servers,
        named_servers,
        servers_of,
    )

__all__ = [
    "WORKSPACE_SERVERS",
    "NamedServers",
    "Network",
    "PersonAsker",
    "PersonsGate",
    "Servers",
    "TakesWords",
    "allowed",
    "connection",
    "known_servers",
    "named_servers",
    "servers_of",
]

_HOMES = {
    "NamedServers": ".servers",
    "PersonAsker": ".asking",
    "TakesWords": ".asking",
    "Network": ".connections",
    "PersonsGate": ".connections",
    "Servers": ".servers",
    "WORKSPACE_SERVERS": ".servers",
    "allowed": ".servers",
    "connection": ".connections",
    "known_servers": ".servers",
    "named_servers": ".servers",
    "servers_of": ".servers",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
