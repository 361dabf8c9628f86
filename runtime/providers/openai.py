"""A model behind the Chat Completions dialect, at OpenAI or at any server that speaks it.

Encodes a request, decides what an HTTP status means, and hands the reply's bytes through `sse.py`
and `chat.py`. Connections are left to `transport.py`; where a key comes from, to the configuration.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from .chat import ReplyReader, error_in, read_chunk
from .events import (
    ErrorKind,
    Message,
    ModelError,
    ModelEvent,
    ProviderSetupError,
    Request,
    TextDelta,
    ToolView,
    one_line,
)
from .sse import EventStream
from .transport import ModelClient, Reply

__all__ = ["DEFAULT_BASE_URL", "OpenAI"]

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_ERROR_BODY = 64 * 1024  # bytes of an error page that are read
_WHOLE_BODY = 32 * 1024 * 1024  # bytes of a reply that was not streamed
_AFTERMATH = 0.5  # seconds for a server to close a stream it has declared done
_PATH = "/chat/completions"
_BY_STATUS = {
    401: (ErrorKind.AUTH, "refused the API key"),
    403: (ErrorKind.AUTH, "refused the API key"),
    402: (ErrorKind.RATE_LIMITED, "wants to be paid first"),
    429: (ErrorKind.RATE_LIMITED, "wants fewer requests"),
    404: (ErrorKind.BAD_REQUEST, "knows no such model or address"),
    408: (ErrorKind.UNAVAILABLE, "gave up waiting"),
}
_BY_CLASS = {
    2: (ErrorKind.PROTOCOL, "answered without a reply"),
    3: (ErrorKind.BAD_REQUEST, "answered with a redirect, which is not followed; is base_url right?"),
    4: (ErrorKind.BAD_REQUEST, "refused the request"),
    5: (ErrorKind.UNAVAILABLE, "failed"),
}


class OpenAI:
    """One model of one server."""

    __slots__ = ("_client", "_key", "_model", "_own", "_url")

    def __init__(
        self, client: ModelClient, model: str, *, base_url: str | None = None, api_key: str = ""
    ) -> None:
        """Say which model is meant; nothing is sent yet.

        Raises:
            ProviderSetupError: `base_url` is not an http(s) URL, or a value cannot be sent.
        """
        if not model.strip():
            raise ProviderSetupError("a model's name is missing: write openai:NAME")
        self._client = client
        self._model = model.strip()
        self._url = _endpoint(base_url or DEFAULT_BASE_URL)
        self._own = self._url.host == httpx.URL(DEFAULT_BASE_URL).host
        self._key = api_key.strip()
        if not self._key.isascii() or any(c.isspace() or not c.isprintable() for c in self._key):
            raise ProviderSetupError(
                "the API key holds characters that no key has; was something else pasted?"
            )

    @property
    def name(self) -> str:
        """The name under which the person chose it."""
        return f"openai:{self._model}"

    def __repr__(self) -> str:
        return f"<OpenAI {self._model} at {self._url.host}>"

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Ask, and read the reply as it comes; leaving the context early drops the connection.

        Raises:
            ModelError: on entering or while reading.
        """
        if self._own and not self._key:
            raise ModelError("there is no API key for OpenAI; set OPENAI_API_KEY", ErrorKind.AUTH)
        try:
            async with self._client.post(self._url, self._headers(), self._body(request)) as reply:
                if reply.status != httpx.codes.OK:
                    raise await _refusal(reply)
                async with aclosing(_events(reply)) as events:
                    yield events
        except ModelError as error:
            message = str(error)
            if not self._key or self._key not in message:
                raise
            # Without its cause, for that may quote the same words.
            raise ModelError(message.replace(self._key, "[key]"), error.kind) from None

    def _headers(self) -> dict[str, str]:
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "leeward",
        }
        return {**headers, "authorization": f"Bearer {self._key}"} if self._key else headers

    def _body(self, request: Request) -> bytes:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_message(message) for message in request.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_tool(view) for view in request.tools]
        if request.max_tokens is not None:
            # OpenAI's newer models refuse the name that every other server knows.
            body["max_completion_tokens" if self._own else "max_tokens"] = request.max_tokens
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _endpoint(base_url: str) -> httpx.URL:
    wanted = "llm base_url must be an http or https URL such as https://api.openai.com/v1"
    try:
        url = httpx.URL(base_url.strip())
    except httpx.InvalidURL as error:
        raise ProviderSetupError(f"{wanted}, not {one_line(base_url, 100)}") from error
    if url.userinfo:
        raise ProviderSetupError(f"{wanted}, without a user name or password in it")
    if url.scheme not in ("http", "https") or not url.host:
        raise ProviderSetupError(f"{wanted}, not {one_line(base_url, 100)}")
    return url.copy_with(path=url.path.rstrip("/").removesuffix(_PATH) + _PATH, fragment=None)


def _tool(view: ToolView) -> dict[str, Any]:
    function = {"name": view.name, "description": view.description, "parameters": dict(view.schema)}
    return {"type": "function", "function": function}


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    encoded: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        encoded["content"] = message.text or None
        encoded["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _sent(call.arguments)},
            }
            for call in message.calls
        ]
    return encoded


def _sent(arguments: str) -> str:
    """Return the arguments of an earlier call as a JSON object, whatever the model had written.

    Some servers parse what they are sent back and refuse the whole conversation over one broken call.
    """
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"invalid_json": arguments})


async def _events(reply: Reply) -> AsyncGenerator[ModelEvent, None]:
    reader, told = ReplyReader(), False
    async with aclosing(_data(reply)) as stream:
        async for data in stream:
            if data.strip() == "[DONE]":
                told = True
                break
            if text := reader.feed(read_chunk(data)):
                yield TextDelta(text)
    if told:
        await reply.drain(_AFTERMATH)
    for event in reader.finish(told=told):
        yield event


async def _data(reply: Reply) -> AsyncGenerator[str, None]:
    """Yield the data of each event; a server that did not stream sent one."""
    if reply.media_type == "application/json":
        yield (await reply.read(_WHOLE_BODY)).decode("utf-8", "replace")
        return
    if reply.media_type not in ("text/event-stream", ""):
        kind = one_line(reply.media_type, 60)
        message = f"{reply.host} answered with {kind} instead of an event stream; is base_url right?"
        raise ModelError(message, ErrorKind.PROTOCOL)
    parser = EventStream()
    while piece := await reply.receive():
        for data in parser.feed(piece):
            yield data
    for data in parser.flush():
        yield data


async def _refusal(reply: Reply) -> ModelError:
    """Return what an HTTP error status means, with the server's own words in one line."""
    body = (await reply.read(_ERROR_BODY)).decode("utf-8", "replace")
    try:
        told = error_in(json.loads(body))
        said = str(told).partition(": ")[2] if told else one_line(body)
    except (ValueError, RecursionError):
        said = "" if "html" in reply.media_type else one_line(body)
    kind, sentence = _meaning(reply.status)
    return ModelError(f"{reply.host} {sentence} ({reply.status}){': ' if said else ''}{said}", kind)


def _meaning(status: int) -> tuple[ErrorKind, str]:
    return _BY_STATUS.get(status) or _BY_CLASS.get(status // 100, _BY_CLASS[5])
