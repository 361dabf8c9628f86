"""The tool `fetch`: what does a URL answer?

The judged URL is sent as it was judged; which address that means is `dial.py`'s business, what a body
says `body.py`'s. Redirects are told and not followed. What comes back is bounded in bytes and in time,
whatever the other side does.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

import httpcore
import trio

from leeward.security import (
    Cleared,
    Effect,
    NetworkError,
    Origin,
    Output,
    PermanentFailure,
    RateLimited,
    ServerError,
    ToolError,
    ToolExecutor,
    ToolTimeout,
)
from leeward.security import (
    Url as JudgedUrl,
)

from .body import Body, BodyError, is_text, media_type
from .declare import tool
from .dial import GuardedBackend, reason_of
from .kinds import Url

__all__ = ["DEFAULT_BODY_BYTES", "Fetcher", "tls_context"]

DEFAULT_BODY_BYTES = 102_400
"""Default of `[tools.fetch] max_body_bytes`; 0 means the same."""

_CONNECTIONS = 10
_KEEP_ALIVE = 30.0
_CONNECT = 10.0
_QUOTED = 2_000

_FAILED = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a context that accepts the usual authorities and those in `ca_file` (PEM).

    Raises:
        OSError: the file cannot be read, or holds no certificate.
    """
    context = httpcore.default_ssl_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


class Fetcher:
    """Opens judged URLs over one pool of connections, made when it is first needed."""

    def __init__(
        self,
        backend: GuardedBackend,
        *,
        tls: Callable[[], ssl.SSLContext] = tls_context,
        max_body_bytes: int = 0,
        timeout: float = 20.0,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            backend: what connects.
            tls: makes the TLS context, called once.
            max_body_bytes: how much decoded content is kept; 0 means the default.
            timeout: seconds for one URL, from the name to the last byte.
        """
        self._backend = backend
        self._tls = tls
        self._cap = max_body_bytes or DEFAULT_BODY_BYTES
        self._timeout = timeout
        self._pool: httpcore.AsyncConnectionPool | None = None

    def tools(self) -> list[ToolExecutor]:
        """Return the tool `fetch`."""
        declared = tool(effects=Effect.SEND | Effect.BRING_IN, timeout=self._timeout, idempotent=True)
        return [declared(self.fetch)]

    async def aclose(self) -> None:
        """Close what is still connected."""
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None

    async def fetch(
        self,
        url: Url,  # noqa: ARG002 — opened as it was judged
        cleared: Cleared,
    ) -> Output:
        """Open a URL and return the text it answers with.

        Only URLs the person gave: never constructed, guessed or inferred from names, brands or domain
        patterns. A redirect is reported with its target and not followed.
        """
        judged = cleared.url("/url")
        started = trio.current_time()
        with trio.CancelScope(deadline=min(cleared.deadline, started + self._timeout)):
            return await self._get(judged)
        seconds = trio.current_time() - started
        raise ToolTimeout(f"{judged} did not answer in full within {seconds:.1f} s")

    async def _get(self, judged: JudgedUrl) -> Output:
        try:
            async with self._connected().stream(
                "GET",
                _address(judged),
                headers=_headers(judged),
                extensions={"timeout": {"connect": _CONNECT}},
            ) as response:
                body = await self._body(response)
        except _FAILED as error:
            raise NetworkError(f"{judged} was not read: {reason_of(error)}") from error
        except BodyError as error:
            raise PermanentFailure(f"{judged} was not read: {error}") from error
        return _told(judged, response, body)

    async def _body(self, response: httpcore.Response) -> Body:
        body = Body(_values(response, b"content-encoding"), self._cap)
        with trio.CancelScope() as enough:
            # Leaving the loop would abandon the generators below it in mid-body; cancelling ends them.
            async for chunk in response.aiter_stream():
                if not enough.cancel_called and not body.feed(chunk):
                    enough.cancel()
        body.finish()
        return body

    def _connected(self) -> httpcore.AsyncConnectionPool:
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=self._tls(),
                max_connections=_CONNECTIONS,
                keepalive_expiry=_KEEP_ALIVE,
                http1=True,
                http2=True,
                network_backend=self._backend,
            )
        return self._pool


def _address(judged: JudgedUrl) -> httpcore.URL:
    """Return the judged URL's own parts, so that nothing reads its text a second time."""
    return httpcore.URL(
        scheme=judged.scheme.encode(),
        host=judged.host.encode(),
        port=judged.port,
        target=judged.target.encode(),
    )


def _headers(judged: JudgedUrl) -> list[tuple[str, str]]:
    authority = judged.text.removeprefix(f"{judged.scheme}://").partition("/")[0]
    return [
        ("Host", authority),
        ("User-Agent", "leeward"),
        ("Accept", "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"),
        ("Accept-Encoding", "gzip, deflate"),
    ]


def _values(response: httpcore.Response, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in response.headers if key.lower() == name]


def _told(judged: JudgedUrl, response: httpcore.Response, body: Body) -> Output:
    """Return what came back as a result.

    Raises:
        RateLimited, ServerError, PermanentFailure: the other side told a failure.
    """
    status = response.status
    content_type = next(iter(_values(response, b"content-type")), "")
    kind, size = media_type(content_type), len(body.content)
    more = "more than " if body.is_truncated else ""
    summary = f"HTTP {status}, {kind}, {more}{size} bytes"
    location = next(iter(_values(response, b"location")), None)
    if 300 <= status < 400 and location is not None:
        notice = f"{summary}: a redirect, which was not followed; the person may give its target"
        return Output(f"redirect to {location[:_QUOTED]}", Origin.WEB, notices=(notice,))
    text = body.text(content_type) if is_text(kind, body.content) else f"[{kind}, {more}{size} bytes]"
    if status >= 400:
        raise _failure(status)(f"{judged} answered {summary}\n{text[:_QUOTED]}")
    cut = (f"the text was truncated at {size} bytes",) if body.is_truncated else ()
    return Output(text, Origin.WEB, notices=(summary, *cut))


def _failure(status: int) -> type[ToolError]:
    if status == 429:
        return RateLimited
    return ServerError if status >= 500 else PermanentFailure
