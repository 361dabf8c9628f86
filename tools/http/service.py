"""Send requests to one service and stream its answers, over a pool whose connections `dial.py` makes.

Nothing is followed and nothing is tried twice: what a redirect means, or an answer that breaks off, is for
the caller to say. The URL's own parts go to the pool, so that nothing parses its text a second time.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import httpcore

from leeward.security.call import Exchange
from leeward.security.lazy import dataclass
from leeward.security.outcome import NetworkError, ToolTimeout
from leeward.security.url import Url

from .client import address_of, authority_of, new_pool
from .dial import GuardedBackend, reason_of
from .streams import Route

__all__ = ["Answer", "Service"]

_BROKEN = (httpcore.NetworkError, httpcore.ProtocolError)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body is still to come; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Service:
    """One service at one URL."""

    def __init__(
        self, url: Url, backend: GuardedBackend, tls: Callable[[], ssl.SSLContext], seconds: float
    ) -> None:
        """Prepare; nothing is connected yet. `seconds` is how long connecting, and each read, may take."""
        self.url = url
        self._backend, self._tls, self._seconds = backend, tls, seconds
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def aclose(self) -> None:
        """Close what is still connected."""
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    @asynccontextmanager
    async def answer(
        self, method: str, headers: Mapping[str, str], content: bytes, report: Callable[[Exchange], None]
    ) -> AsyncIterator[Answer]:
        """Send a request and yield its answer; the attempt is reported however it ends.

        Raises:
            ToolTimeout, NetworkError: there was no answer, or it broke off.
            PolicyBlocked: its address may not be connected to.
        """
        if self._pool is None:
            self._pool = new_pool(self._tls(), self._backend)
        limits = dict.fromkeys(("connect", "pool", "read", "write"), self._seconds)
        sent = [(b"Host", authority_of(self.url)), (b"User-Agent", b"leeward")]
        sent += [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        sent.append((b"Content-Length", str(len(content)).encode()))
        request = httpcore.Request(
            method.encode(),
            address_of(self.url),
            headers=sent,
            content=content,
            extensions={"timeout": limits},
        )
        problem = "cancelled"
        with Route() as route:
            try:
                response = await self._pool.handle_async_request(request)
                route.status = response.status
                try:
                    yield Answer(response.status, _headers(response), response.aiter_stream())
                finally:
                    await response.aclose()
                problem = ""
            except httpcore.TimeoutException as error:
                problem = reason_of(error)
                raise ToolTimeout(f"{self.url} did not answer in time: {problem}") from error
            except _BROKEN as error:
                problem = reason_of(error)
                raise NetworkError(f"{self.url} was not reached: {problem}") from error
            except Exception as error:
                problem = str(error)
                raise
            finally:
                sizes = route.sent, route.received
                report(Exchange(self.url, method, route.address, route.status, *sizes, 0.0, problem))


def _headers(response: httpcore.Response) -> Mapping[str, str]:
    pairs = ((key.decode("latin-1"), value.decode("latin-1")) for key, value in response.headers)
    return {key.lower(): value for key, value in pairs}
