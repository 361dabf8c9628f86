"""Messages over streamable HTTP: each is a POST, answered by one message or by a stream of events.

Before each request the gate of the running call says that the service may be reached, and records it. A
redirect ends the connection, for the person named this URL and no other. Answers are bounded like lines.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol

import trio

from leeward.security.call import Exchange
from leeward.security.outcome import PolicyBlocked, ToolError

from .gate import CallGate
from .settings import ServerSettings
from .transport import MOST_BYTES, Ended

__all__ = ["HttpTransport", "Requests", "open_http"]

_ACCEPTED = "application/json, text/event-stream"
_MOST_AT_ONCE, _MOST_WAITING = 16, 64
_END = 1.0
_PARTING = 0.3
_WORDS = 500


class Answer(Protocol):
    """An answer whose body is still to come (`tools/http/service.py`)."""

    @property
    def status(self) -> int:
        """The status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        ...

    @property
    def chunks(self) -> AsyncIterator[bytes]:
        """The body."""
        ...


class Requests(Protocol):
    """Sends requests to the one service (`tools/http/service.py`)."""

    def answer(
        self, method: str, headers: Mapping[str, str], content: bytes, report: Callable[[Exchange], None]
    ) -> Any:
        """Send a request, and yield its answer."""
        ...


class HttpTransport:
    """The messages of one service. `last_words` is the text of its refusal."""

    def __init__(self, settings: ServerSettings, requests: Requests, target: str, gate: CallGate) -> None:
        self.last_words: str = ""
        self._settings, self._requests, self._target, self._gate = settings, requests, target, gate
        self._arriving, self._messages = trio.open_memory_channel[bytes | Ended](_MOST_WAITING)
        self._outgoing, self._waiting = trio.open_memory_channel[bytes](_MOST_WAITING)
        self._session = self._version = ""
        self._waits: dict[int | str, trio.CancelScope] = {}
        self._open: dict[trio.CancelScope, trio.Event] = {}

    async def send(self, message: bytes) -> None:
        """Have a message posted.

        Raises:
            Ended: too many wait to be.
        """
        await trio.lowlevel.checkpoint()
        try:
            self._outgoing.send_nowait(message)
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Ended("it does not take what it is sent") from error

    async def receive(self) -> bytes:
        """Return the next message of the service.

        Raises:
            Ended: the connection is over.
        """
        message = await self._messages.receive()
        if isinstance(message, Ended):
            raise message
        return message

    async def post_all(self) -> None:
        """Post what is to be sent, several at a time: an answer may take as long as a call.

        What says that a request is cancelled ends the wait for its answer.
        """
        slots = trio.Semaphore(_MOST_AT_ONCE)
        async with trio.open_nursery() as nursery:
            async for message in self._waiting:
                content = json.loads(message)
                if content.get("method") == "notifications/cancelled":
                    self._waits.get(content["params"].get("requestId"), trio.CancelScope()).cancel()
                await slots.acquire()
                scope = trio.CancelScope()
                if "method" in content and "id" in content:
                    self._waits[content["id"]] = scope
                nursery.start_soon(self._posted, message, scope, slots)

    async def _posted(self, message: bytes, scope: trio.CancelScope, slots: trio.Semaphore) -> None:
        is_request = scope in self._waits.values()
        self._open[scope] = ended = trio.Event()
        try:
            with scope:
                await self._post(message)
        except ToolError as error:
            # That a call was cancelled may come too late to be sent: nothing is, between calls.
            if is_request or not isinstance(error, PolicyBlocked):
                await self._arriving.send(error if isinstance(error, Ended) else Ended(str(error)))
        finally:
            slots.release()
            self._waits = {number: one for number, one in self._waits.items() if one is not scope}
            del self._open[scope]
            ended.set()

    async def drop(self) -> None:
        """End what is being posted: requests at once, what needs no answer after a moment."""
        for scope, ended in [*self._open.items()]:
            if scope in self._waits.values():
                scope.cancel()
            else:
                scope.deadline = trio.current_time() + _PARTING
            await ended.wait()
        await trio.lowlevel.checkpoint()

    async def _post(self, message: bytes) -> None:
        number = await self._gate.admitted(self._target)
        headers = {"Content-Type": "application/json", "Accept": _ACCEPTED, **self._headers()}
        report = partial(self._gate.report, number=number)
        async with self._requests.answer("POST", headers, message, report) as answer:
            if not 200 <= answer.status < 300:
                raise await self._refused(answer)
            self._session = self._session or answer.headers.get("mcp-session-id", "")[:_WORDS]
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "application/json":
                await self._arrived(await _whole(answer.chunks))
            elif kind == "text/event-stream":
                async for event in _events(answer.chunks):
                    await self._arrived(event)

    async def _arrived(self, message: bytes) -> None:
        if not self._version:
            self._version = _version_in(message)
        await self._arriving.send(message)

    async def _refused(self, answer: Answer) -> Ended:
        with suppress(ToolError):
            self.last_words = (await _whole(answer.chunks))[:_WORDS].decode("utf-8", "replace").strip()
        if 300 <= answer.status < 400:
            return Ended(f"it leads elsewhere (HTTP {answer.status}), which is not followed")
        if answer.status in (401, 403):
            return Ended(f"it wants another token (HTTP {answer.status}); bearer_env names its variable")
        return Ended(f"it answered HTTP {answer.status}")

    def _headers(self) -> dict[str, str]:
        session_headers = {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": self._version}
        bearer = self._settings.bearer
        session_headers["Authorization"] = f"Bearer {bearer}" if bearer else ""
        return {name: value for name, value in session_headers.items() if value}

    async def leave(self) -> None:
        """Tell the service that the session is over, where it has one and may be reached now."""
        if self._session:
            with trio.move_on_after(_END), suppress(ToolError):
                number = await self._gate.admitted(self._target)
                report = partial(self._gate.report, number=number)
                async with self._requests.answer("DELETE", self._headers(), b"", report):
                    pass


def _version_in(message: bytes) -> str:
    """Return the protocol's version that was agreed on, where a message says it."""
    try:
        version = json.loads(message)["result"]["protocolVersion"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return version[:32] if isinstance(version, str) and version.isascii() and version.isprintable() else ""


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if len(found) > MOST_BYTES:
            raise Ended(f"it sent a message of more than {MOST_BYTES >> 20} MiB")
    return bytes(found)


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event of a stream (the format of server-sent events)."""
    begun, data, size = bytearray(), list[bytes](), 0
    async for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        begun += first
        for following in rest:
            line, begun = begun.removesuffix(b"\r"), bytearray(following)
            if line.startswith(b"data:"):
                data.append(bytes(line[5:].removeprefix(b" ")))
                size += len(line)
            elif not line and data:
                yield b"\n".join(data)
                data, size = [], 0
        if len(begun) + size > MOST_BYTES:
            raise Ended(f"it sent an event of more than {MOST_BYTES >> 20} MiB")


@asynccontextmanager
async def open_http(
    settings: ServerSettings, requests: Requests, target: str, gate: CallGate
) -> AsyncIterator[HttpTransport]:
    """Yield the messages of a service; `target` is what the gate is asked about, as HOST:PORT."""
    transport = HttpTransport(settings, requests, target, gate)
    gate.drop = transport.drop
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.post_all)
        yield transport
        await transport.leave()
        nursery.cancel_scope.cancel()
