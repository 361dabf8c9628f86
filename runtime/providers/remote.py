"""One model on the network: sends requests in the service's dialect and parses its replies.

Decides what an HTTP status means and keeps every key out of messages. How requests are written and
replies read is left to the dialects, connections to `transport.py`, asking again to `retry.py`.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import field
from datetime import UTC

import httpx
import trio

from leeward.security.lazy import dataclass

from .dialect import Dialect, ReplyReader
from .interface import (
    ErrorKind,
    ModelError,
    ModelEvent,
    ModelInfo,
    ProviderSetupError,
    Request,
    TextDelta,
    one_line,
)
from .transport import EventStream, ModelClient, Reply
from .wire import error_in, read_object

__all__ = ["RemoteModel", "Service"]

_ERROR_BODY = 64 * 1024  # bytes of an error page that are read
_WHOLE_BODY = 32 * 1024 * 1024  # bytes of a reply that was not streamed
_AFTERMATH = 0.5  # seconds for a server to close a stream it has declared done
_SIGNS_OF_LIFE = 4  # how many times the bound of silence a server may only say that it is there
_PAGES = 20
_LIKE_A_KEY = 8  # characters from which the value of a header may be a secret
_PING = 32  # characters within which an event can only say that the server is there
_ABOUT_CONTENT = (400, 413, 422)
_BY_STATUS = {
    401: (ErrorKind.AUTH, "refused the API key"),
    403: (ErrorKind.AUTH, "refused the API key"),
    402: (ErrorKind.RATE_LIMITED, "wants to be paid first"),
    429: (ErrorKind.RATE_LIMITED, "wants fewer requests"),
    404: (ErrorKind.BAD_REQUEST, "knows no such model or address"),
    408: (ErrorKind.UNAVAILABLE, "gave up waiting"),
    409: (ErrorKind.UNAVAILABLE, "was busy with something else"),
}
_BY_CLASS = {
    2: (ErrorKind.PROTOCOL, "answered without a reply"),
    3: (ErrorKind.BAD_REQUEST, "answered with a redirect, which is not followed; is base_url right?"),
    4: (ErrorKind.BAD_REQUEST, "refused the request"),
    5: (ErrorKind.UNAVAILABLE, "failed"),
}


@dataclass(frozen=True, slots=True)
class Service:
    """Where a service is and how it knows us.

    `auth_header` carries the key, after the word Bearer if it is Authorization. `wants_key` says where
    to put one, for a service that answers nobody without.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    auth_header: str = "authorization"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    wants_key: str = ""


