"""Send exactly one request for a judged URL; redirects are returned, never followed here.

The URL's own parts go to httpcore's pool, so that nothing parses its text a second time. `dial.py` decides
which address is connected to, `response.py` what a body says. An answer is bounded in bytes and in time,
whatever the server does.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpcore
import trio

from leeward.security.call import Exchange
from leeward.security.outcome import NetworkError, PermanentFailure, ToolTimeout
from leeward.security.url import Url

from .dial import GuardedBackend, reason_of
from .response import Body, BodyError, Response, StaleConnection
from .streams import Route

__all__ = ["Client", "address_of", "authority_of", "tls_context"]

_CONNECTIONS = 10
_KEEP_ALIVE = 30.0

# Shares of the time for a whole answer after which an early stage of it has taken too long.
_CONNECTED = 0.5
_BEGUN = 0.75

_SKIPPED = 16 * 1024  # bytes of a redirect's body, which nobody reads
_DRAINED = 32  # chunks that were received already when enough was read
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = (
    (b"User-Agent", b"leeward"),
    (b"Accept", b"text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"),
    (b"Accept-Encoding", b"gzip, deflate"),
)
_BROKEN = (httpcore.ReadError, httpcore.WriteError, httpcore.RemoteProtocolError)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a context that accepts the usual authorities and those in `ca_file` (PEM).

    Raises:
        OSError: the file cannot be read, or holds no certificate.
    """
    context = httpcore.default_ssl_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


