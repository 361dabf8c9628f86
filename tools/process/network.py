"""Request a network namespace for one program, and receive the one socket that leads out of it.

The reaper (`reaper.py`) makes it in the forked process that becomes the program: a namespace in which nothing
is but a loopback, and a socket that listens there. The socket comes to this process before the program is
started, and is all by which that reaches anything: what is served on it (`proxy/`) decides what.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from types import MappingProxyType
from typing import TypeAlias, TypeVar

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError

from .preparation import receive_handle
from .run import starting

__all__ = ["OwnNetwork", "Serve", "network_environment", "run_served", "serve_network"]

T = TypeVar("T")

Serve: TypeAlias = Callable[[trio.SocketListener], Awaitable[None]]
"""Serves what connects to a socket, until it is cancelled."""

_PORT = 3128
"""Where it listens: in a new network nobody else can, so the environment can say so beforehand."""

_OWN_LOOPBACK = "localhost,127.0.0.1,::1"
_SSH = "leeward: the sandbox has no ssh: give the remote by https (git remote set-url NAME https://HOST/PATH)"


@dataclass(slots=True)
class OwnNetwork:
    """The network of one program, whose loopback is all there is in it but the socket."""

    _ends: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    @property
    def channel(self) -> int:
        """The descriptor that the socket is sent through."""
        return self._ends[1].fileno()

    def wanted(self) -> dict[str, object]:
        """Return what the reaper needs to know."""
        return {"port": _PORT}

    async def receive(self) -> trio.SocketListener:
        """Wait for the socket; where the network could not be made, this waits until it is cancelled."""
        await trio.lowlevel.wait_readable(self._ends[0])
        _, handle = receive_handle(self._ends[0])
        if handle is None:
            await trio.sleep_forever()
        listening = socket.socket(fileno=handle)
        listening.setblocking(False)
        return trio.SocketListener(trio.socket.from_stdlib_socket(listening))

    def close(self) -> None:
        """Give up what was not received."""
        for end in self._ends:
            end.close()


async def run_served(run: Callable[[OwnNetwork], Awaitable[T]], serve: Serve) -> T:
    """Run a program with a network of its own, and serve what comes out of that until it has ended.

    Raises:
        PermanentFailure: it could not be started.
    """
    async with serve_network(serve) as network:
        return await run(network)


@asynccontextmanager
async def serve_network(serve: Serve) -> AsyncIterator[OwnNetwork]:
    """Yield a network for one program, and serve what comes out of that until this is left.

    Raises:
        PermanentFailure: there are not enough descriptors left.
    """
    with starting():
        network = OwnNetwork()
    failure: ToolError | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_serve, network, serve)
            try:
                yield network
            except ToolError as error:
                # The nursery would wrap it.
                failure = error
            nursery.cancel_scope.cancel()
    finally:
        network.close()
    if failure is not None:
        raise failure


async def _serve(network: OwnNetwork, serve: Serve) -> None:
    async with await network.receive() as listener:
        await serve(listener)


_PROXY = f"http://127.0.0.1:{_PORT}"
_ENVIRONMENT = MappingProxyType(
    {
        **{
            name: _PROXY
            for word in ("http", "https", "all")
            for name in (f"{word}_proxy", f"{word}_PROXY".upper())
        },
        # What a program talks to on its own loopback is its own, and needs nobody between.
        "no_proxy": _OWN_LOOPBACK,
        "NO_PROXY": _OWN_LOOPBACK,
        "NODE_USE_ENV_PROXY": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "npm_config_update_notifier": "false",
        "GIT_SSH_COMMAND": f"echo '{_SSH}' >&2; false",
        "GIT_SSH_VARIANT": "simple",
    }
)
# Where nothing is open, every try fails in the same way, and a program that tries again only waits.
_CLOSED = MappingProxyType(
    {
        "PIP_RETRIES": "0",
        "UV_HTTP_RETRIES": "0",
        "npm_config_fetch_retries": "0",
        "CARGO_NET_RETRY": "0",
    }
)


def network_environment(env: Mapping[str, str], *, is_open: bool) -> dict[str, str]:
    """Return an environment that names the proxy; `is_open` tells that some host may be reached."""
    return {**env, **_ENVIRONMENT, **({} if is_open else _CLOSED)}
