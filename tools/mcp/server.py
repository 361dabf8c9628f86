"""The life of a server: started when first needed, by one task that also ends it, and again after it died.

What it lists is compared with what the session knows of it: a tool that is another by now is not called.
A start that fails, or a server that dies before it answered a call, makes the next start wait, longer each
time. The runtime opens servers and closes them; a call of any session may use one.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from leeward.security.call import Action
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure, PolicyBlocked, ServerError, ToolError, ToolTimeout

from .asking import Asker, Requests
from .gate import CallGate
from .listing import ListedTool, Listing, ListingRefused, difference
from .settings import ServerSettings
from .transport import Ended, Transport

if TYPE_CHECKING:
    from .client import CallResult, Client, Progress

__all__ = ["Server", "Surroundings"]

# The pause before a start after a failure; a call waits for a short one, and fails at a longer.
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_WAIT = 0.5, 60.0, 2.0

# Why the connection is over where nothing went wrong.
_CLOSED = "it was closed"

# How long a server may take to end once it was asked to.
_LONGEST_END = 5.0

# Of how a tool changed, so many lines are shown.
_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What servers are opened in: `connect` reaches one, `alert` tells the person, `kept` hears of lists.

    `asker` puts requests of servers that may ask to the person.
    """

    connect: Callable[[ServerSettings, CallGate], AbstractAsyncContextManager[Transport]]
    workspace: str
    alert: Callable[[str], None] = lambda _: None
    kept: Callable[[ServerSettings, Listing], None] = lambda _settings, _listing: None
    asker: Asker | None = None


