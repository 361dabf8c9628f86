"""Resolve host names with the system's resolver; `dial.py` judges the addresses it returns."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import trio

__all__ = ["Resolver", "dns_resolver"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host name and a port to IP addresses as text; raises OSError where there are none."""


async def dns_resolver(host: str, port: int) -> Sequence[str]:
    """Ask the system for a name's addresses; the dot behind it keeps search domains out.

    Raises:
        OSError: the name has no address.
    """
    found = await trio.socket.getaddrinfo(f"{host}.", port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
