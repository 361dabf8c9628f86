"""The HTTP client of all remote models, and the reader of event streams.

A server that is silent for too long is given up, whether its connection is silent or busy with other replies.
Every failure of the network leaves this file as a `ModelError`. Event streams are read by the rules of the
WHATWG HTML standard, section "Interpreting an event stream"; field names other than `data` mean nothing here.
What is asked and how an answer reads is left to the dialects.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import field
from functools import cache, partial

import h2.exceptions
import httpx
import trio

from leeward.security.lazy import dataclass, regex

from .interface import ErrorKind, ModelError, ProviderSetupError, one_line

__all__ = ["MAX_EVENT", "EventStream", "ModelClient", "Reply", "Timeouts", "make_client"]


MAX_EVENT = 16 * 1024 * 1024
"""Bytes after which an event that has not ended is given up."""

_LINE_END = regex(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """An incremental parser; pieces may be cut anywhere, also within a character."""

    __slots__ = ("_at_start", "_data", "_half", "_held", "_line", "_size")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._held = 0
        self._half = b""
        self._at_start = True
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        """Return the data of the events that this piece completes; invalid UTF-8 is replaced.

        Raises:
            ModelError: an event is longer than `MAX_EVENT`.
        """
        if self._half:
            piece = self._half + piece
            self._half = b""
        if piece[-1:] == b"\r":
            # A carriage return that ends the piece may be half of a line end.
            self._half, piece = b"\r", piece[:-1]
        *lines, rest = piece.split(b"\n") if b"\r" not in piece else _LINE_END.split(piece)
        if not lines:
            self._hold(rest)
            return []
        if self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line.clear()
            self._held = 0
        events = self._events(lines)
        self._hold(rest)
        return events

    def flush(self) -> list[str]:
        """Return what the end of the stream completes.

        The standard drops an event without its blank line; servers that end right after their last
        line are common, so such an end is reported here, and a reader finds out whether it is whole.
        """
        return self.feed(b"\n\n")

    def _events(self, lines: Iterable[bytes]) -> list[str]:
        events: list[str] = []
        for line in lines:
            if self._at_start:
                self._at_start = False
                line = line.removeprefix(_BYTE_ORDER_MARK)  # noqa: PLW2901 - the mark is no part of the line
            if line[:5] == b"data:" or line == b"data":
                start = 6 if line[5:6] == b" " else 5
                self._data.append(line[start:].decode("utf-8", "replace"))
                self._size += len(line)
            elif not line:
                if self._data:
                    events.append("\n".join(self._data))
                    self._data.clear()
                self._size = 0
        return events

    def _hold(self, rest: bytes) -> None:
        """Keep the beginning of a line whose end has not come."""
        if rest:
            self._line.append(rest)
            self._held += len(rest)
        if self._size + self._held > MAX_EVENT:
            raise ModelError("the model's reply holds an event without an end", ErrorKind.PROTOCOL)


_FAILURES = (httpx.HTTPError, httpx.StreamError, h2.exceptions.H2Error)
_SHARED = 100  # replies in one pool over TLS, where they most likely share one HTTP/2 connection
_SIDE_BY_SIDE = 8  # replies in one pool without, each on a connection that httpx looks at for each request
_CLOSING = 5.0  # seconds until a peer that does not let go is left behind


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds in seconds: for reaching the server, and for silence while it answers."""

    connect: float = 15.0
    silence: float = 180.0


