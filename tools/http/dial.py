"""Resolve a host, judge its addresses and connect to one of them: the only file that opens sockets for tools.

A name is resolved once, as an absolute name. Every address is judged by the table the gates use
(`security/url/hosts.py`), and the connection is made to a judged address, never to a name that could mean
another one by then. TLS, SNI and the Host header keep the name. What goes through a connection is the subject
of `streams.py`, HTTP that of `client.py`.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import field

import httpcore
import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import NetworkError, PolicyBlocked
from leeward.security.url import is_address, judge_address, judge_host, listed_problem

from .resolve import Resolver, dns_resolver
from .streams import CountedStream, Route

__all__ = ["GuardedBackend", "reason_of"]

# With several addresses, one that does not answer may use up only so many seconds.
_ATTEMPT = 5.0


@dataclass(frozen=True, slots=True)
class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects httpcore's pool to judged addresses only.

    `allow_networks` are private networks (CIDR) that the person opened; never metadata addresses.
    `allowed` and `denied` are the person's lists of hosts, as `security/url/hosts.py` reads them.
    """

    allow_networks: tuple[str, ...] = ()
    resolve: Resolver = dns_resolver
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    trio_backend: httpcore.TrioBackend = field(default_factory=httpcore.TrioBackend)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 — httpcore's signature
        local_address: str | None = None,  # noqa: ARG002 — httpcore's signature
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, judge every answer, and connect to one of them. `timeout` is in seconds, for all of it.

        Raises:
            PolicyBlocked: an answer is no address that may be connected to; nothing was.
            httpcore.ConnectError, httpcore.ConnectTimeout: no address was reached.
        """
        stream, address = await self._connected(host, port, timeout, socket_options)
        return CountedStream(stream, address)

    async def connect(self, host: str, port: int, seconds: float) -> tuple[trio.SocketStream, str]:
        """Connect as `connect_tcp` does, for what is no request of ours; return the address, too.

        Raises:
            PolicyBlocked: an answer is no address that may be connected to; nothing was.
            NetworkError: no address was reached within so many seconds.
        """
        try:
            stream, address = await self._connected(host, port, seconds, None)
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            raise NetworkError(reason_of(error)) from error
        return trio.SocketStream(stream.get_extra_info("socket")), address

    async def _connected(
        self, host: str, port: int, seconds: float | None, options: Iterable[httpcore.SOCKET_OPTION] | None
    ) -> tuple[httpcore.AsyncNetworkStream, str]:
        if not 0 < port < 65_536:
            raise PolicyBlocked(f"invalid port {port}")
        deadline = trio.current_time() + (seconds if seconds is not None else float("inf"))
        with trio.CancelScope(deadline=deadline) as scope:
            addresses = await self._judged(host, port)
        if scope.cancelled_caught:
            raise httpcore.ConnectTimeout(f"the name {host} was not resolved in time")
        return await self._connect_any(addresses, port, deadline, options)

    async def connect_unix_socket(self, *_: object, **__: object) -> httpcore.AsyncNetworkStream:
        """Refuse: a local socket is no place on the network.

        Raises:
            PolicyBlocked: always.
        """
        raise PolicyBlocked("no local socket is ever connected to")

    async def sleep(self, seconds: float) -> None:
        """Wait between attempts."""
        await trio.sleep(seconds)

    async def _judged(self, host: str, port: int) -> Sequence[str]:
        """Return the host's addresses if all of them may be connected to."""
        unlisted = listed_problem(host, self.allowed, self.denied)
        if unlisted is not None:
            raise PolicyBlocked(f"{host} is not connected to: {unlisted[1]}")
        if is_address(host):
            self._judge(host, host)
            return (host,)
        reason = judge_host(host)
        if reason is not None:
            raise PolicyBlocked(f"{host} is not connected to: it is {reason}")
        try:
            addresses = await self.resolve(host, port)
        except OSError as error:
            raise httpcore.ConnectError(f"the name {host} was not resolved: {reason_of(error)}") from error
        if not addresses:
            raise httpcore.ConnectError(f"the name {host} has no address")
        for address in addresses:
            self._judge(address, host)
        return addresses

    def _judge(self, address: str, host: str) -> None:
        reason = judge_address(address, self.allow_networks)
        if reason is not None:
            of = "" if address == host else f" of {host}"
            raise PolicyBlocked(f"the address {address}{of} is not connected to: it is {reason}")

    async def _connect_any(
        self,
        addresses: Sequence[str],
        port: int,
        deadline: float,
        options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> tuple[httpcore.AsyncNetworkStream, str]:
        """Connect to the first address that answers; if none does, raise the last failure."""
        failed: httpcore.NetworkError | httpcore.TimeoutException
        failed = httpcore.ConnectTimeout("the connection was not made in time")
        for index, address in enumerate(addresses):
            left = deadline - trio.current_time()
            if left <= 0:
                break
            timeout = left if index == len(addresses) - 1 else min(left, _ATTEMPT)
            try:
                stream = await self.trio_backend.connect_tcp(
                    address, port, timeout=timeout, socket_options=options
                )
            except httpcore.ConnectTimeout:
                failed = httpcore.ConnectTimeout(f"no connection to {address} was made in time")
            except httpcore.ConnectError as error:
                failed = error
            else:
                Route.reaches(address)
                return await _checked_peer(stream, address), address
        raise failed


async def _checked_peer(stream: httpcore.AsyncNetworkStream, address: str) -> httpcore.AsyncNetworkStream:
    """Return the stream if it leads where it should."""
    peer = stream.get_extra_info("server_addr")
    if peer is None or ipaddress.ip_address(peer[0]) != ipaddress.ip_address(address):
        await stream.aclose()
        raise PolicyBlocked("the connection leads to another address than the one that was judged")
    return stream


def reason_of(error: BaseException) -> str:
    """Return the most telling message in a chain of errors: the layers above often leave theirs empty."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        inner = link.exceptions[0] if isinstance(link, BaseExceptionGroup) else None
        link = inner or link.__cause__ or link.__context__
    for found in reversed(chain):
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"the certificate is not accepted: {found.verify_message}"
        if isinstance(found, ssl.SSLError):
            return f"TLS failed: {getattr(found, 'reason', None) or found}"
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
    return next((str(found) for found in chain if str(found)), type(error).__name__)
