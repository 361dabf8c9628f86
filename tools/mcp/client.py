"""One connection by the official SDK, at the edge: its types and errors come in here and go no further.

Everything a server answers is checked by the SDK against the protocol's schema. A server's output schemas
are not evaluated, for their patterns are a stranger's, and its own log lines reach no terminal. Images,
sounds and other contents that are no text are named by type and size. This file is imported when a server is
started (`server.py`).
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
import trio
from mcp.client import session as sdk_session
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.shared import jsonrpc_dispatcher as sdk_dispatcher
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.outcome import InvalidParameters, PermanentFailure, ServerError, ToolError

from .asking import Requests
from .listing import MOST_TOOLS, ListedTool, Listing, ListingRefused
from .offers import OFFERS, offered, prompt_lines, resource_lines
from .transport import Ended, Incoming, Transport

__all__ = ["CallResult", "Client", "Progress", "open_client"]

_MOST_PAGES, _MOST_OFFERED = 50, 5_000
_CLAIMS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_DECLINED = -1  # the code the protocol has for a person who says no
_NOWHERE = logging.getLogger(f"{__name__}.nowhere")
_NOWHERE.disabled = True

# The SDK logs what servers send, and without a logging configuration that ends up on the terminal.
sdk_session.logger = _NOWHERE
sdk_dispatcher.logger = _NOWHERE

Progress = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CallResult:
    """The text of an answer, and whether the server says that the call failed."""

    text: str
    is_error: bool = False


class _Stream:
    """What the SDK asks of either of its streams; `over` is called with the reason for the end."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave the transport open; its opener closes it."""


class _Reads(_Stream):
    """Hands the SDK what comes from a server."""

    def __init__(self, incoming: Incoming, over: Callable[[Ended], None]) -> None:
        self._incoming, self._over = incoming, over

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                message = await self._incoming.next()
            except Ended as error:
                self._over(error)
                raise anyio.EndOfStream from error
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))
            except (ValidationError, RecursionError):
                continue


class _Writes(_Stream):
    """Takes from the SDK what goes to a server."""

    def __init__(self, transport: Transport, over: Callable[[Ended], None]) -> None:
        self._transport, self._over = transport, over

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await self._transport.send(text.encode())
        except Ended as error:
            self._over(error)
            raise anyio.BrokenResourceError from error