class RemoteModel:
    """One model of one service."""

    __slots__ = (
        *("_client", "_dialect", "_key", "_model", "_requests", "_service", "_url", "_writer"),
        *("name", "takes_pictures"),
    )

    def __init__(
        self,
        client: ModelClient,
        dialect: Dialect,
        service: Service,
        model: str,
        name: str = "",
        *,
        takes_pictures: bool = False,
    ) -> None:
        """Say which model is meant, and under which name the person chose it; nothing is sent yet.

        `takes_pictures` is for those who ask; what a request holds is sent.

        Raises:
            ProviderSetupError: the base URL is not an http(s) URL, or a value cannot be sent.
        """
        self._client = client
        self._dialect = dialect
        self._service = service
        self._model = model.strip()
        self._url = _base(service.base_url, dialect)
        self._requests = self._address(dialect.path)
        self._writer = dialect.writer(self._model, self._owner)
        self._key = _sendable_key(service.api_key)
        for header, value in service.headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ProviderSetupError(f"the header {one_line(header, 60)} holds what cannot be sent")
        self.name: str = name or self._model
        self.takes_pictures: bool = takes_pictures

    def __repr__(self) -> str:
        return f"<{self.name} at {self._url.host}>"

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Ask, and read the reply as it comes; leaving the context early drops the connection.

        Raises:
            ModelError: on entering or while reading.
        """
        with self._keyless():
            async with self._asked(request) as reply, aclosing(self._events(reply)) as events:
                yield events

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return the models the service offers, in its own order.

        Raises:
            ModelError: it could not be asked.
        """
        found: list[ModelInfo] = []
        following: Mapping[str, str] = {}
        with self._keyless():
            for _ in range(_PAGES):
                url = self._address("/models", following)
                async with self._client.send("GET", url, self._headers("application/json")) as reply:
                    if reply.status != httpx.codes.OK:
                        raise await _refusal(reply)
                    body = (await reply.read(_WHOLE_BODY)).decode("utf-8", "replace")
                page, following = self._dialect.models(read_object(body))
                found += page
                if not following:
                    break
        return tuple(found)

    @asynccontextmanager
    async def _asked(self, request: Request) -> AsyncGenerator[Reply, None]:
        """Send a request, a second time if the server only minds a field that can be left out."""
        while True:
            headers, body = self._headers("text/event-stream"), self._writer.write(request)
            async with self._client.send("POST", self._requests, headers, body) as reply:
                if reply.status == httpx.codes.OK:
                    yield reply
                    return
                refusal = await _refusal(reply)
            plainer = self._dialect.without(str(refusal)) if refusal.kind is ErrorKind.BAD_REQUEST else None
            if plainer is None:
                raise refusal
            self._dialect, self._writer = plainer, plainer.writer(self._model, self._owner)

    async def _events(self, reply: Reply) -> AsyncGenerator[ModelEvent, None]:
        reader = self._dialect.reader(self._owner)
        if reply.media_type == "application/json":
            for event in _events_of(reader, [(await reply.read(_WHOLE_BODY)).decode("utf-8", "replace")]):
                yield event
        else:
            _expect_stream(reply)
            async with aclosing(_streamed(reply, reader, self._client.silence)) as events:
                async for event in events:
                    yield event
        for event in reader.finish():
            yield event

    @property
    def _owner(self) -> str:
        """Whose a reply is: what goes back verbatim goes to this model of this service, in this dialect."""
        return f"{self._model}@{self._url.host}{self._url.path}{self._dialect.path}"

    @contextmanager
    def _keyless(self) -> Iterator[None]:
        """See that there is a key where one is needed, and that no error tells it."""
        if self._service.wants_key and not self._key:
            raise ModelError(f"there is no API key; {self._service.wants_key}", ErrorKind.AUTH)
        try:
            yield
        except ModelError as error:
            message = str(error)
            headers = (value for value in self._service.headers.values() if len(value) >= _LIKE_A_KEY)
            for secret in (self._key, *headers):
                message = message.replace(secret, "[key]") if secret else message
            if message == str(error):
                raise
            # Without its cause, for that may quote the same words.
            raise error.reworded(message) from None

    def _headers(self, accepted: str) -> dict[str, str]:
        headers = {
            "accept": accepted,
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "leeward",
            **self._dialect.headers,
            **{name.lower(): value for name, value in self._service.headers.items()},
        }
        if self._key:
            name = self._service.auth_header.lower()
            headers[name] = f"Bearer {self._key}" if name == "authorization" else self._key
        return headers

    def _address(self, path: str, query: Mapping[str, str] | None = None) -> httpx.URL:
        url = self._url.copy_with(path=self._url.path + path)
        return url.copy_merge_params({**self._service.query, **(query or {})})


def _base(base_url: str, dialect: Dialect) -> httpx.URL:
    wanted = "llm base_url must be an http or https URL such as https://api.openai.com/v1"
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise ProviderSetupError(f"{wanted}, not {one_line(base_url, 100)}") from error
    if url.userinfo:
        raise ProviderSetupError(f"{wanted}, without a user name or password in it")
    if url.scheme not in ("http", "https") or not url.host:
        raise ProviderSetupError(f"{wanted}, not {one_line(base_url, 100)}")
    return url.copy_with(path=dialect.base_path(url.path), fragment=None)