class Server:
    """One server, whether it runs or not. `listing` is what it listed last."""

    def __init__(
        self, settings: ServerSettings, around: Surroundings, listing: Listing | None = None
    ) -> None:
        self.settings = settings
        self.listing = listing
        self.starts: int = 0
        self.gate: CallGate = CallGate()
        self._requests = (
            Requests(settings.name, around.asker) if settings.asks and around.asker is not None else None
        )
        self._around = around
        self._nursery: trio.Nursery | None = None
        self._turn = trio.Lock()
        self._client: Client | None = None
        self._failures = 0
        self._problem = ""
        self._not_before = -math.inf

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Let it be started; when this is left, it is ended."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    yield
                finally:
                    self._nursery = None
                    self.close()
                    nursery.cancel_scope.deadline = trio.current_time() + _LONGEST_END
        except BaseExceptionGroup as group:
            # What was raised in the block is what happened; the server's own task raises nothing.
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from group.exceptions[0].__cause__

    @property
    def state(self) -> str:
        """How it is at the moment, in a word or with a reason."""
        if self._client is not None and self._client.over is None:
            return "running"
        over = self._client.over if self._client is not None else None
        return str(over or self._problem or "not started")

    def close(self) -> None:
        """End it; the next call starts it anew."""
        if self._client is not None:
            self._client.end(Ended(_CLOSED))

    async def refresh(self) -> Listing:
        """Start it where it does not run, and return what it lists now.

        Raises:
            ToolError: it cannot be started, or its list is refused.
        """
        return await self._current(await self._connected())

    async def _current(self, client: Client) -> Listing:
        if client.is_stale or self.listing is None:
            await self._list(client)
        assert self.listing is not None
        return self.listing

    @contextmanager
    def answering(self, action: Action) -> Iterator[None]:
        """Let it ask the person for this call meanwhile, if it may ask at all."""
        if self._requests is None:
            yield
            return
        self._requests.begin(action)
        try:
            yield
        finally:
            self._requests.end(action)

    async def call(
        self, tool: ListedTool, arguments: Mapping[str, Json], deadline: float, progress: Progress
    ) -> CallResult:
        """Call a tool that is as the session knows it.

        Raises:
            PolicyBlocked: it is another tool by now.
            ToolTimeout: it did not answer until the deadline; the server is ended.
            ToolError: it failed otherwise.
        """
        with trio.CancelScope(deadline=deadline) as scope:
            # One connection from the comparison to the call: a server started anew may list another tool.
            client = await self._connected()
            listing = await self._current(client)
            if (now := listing.tools.get(tool.name)) is None or now.digest != tool.digest:
                raise PolicyBlocked(f"{tool.name} is no longer the tool that this session knows")
            result = await client.call(tool.name, arguments, progress)
            self._failures, self._problem = 0, ""
            return result
        if not scope.cancelled_caught:
            raise ServerError("the server gave no answer")
        if self._client is not None:
            self._client.end(Ended("it did not answer in time"))
        raise ToolTimeout(f"the server {self.settings.name} did not answer in time, and was ended")

    async def _connected(self) -> Client:
        """Return the server's connection, made where there is none."""
        async with self._turn:
            if self._client is not None and self._client.over is None:
                return self._client
            self._client = None
            self._client = await self._started()
            return self._client

    async def _started(self) -> Client:
        left = self._not_before - trio.current_time()
        if left <= _LONGEST_WAIT:
            await trio.sleep(max(left, 0))
        else:
            raise ServerError(f"{self._problem}; it is started again in {math.ceil(left)} s at the earliest")
        if self._nursery is None:
            raise PolicyBlocked("the server is closed with the runtime")
        self.starts += 1
        seconds = self.settings.start_timeout
        with trio.move_on_after(seconds) as scope:
            began: Client | ToolError = await self._nursery.start(self._live)
        if scope.cancelled_caught:
            began = ToolTimeout(f"the server {self.settings.name} was not ready within {seconds:g} s")
        if isinstance(began, ToolError):
            self._failed(str(began))
            raise began
        return began

    def _failed(self, why: str) -> None:
        self._failures += 1
        self._problem = why
        pause = min(_FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE)
        self._not_before = trio.current_time() + pause

    async def _live(self, *, task_status: trio.TaskStatus[Client | ToolError]) -> None:
        """Open it, wait for its end, and close it: all in this task. What goes wrong before is handed on."""
        client: Client | None = None
        failure: ToolError | None = None
        try:
            async with self._around.connect(self.settings, self.gate) as transport:
                open_client = await trio.to_thread.run_sync(_loaded, abandon_on_cancel=True)
                roots = (self._around.workspace,) if self.settings.roots else ()
                async with open_client(transport, roots, self._requests) as client:
                    await self._list(client)
                    task_status.started(client)
                    await client.ended.wait()
                    if str(client.over) != _CLOSED:
                        self._failed(str(client.over))
        except (ToolError, OSError, ExceptionGroup) as error:
            failure = _as_ours(error)
        if client is None or client.over is None:
            why = failure or ServerError("the connection is over")
            if client is not None:
                client.end(Ended(str(why)))
            # The waiting task may have its answer already.
            with suppress(RuntimeError):
                task_status.started(why)
        elif failure is not None:
            with suppress(RuntimeError):
                task_status.started(failure)

    async def _list(self, client: Client) -> None:
        """Ask what it lists, and show the person what changed of what the session knows.

        Raises:
            PolicyBlocked: the list breaks a bound.
            ToolError: it did not answer as it should.
        """
        try:
            found = await client.tools()
        except ListingRefused as error:
            raise PolicyBlocked(f"the list of its tools is refused: {error}") from error
        before = self.listing
        self.listing = found
        if before is None or dict(before.tools) != dict(found.tools) or before.version != found.version:
            await trio.to_thread.run_sync(partial(self._around.kept, self.settings, found))
        if before is not None:
            self._tell_changes(before, found)

    def _tell_changes(self, before: Listing, found: Listing) -> None:
        for name in before.tools:
            old, new = before.tools.get(name), found.tools.get(name)
            what = f"server {self.settings.name}: the tool {name}"
            if new is None:
                self._around.alert(f"{what} is gone")
            elif old is not None and (lines := difference(old, new)):
                cut = [*lines[:_MOST_LINES], *(("…",) if len(lines) > _MOST_LINES else ())]
                self._around.alert("\n".join((f"{what} changed, and is quarantined", *cut)))


def _loaded() -> Callable[..., AbstractAsyncContextManager[Client]]:
    """Import what loads the SDK.

    Raises:
        PermanentFailure: it is not installed.
    """
    try:
        from .client import open_client  # noqa: PLC0415 — the SDK takes a second to load
    except ImportError as error:
        raise PermanentFailure("servers need the MCP SDK: pip install 'leeward[mcp]'") from error
    return open_client


def _as_ours(error: BaseException) -> ToolError:
    """Return the one error of ours in what came up, or one that names it."""
    while isinstance(error, BaseExceptionGroup):
        ours = error.subgroup(ToolError)
        error = (ours or error).exceptions[0]
    if isinstance(error, ToolError):
        return error
    return ServerError(f"the connection broke: {type(error).__name__}: {error}")