class Reply:
    """One answer of a server: its head, and its body piece by piece."""

    __slots__ = ("_chunks", "_response", "_silence", "ended", "host")

    def __init__(self, response: httpx.Response, silence: float) -> None:
        self._response = response
        # Undoing an encoding costs as much as reading, and none was asked for.
        coded = "content-encoding" in response.headers
        self._chunks = response.aiter_bytes() if coded else response.aiter_raw()
        # On HTTP/1.1 a silent server is a silent socket, which httpx bounds by itself. On HTTP/2 the
        # socket may be busy with other replies.
        self._silence = silence if response.http_version == "HTTP/2" else None
        self.ended: bool = False
        self.host: str = response.url.host

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self._response.status_code

    def header(self, name: str) -> str:
        """Return a header of the answer; "" if there is none."""
        return str(self._response.headers.get(name, ""))

    @property
    def media_type(self) -> str:
        """The declared type of the body without parameters, in lower case; "" if there is none."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request once this reply is closed."""
        # On HTTP/1.1 an unread body closes its own connection; on HTTP/2 httpcore leaves the
        # stream open on the server and in its own books.
        return self.ended or self._response.http_version != "HTTP/2"

    async def receive(self) -> bytes:
        """Return the next piece of the body, or b"" at its end.

        Raises:
            ModelError: the connection broke or was silent for too long.
        """
        try:
            if self._silence is None:
                piece = await anext(self._chunks, b"")
            else:
                with _bounded(self._silence, self.host):
                    piece = await anext(self._chunks, b"")
        except _FAILURES as error:
            raise _translated(error, self.host) from error
        self.ended = not piece
        return piece

    async def read(self, limit: int) -> bytes:
        """Return the body up to `limit` bytes or a little more.

        Raises:
            ModelError: the connection broke or was silent for too long.
        """
        body = bytearray()
        while len(body) < limit and (piece := await self.receive()):
            body += piece
        return bytes(body)

    async def drain(self, seconds: float) -> None:
        """Wait for the end of a body that has nothing more to say, so that the connection can be kept."""
        with trio.move_on_after(seconds), suppress(ModelError):
            while await self.receive():
                pass

    async def aclose(self) -> None:
        """Give the connection back, or up if the body was not read to its end."""
        with trio.CancelScope(shield=True) as scope, suppress(httpx.HTTPError, h2.exceptions.H2Error):
            # httpx reads through a chain of generators; one that is merely dropped is cleaned up by
            # the collector at some later time, one that is cancelled cleans up here.
            scope.cancel()
            while await anext(self._chunks, b""):
                pass
        with trio.move_on_after(_CLOSING, shield=True):
            await self._response.aclose()


class _Body(httpx.AsyncByteStream):
    """A request's body, sent once; httpx's own is a generator, left open when sending is interrupted."""

    def __init__(self, data: bytes) -> None:
        self._pieces = iter((data,))

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        try:
            return next(self._pieces)
        except StopIteration:
            raise StopAsyncIteration from None


@dataclass(slots=True)
class _Pool:
    """A client with its connections, how many replies it carries, and whether it takes new ones."""

    http: httpx.AsyncClient
    is_tls: bool
    replies: int = 0
    retired: bool = False


@dataclass(slots=True)
class ModelClient:
    """The connections to all models: HTTP/2 where offered, one TLS context, kept between requests.

    After a reply that was given up, its pool takes no more requests and is closed with its last
    reply, so that the server learns of it and stops to generate.
    """

    _make: Callable[..., httpx.AsyncClient]
    silence: float
    _open: list[_Pool] = field(default_factory=list)
    _retired: list[_Pool] = field(default_factory=list)

    @asynccontextmanager
    async def send(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes = b""
    ) -> AsyncGenerator[Reply, None]:
        """Send a request; the reply is open until the context is left.

        Raises:
            ModelError: the server could not be reached, or did not answer in time.
        """
        pool = self._take(is_tls=url.scheme == "https")
        reusable = False
        try:
            request = pool.http.build_request(method, url, headers=dict(headers), content=body or None)
            if body:
                request.stream = _Body(body)
            try:
                with _bounded(2 * self.silence, url.host):
                    reply = Reply(await pool.http.send(request, stream=True), self.silence)
            except _FAILURES as error:
                raise _translated(error, url.host) from error
            try:
                yield reply
            finally:
                await reply.aclose()
                reusable = reply.reusable
        finally:
            await self._give_back(pool, reusable=reusable)

    async def aclose(self) -> None:
        """Close all connections, also those that still carry a reply."""
        pools = [*self._retired, *self._open]
        self._retired, self._open = [], []
        with trio.move_on_after(_CLOSING, shield=True):
            for pool in pools:
                await pool.http.aclose()

    def _take(self, *, is_tls: bool) -> _Pool:
        """Return a pool that carries few enough replies, with one more to carry."""
        most = _SHARED if is_tls else _SIDE_BY_SIDE
        fitting = (pool for pool in self._open if pool.is_tls is is_tls and pool.replies < most)
        pool = next(fitting, None)
        if pool is None:
            pool = _Pool(self._make(is_tls=is_tls), is_tls)
            self._open.append(pool)
        pool.replies += 1
        return pool

    async def _give_back(self, pool: _Pool, *, reusable: bool) -> None:
        pool.replies -= 1
        if not reusable and not pool.retired:
            pool.retired = True
            self._retired.append(pool)
            if pool in self._open:
                self._open.remove(pool)
        if pool in self._retired and pool.replies == 0:
            self._retired.remove(pool)
            with trio.move_on_after(_CLOSING, shield=True):
                await pool.http.aclose()