def _sendable_key(key: str) -> str:
    key = key.strip()
    if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
        raise ProviderSetupError("the API key holds characters that no key has; was something else pasted?")
    return key


def _expect_stream(reply: Reply) -> None:
    if reply.media_type not in ("text/event-stream", ""):
        kind = one_line(reply.media_type, 60)
        message = f"{reply.host} answered with {kind} instead of an event stream; is base_url right?"
        raise ModelError(message, ErrorKind.PROTOCOL)


async def _streamed(reply: Reply, reader: ReplyReader, silence: float) -> AsyncGenerator[ModelEvent, None]:
    """Yield what the events of a stream tell, as they come; what follows the end is not looked at."""
    parser = EventStream()
    idle_since: float | None = None
    while piece := await reply.receive():
        found = parser.feed(piece)
        for event in _events_of(reader, found):
            yield event
        if reader.done:
            await reply.drain(_AFTERMATH)
            return
        if found and not _is_ping(found[-1]):
            idle_since = None
        elif idle_since is None:
            idle_since = trio.current_time()
        elif trio.current_time() - idle_since > _SIGNS_OF_LIFE * silence:
            raise ModelError(f"{reply.host} sent only keep-alives", ErrorKind.UNAVAILABLE)
    try:
        for event in _events_of(reader, parser.flush()):
            yield event
    except ModelError as error:
        if error.kind is not ErrorKind.PROTOCOL:
            raise
        # The last event came without its end: what cannot be read is half of it.
        raise ModelError("the model's reply broke off before its end", ErrorKind.UNAVAILABLE) from error


def _events_of(reader: ReplyReader, found: Iterable[str]) -> Iterator[ModelEvent]:
    """Yield the content of some events of a stream; texts that came together are yielded together.

    Each event costs a little at every place it passes, and a server that is faster than we are, or sends
    a token at a time, has many of them.
    """
    texts: list[str] = []
    for data in found:
        events = reader.feed(data)
        if isinstance(events, str):
            texts.append(events)
        else:
            if text := "".join(texts):
                yield TextDelta(text)
                texts.clear()
            yield from events
        if reader.done:
            break
    if text := "".join(texts):
        yield TextDelta(text)


def _is_ping(data: str) -> bool:
    return len(data) <= _PING and '"ping"' in data


async def _refusal(reply: Reply) -> ModelError:
    """Return what an HTTP error status means, with the server's own words in one line."""
    body = (await reply.read(_ERROR_BODY)).decode("utf-8", "replace")
    error = None
    try:
        error = error_in(json.loads(body))
        text = str(error).partition(": ")[2] if error else one_line(body)
    except (ValueError, RecursionError):
        text = "" if "html" in reply.media_type else one_line(body)
    kind, sentence = _BY_STATUS.get(reply.status) or _BY_CLASS.get(reply.status // 100, _BY_CLASS[5])
    if error and error.kind is ErrorKind.AUTH and kind is ErrorKind.BAD_REQUEST:
        kind, sentence = _BY_STATUS[401]
    after = _retry_after(reply)
    final = reply.status == httpx.codes.PAYMENT_REQUIRED or reply.header("x-should-retry") == "false"
    if error and error.kind is kind and not error.passing:
        final = True
    return ModelError(
        f"{reply.host} {sentence} ({reply.status}){': ' if text else ''}{text}",
        kind,
        passing=False if final else None,
        retry_after=error.retry_after if after is None and error else after,
        is_about_content=kind is ErrorKind.BAD_REQUEST and reply.status in _ABOUT_CONTENT,
    )


def _retry_after(reply: Reply) -> float | None:
    """Return the seconds to wait, which a server may name in one of three ways."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(reply.header(header)) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = email.utils.parsedate_to_datetime(reply.header("retry-after"))
    except ValueError:
        return None
    # A date without a zone is in universal time, as all dates of HTTP are.
    moment = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())