class _Asked:
    """What the SDK calls when the server asks for something, as its callbacks."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def fill(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult:
        # A URL to be opened elsewhere is declined: what is typed there is seen by nobody here.
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        values = await self._requests.fill(params.message, params.requested_schema)
        if values is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult.model_validate({"action": "accept", "content": dict(values)})

    async def complete(
        self,
        context: ClientRequestContext,  # noqa: ARG002
        params: types.CreateMessageRequestParams,
    ) -> types.CreateMessageResult | types.ErrorData:
        parts = [(one.role, part) for one in params.messages for part in one.content_as_list]
        lines = [f"[{role}]\n{part.text}" for role, part in parts if isinstance(part, types.TextContent)]
        answer = None
        if lines and len(lines) == len(parts) and not params.tools:
            answer = await self._requests.complete(params.system_prompt or "", "\n".join(lines))
        if answer is None:
            return types.ErrorData(code=_DECLINED, message="declined")
        content = types.TextContent(type="text", text=answer)
        return types.CreateMessageResult(role="assistant", content=content, model="leeward")


class Client:
    """A server that is connected. `is_stale`: it announced that its tools changed.

    `over` is set once the connection is over, and says why.
    """

    def __init__(self, transport: Transport, roots: Sequence[str], requests: Requests | None) -> None:
        self.is_stale: bool = False
        self.over: Ended | None = None
        self.ended: trio.Event = trio.Event()
        self._transport = transport
        self._roots = tuple(roots)
        self._server = self._version = ""
        self._offers: tuple[ListedTool, ...] = ()
        asked = _Asked(requests) if requests is not None else None
        self._session = ClientSession(
            _Reads(Incoming(transport), self.end),
            _Writes(transport, self.end),
            client_info=types.Implementation(name="leeward", version=importlib.metadata.version("leeward")),
            message_handler=self._heard,
            list_roots_callback=self._told_roots if roots else None,
            elicitation_callback=asked.fill if asked is not None else None,
            sampling_callback=asked.complete if asked is not None else None,
        )

    def end(self, why: Ended) -> None:
        """Take down why the connection is over; the first reason counts."""
        self.over = self.over or why
        self.ended.set()

    async def begin(self) -> None:
        """Shake hands.

        Raises:
            ToolError: the server did not answer as it should.
        """
        found = await self._asked(self._session.initialize())
        self._server, self._version = found.server_info.name, found.server_info.version
        has = found.capabilities
        self._offers = (*offered(resources=has.resources is not None, prompts=has.prompts is not None),)

    async def tools(self) -> Listing:
        """Return what the server lists.

        Raises:
            ListingRefused: that breaks a bound.
            ToolError: the server did not answer as it should.
        """
        self.is_stale = False
        asked = types.ListToolsRequest, types.ListToolsResult, "tools", MOST_TOOLS
        found = [*map(_listed, await self._all_pages(*asked))]
        if ours := next((tool.name for tool in found if tool.name in OFFERS), ""):
            raise ListingRefused(f"it lists a tool called {ours}, which is the name of no tool")
        # A server whose own tools are as many as there may be goes without the others.
        more = self._offers if len(found) + len(self._offers) <= MOST_TOOLS else ()
        return Listing.of(self._server, self._version, (*found, *more))

    async def _all_pages(self, request: Any, result: Any, name: str, most: int) -> list[Any]:
        """Return the entries of a list, until there are more than `most`."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await self._asked(self._session.send_request(request(params=params), result))
            found += getattr(page, name)
            if len(found) > most or not page.next_cursor or page.next_cursor == cursor:
                return found
            cursor = page.next_cursor
        raise ListingRefused(f"it lists its {name} on more than {_MOST_PAGES} pages")

    async def call(self, tool: str, arguments: Mapping[str, Json], tell: Progress) -> CallResult:
        """Call a tool; cancelling tells the server so.

        Raises:
            ToolError: the server did not answer as it should.
        """
        if tool in OFFERS:
            return CallResult("\n".join(await self._offer(tool, arguments)))

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            if message:
                await tell(message)

        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        request = types.CallToolRequest(params=params)
        asked = self._session.send_request(request, types.CallToolResult, progress_callback=on_progress)
        result = await self._asked(asked)
        return _text_of(_plain(result))

    async def _offer(self, tool: str, arguments: Mapping[str, Any]) -> list[str]:
        """Return the lines of a resource or prompt, or of the list where none is named."""
        key = "uri" if tool == "resources/read" else "name"
        if not arguments.get(key):
            return await self._offer_list(tool)
        if key == "uri":
            read = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=arguments["uri"]))
            result = _plain(await self._asked(self._session.send_request(read, types.ReadResourceResult)))
            inside = [{"type": "resource", "resource": one} for one in result["contents"]]
            return [part for block in inside for part in _parts(block)]
        params = types.GetPromptRequestParams(name=arguments["name"], arguments=arguments.get("arguments"))
        get = types.GetPromptRequest(params=params)
        result = _plain(await self._asked(self._session.send_request(get, types.GetPromptResult)))
        messages = result["messages"]
        return [part for one in messages for part in (f"[{one['role']}]", *_parts(one["content"]))]

    async def _offer_list(self, tool: str) -> list[str]:
        lines = resource_lines if tool == "resources/read" else prompt_lines
        asked: tuple[Any, Any, str] = (types.ListPromptsRequest, types.ListPromptsResult, "prompts")
        if tool == "resources/read":
            asked = (types.ListResourcesRequest, types.ListResourcesResult, "resources")
        try:
            found = await self._all_pages(*asked, _MOST_OFFERED)
        except ListingRefused as error:
            raise ServerError(str(error)) from error
        return [*lines([_plain(one) for one in found])]

    async def _asked(self, asked: Awaitable[Any]) -> Any:
        """Return an answer; what the SDK raises becomes an error of ours, with the server's words in it."""
        try:
            return await asked
        except MCPError as error:
            if self.over is not None:
                raise self.failure() from error
            kind = InvalidParameters if error.code == types.INVALID_PARAMS else PermanentFailure
            raise kind(f"the server answered with an error: {error.message}") from error
        except (ValidationError, RuntimeError) as error:
            raise ServerError("the server's answer does not follow the protocol") from error

    def failure(self) -> ToolError:
        """Return why there is no answer, with the last words of the server."""
        why = str(self.over) if self.over is not None else "the connection is over"
        words = self._transport.last_words
        return Ended(f"{why}; its last words: {words}" if words else why)

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.is_stale = True

    async def _told_roots(self, context: ClientRequestContext) -> types.ListRootsResult:  # noqa: ARG002
        roots = [types.Root.model_validate({"uri": Path(path).as_uri()}) for path in self._roots]
        return types.ListRootsResult(roots=roots)

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.__aexit__(kind, error, trace)


def _listed(tool: types.Tool) -> ListedTool:
    hints = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    claims = [f"{name}: {str(hints[name]).lower()}" for name in _CLAIMS if name in hints]
    return ListedTool.of(tool.name, tool.description or "", tool.input_schema, claims)


def _plain(model: Any) -> dict[str, Any]:
    plain: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain


def _text_of(result: Mapping[str, Any]) -> CallResult:
    """Return a result of `tools/call`, checked against its schema before, as text."""
    parts = [part for block in result.get("content", ()) for part in _parts(block)]
    structured = result.get("structuredContent")
    if structured is not None and not parts:
        parts.append(json.dumps(structured, ensure_ascii=False, indent=1))
    return CallResult("\n".join(parts), result.get("isError") is True)


def _parts(block: Mapping[str, Any]) -> Iterator[str]:
    match block.get("type"):
        case "text":
            yield str(block.get("text", ""))
        case "image" | "audio" as what:
            yield _blob(str(what), block.get("mimeType"), block.get("data"))
        case "resource_link":
            yield f"[resource {block.get('name', '')}: {block.get('uri', '')}]"
        case "resource":
            inside = block.get("resource", {})
            yield f"[resource {inside.get('uri', '')}]"
            if "text" in inside:
                yield str(inside["text"])
            else:
                yield _blob("content", inside.get("mimeType"), inside.get("blob"))


def _blob(what: str, media_type: object, data: object) -> str:
    """Name a content by type and size; of base64, four characters are three bytes."""
    size = len(str(data or "").rstrip("=")) * 3 // 4
    return f"[{what}: {media_type or 'of no type'}, {size} bytes; it is not shown]"


@asynccontextmanager
async def open_client(
    transport: Transport, roots: Sequence[str] = (), requests: Requests | None = None
) -> AsyncIterator[Client]:
    """Yield a server that answered the handshake.

    Raises:
        ToolError: it did not.
    """
    failure: ToolError | None = None
    async with Client(transport, roots, requests) as client:
        try:
            await client.begin()
            yield client
        except ToolError as error:
            # The SDK's task group would wrap it.
            failure = error
    if failure is not None:
        raise failure