def make_client(
    *, ca_file: str | None = None, proxy: str | None = None, timeouts: Timeouts | None = None
) -> ModelClient:
    """Return the client for all models; the environment's proxy and certificate variables are not read.

    `ca_file` is a PEM file with authorities to trust beside the public ones.

    Raises:
        ProviderSetupError: `ca_file` cannot be read, or `proxy` is not a proxy's URL.
    """
    # Reading the authorities takes a tenth of a start; a service without TLS needs none.
    trusted = cache(partial(_tls_context, ca_file))
    if ca_file is not None or proxy is not None:
        trusted()
    bounds = timeouts or Timeouts()
    timeout = httpx.Timeout(bounds.silence, connect=bounds.connect, pool=None)

    def make(*, is_tls: bool) -> httpx.AsyncClient:
        context = trusted() if is_tls or proxy is not None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncClient(verify=context, http2=is_tls, proxy=proxy, timeout=timeout, trust_env=False)

    try:
        if proxy is not None:
            httpx.Proxy(proxy)
        return ModelClient(make, bounds.silence)
    except (ValueError, httpx.InvalidURL) as error:
        raise ProviderSetupError(
            "llm.proxy is not the URL of a proxy, such as http://127.0.0.1:3128"
        ) from error


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise ProviderSetupError(
                f"llm.ca_file {one_line(ca_file)} cannot be used: {error.strerror}"
            ) from error
    return context


@contextmanager
def _bounded(seconds: float, host: str) -> Iterator[None]:
    """Give a wait up after some seconds.

    Raises:
        ModelError: the time ran out.
    """
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise ModelError(f"{host} was silent for too long", ErrorKind.UNAVAILABLE)


def _translated(error: Exception, host: str) -> ModelError:
    """Turn what the HTTP libraries raise into one sentence about the host."""
    match error:
        case httpx.ConnectTimeout():
            return ModelError(f"{host} could not be reached in time", ErrorKind.UNAVAILABLE)
        case httpx.TimeoutException():
            return ModelError(f"{host} was silent for too long", ErrorKind.UNAVAILABLE)
        case httpx.ConnectError() | httpx.ProxyError():
            stranger = _certificate_problem(error)
            words = f"{host} could not be reached: {stranger or _reason(error)}"
            return ModelError(words, ErrorKind.UNAVAILABLE, passing=not stranger)
    return ModelError(f"the connection to {host} broke: {_reason(error)}", ErrorKind.UNAVAILABLE)


def _certificate_problem(error: BaseException) -> str:
    """Return what is wrong with the server's certificate, "" if that is not why it was not reached."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate was not accepted ({one_line(cause.verify_message)})"
        cause = cause.__cause__ or cause.__context__
    return ""


def _reason(error: BaseException) -> str:
    return one_line(str(error)) or type(error).__name__
