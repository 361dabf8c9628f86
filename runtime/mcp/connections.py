"""Connect to MCP servers: programs in the sandbox, services by the one dialler.

What either reaches is judged by the gate of the call it works on. A service is spoken to over TLS alone.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from leeward.security.call import Exchange
from leeward.security.checks import refused_host
from leeward.security.kinds import Unreadable
from leeward.security.lazy import LazyModule, dataclass
from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.policy import Policy
from leeward.security.url import Url, is_reached, parse_url
from leeward.tools.http.resolve import Resolver
from leeward.tools.mcp import CallGate, ServerSettings, Transport, open_http, open_stdio
from leeward.tools.process import Serve, environment
from leeward.tools.sandbox import Sandbox, open_service
from leeward.tools.sandbox import Service as Program

if TYPE_CHECKING:
    from leeward.tools.http import client, dial, service
    from leeward.tools.http.dial import GuardedBackend
    from leeward.tools.http.service import Service
    from leeward.tools.proxy import server as proxy
else:
    # They load httpcore, which most servers need not.
    client = LazyModule("leeward.tools.http.client")
    dial = LazyModule("leeward.tools.http.dial")
    service = LazyModule("leeward.tools.http.service")
    proxy = LazyModule("leeward.tools.proxy.server")

from ..sandbox import named_files

__all__ = ["Connect", "Network", "PersonsGate", "connection"]

Connect: TypeAlias = Callable[[ServerSettings, CallGate], AbstractAsyncContextManager[Transport]]

_CLOSING = 2.0


@dataclass(frozen=True, slots=True)
class Network:
    """How hosts are reached: what the dialler goes by, and authorities beside the usual ones."""

    policy: Policy
    resolve: Resolver
    ca_file: str = ""

    def backend(self) -> GuardedBackend:
        """Return what connects; httpcore is loaded for it."""
        policy = self.policy
        lists = policy.domain_allowlist, policy.domain_denylist
        return dial.GuardedBackend(policy.allow_networks, self.resolve, *lists)

    def service(self, url: Url, seconds: float) -> Service:
        """Return what sends requests to a service."""
        return service.Service(
            url, self.backend(), partial(client.tls_context, self.ca_file or None), seconds
        )


@dataclass(frozen=True, slots=True)
class PersonsGate:
    """Judges what a server reaches that the person starts outside of any session, which nothing records."""

    policy: Policy
    hosts: tuple[str, ...]
    wanted: tuple[str, ...] = ()

    async def admit(self, target: str, *, is_tunnel: bool) -> tuple[Url, int]:
        """Return where a request leads.

        Raises:
            PolicyBlocked: it may not go there.
        """
        await trio.lowlevel.checkpoint()
        url = parse_url(f"https://{target}/" if is_tunnel else target)
        if isinstance(url, Unreadable):
            raise PolicyBlocked(url.reason)
        denial = refused_host(url.host, self.policy, (), f"{url.host} is refused")
        if denial is not None:
            raise PolicyBlocked(denial.reason)
        if not is_reached(url, self.hosts, self.policy.allow_http):
            raise PolicyBlocked(f"{url.host} is not among the hosts of the server")
        return url, 0

    async def refuse(self, target: str, rule: str, reason: str) -> None:
        """Leave it at that."""

    def report(self, exchange: Exchange, number: int) -> None:
        """Leave it at that."""


def connection(sandbox: Sandbox, network: Network, given: Mapping[str, str]) -> Connect:
    """Return what connects to servers; programs run in a sandbox, with `given` in their environment."""

    @asynccontextmanager
    async def connect(settings: ServerSettings, gate: CallGate) -> AsyncIterator[Transport]:
        opened = _service if settings.url else partial(_program, sandbox, given)
        async with opened(network, settings, gate) as transport:
            yield transport

    return connect


@asynccontextmanager
async def _service(network: Network, settings: ServerSettings, gate: CallGate) -> AsyncIterator[Transport]:
    url = parse_url(settings.url)
    if isinstance(url, Unreadable):
        raise PolicyBlocked(f"its url cannot be used: {url.reason}")
    if url.scheme != "https":
        raise PolicyBlocked("its url is not https: what is sent to it could be read on the way")
    asked = network.service(url, settings.timeout)
    try:
        async with open_http(settings, asked, f"{url.host}:{url.port}", gate) as transport:
            yield transport
    finally:
        with trio.CancelScope(shield=True) as scope:
            scope.deadline = trio.current_time() + _CLOSING
            await asked.aclose()


@asynccontextmanager
async def _program(
    sandbox: Sandbox, given: Mapping[str, str], network: Network, settings: ServerSettings, gate: CallGate
) -> AsyncIterator[Transport]:
    missing = [name for name, value in settings.secrets.items() if not value]
    if missing:
        raise PermanentFailure(f"it needs {', '.join(missing)} in the environment, which is not set")
    home = network.policy.home
    env = {**environment(home, os.environ), **given, **settings.env, **settings.secrets}
    readable = (
        settings.readable
        if settings.workspace
        else (*settings.readable, *named_files(settings.command, home))
    )
    serve = _proxy(network, gate) if settings.hosts else None
    program = Program(settings.command, env, settings.writes, readable, serve)
    async with open_service(sandbox, program) as dialogue, open_stdio(dialogue) as transport:
        yield transport


def _proxy(network: Network, gate: CallGate) -> Serve:
    """Return what serves the network of a program: a proxy that the calls' gates judge."""
    served = proxy.Proxy(gate, network.backend().connect)
    gate.drop = served.drop
    return served.serve