class Client:
    """One pool of connections for all requests, made when it is first needed."""

    def __init__(
        self, backend: GuardedBackend, tls: Callable[[], ssl.SSLContext], cap: int, timeout: float
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            backend: what connects.
            tls: makes the TLS context, called once.
            cap: bytes of decoded content that are kept.
            timeout: seconds for one answer, from the name to the last byte.
        """
        self._backend = backend
        self._tls = tls
        self._cap = cap
        self._timeout = timeout
        self._pool: httpcore.AsyncConnectionPool | None = None
        self._without_streams: set[tuple[str, int]] = set()

    async def aclose(self) -> None:
        """Close what is still connected."""
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    async def get(self, url: Url, deadline: float, report: Callable[[Exchange], None]) -> Response:
        """Ask for a URL until a point on trio's clock, and report the attempt however it ends.

        Raises:
            ToolTimeout: it took longer than it may, connecting, beginning to answer, or in all.
            StaleConnection: asking once more may help.
            NetworkError, PermanentFailure: there was no answer, or none that can be read.
            PolicyBlocked: its address may not be connected to.
        """
        began, problem = trio.current_time(), "cancelled"
        with Route() as route:
            try:
                answer = await self._exchange(_get(url), url, deadline, route)
                problem = ""
            except Exception as error:
                problem = str(error)
                raise
            finally:
                seconds = trio.current_time() - began
                sizes = route.sent, route.received
                report(Exchange(url, "GET", route.address, route.status, *sizes, seconds, problem))
        return answer

    async def send(
        self, method: str, url: Url, headers: tuple[tuple[bytes, bytes], ...], content: bytes, deadline: float
    ) -> Response:
        """Send any request of an executor's own, which is not reported; raises as `get` does."""
        sent = [*_headers(url), *headers]
        if content or method not in {"GET", "HEAD"}:
            sent.append((b"Content-Length", str(len(content)).encode()))
        request = httpcore.Request(method.encode(), address_of(url), headers=sent, content=content)
        with Route() as route:
            return await self._exchange(request, url, deadline, route)

    async def _exchange(self, request: httpcore.Request, url: Url, deadline: float, route: Route) -> Response:
        pool, began, limit = self._connected(), trio.current_time(), self._timeout * _BEGUN
        answer: Response | None = None
        with trio.CancelScope(deadline=min(deadline, began + limit)) as scope:
            try:
                response = await self._begun(pool, request, url, route)
                scope.deadline = deadline
                try:
                    answer = _answer(url, response, self._cap)
                    await _read(answer, response, route, scope)
                    return answer
                finally:
                    await response.aclose()
            except httpcore.TimeoutException as error:
                raise ToolTimeout(f"{url} was not read: {reason_of(error)}") from error
            except (httpcore.NetworkError, httpcore.ProtocolError) as error:
                is_stale = isinstance(error, _BROKEN) and route.status is None and not route.is_new
                failure = StaleConnection if is_stale else NetworkError
                raise failure(f"{url} was not read: {reason_of(error)}") from error
            except BodyError as error:
                raise PermanentFailure(f"{url} was not read: {error}") from error
        if answer is not None and route.enough is not None:
            return answer
        if route.status is None and began + limit < deadline:
            raise ToolTimeout(f"{url} did not begin to answer within {limit:g} s")
        raise ToolTimeout(f"{url} did not answer in full within {trio.current_time() - began:.1f} s")

    async def _begun(
        self, pool: httpcore.AsyncConnectionPool, request: httpcore.Request, url: Url, route: Route
    ) -> httpcore.Response:
        """Return a response whose body is still to come."""
        limits = {"connect": self._timeout * _CONNECTED, "pool": self._timeout}
        extensions: dict[str, object] = {"timeout": limits}
        if (url.host, url.port) not in self._without_streams:
            extensions["trace"] = _stream_tracer(route)
        request.extensions = extensions
        response = await pool.handle_async_request(request)
        route.status = response.status
        if response.extensions["http_version"] != b"HTTP/2":
            self._without_streams.add((url.host, url.port))
        return response

    def _connected(self) -> httpcore.AsyncConnectionPool:
        if self._pool is None:
            self._pool = new_pool(self._tls(), self._backend)
        return self._pool


def new_pool(tls: ssl.SSLContext, backend: GuardedBackend) -> httpcore.AsyncConnectionPool:
    """Return a pool whose connections a backend makes; nothing is connected yet."""
    return httpcore.AsyncConnectionPool(
        ssl_context=tls,
        max_connections=_CONNECTIONS,
        keepalive_expiry=_KEEP_ALIVE,
        http1=True,
        http2=True,
        network_backend=backend,
    )


def _stream_tracer(route: Route) -> Callable[[str, Mapping[str, object]], Awaitable[None]]:
    """Return what notes which stream of HTTP/2 a request is sent on, once it was sent."""
    streams: list[int] = []

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        if event == "http2.send_request_headers.started":
            streams.append(info["stream_id"])
        elif event == "http2.send_request_headers.complete":
            route.stream_id = streams[-1]

    return trace


def _answer(url: Url, response: httpcore.Response, cap: int) -> Response:
    """Return an answer without its body.

    Raises:
        BodyError: the body is encoded in a way that was not asked for.
    """
    location = _location(response)
    # Of a redirect only its end is of interest: behind it, the connection can be used again.
    body = Body((), _SKIPPED) if location else Body(_values(response, b"content-encoding"), cap)
    return Response(url, response.status, "".join(_values(response, b"content-type")[:1]), body, location)


async def _read(answer: Response, response: httpcore.Response, route: Route, scope: trio.CancelScope) -> None:
    """Read the body as far as it is wanted; where it goes on, the scope is cancelled.

    Raises:
        BodyError: it is damaged.
    """
    # Leaving the loop would abandon the generators below it in mid-body; cancelling ends them. What
    # was received already is taken off them first, so that it is acknowledged.
    unwanted = 0
    async for chunk in response.aiter_stream():
        if route.enough is not None:
            unwanted += 1
            if unwanted == _DRAINED:
                scope.cancel()
        elif not answer.body.feed(chunk):
            route.enough = scope
    route.is_read = True
    if answer.location is None:
        answer.body.finish()


def _get(url: Url) -> httpcore.Request:
    return httpcore.Request(b"GET", address_of(url), headers=_headers(url))


def address_of(url: Url) -> httpcore.URL:
    """Return the judged URL's own parts, as bytes."""
    return httpcore.URL(
        scheme=url.scheme.encode(), host=url.host.encode(), port=url.port, target=url.target.encode()
    )


def _headers(url: Url) -> list[tuple[bytes, bytes]]:
    """Return the headers of every request; none is carried over from another one."""
    return [(b"Host", authority_of(url)), *_HEADERS]


def authority_of(url: Url) -> bytes:
    """Return what the Host header says: host and port as the judged text has them."""
    return url.text.removeprefix(f"{url.scheme}://").partition("/")[0].encode()


def _location(response: httpcore.Response) -> str | None:
    """Return where a response leads if it is a redirect; what is not even UTF-8 leads nowhere good."""
    found = next((value for key, value in response.headers if key.lower() == b"location"), None)
    if found is None or response.status not in _REDIRECTS:
        return None
    return found.strip().decode("utf-8", "replace")


def _values(response: httpcore.Response, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in response.headers if key.lower() == name]
