"""A server's tools as an executor: what is cleared is sent to it, what it answers is its own words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import trio

from leeward.security.call import Cleared, ToolSpec
from leeward.security.outcome import Output, PermanentFailure, ToolNotFound
from leeward.security.trust import Origin

from ..declare import plain
from .listing import ListedTool
from .server import Server

__all__ = ["McpExecutor"]

# Of what a server says while it works, so much is shown to the person, and nothing goes to the model.
_MOST_PROGRESS, _LONGEST_PROGRESS = 100, 200

# The server is given up a moment before the call is, so that the error names the reason.
_MARGIN = 0.2


class McpExecutor:
    """The tools of one server, as they were when the session began."""

    def __init__(self, server: Server, specs: Sequence[ToolSpec]) -> None:
        listing = server.listing
        tools = {} if listing is None else {tool.digest: tool for tool in listing.tools.values()}
        self.server = server
        self._specs = tuple(specs)
        self._tools: dict[str, ListedTool] = {spec.name: tools[spec.definition] for spec in self._specs}

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools."""
        return self._specs

    async def execute(self, cleared: Cleared) -> Output:
        """Have the server run a cleared call.

        Raises:
            ToolError: it failed; the server's own words come along.
        """
        tool = self._tools.get(cleared.action.call.tool)
        if tool is None:
            raise ToolNotFound("the server has no such tool")
        arguments = plain(cleared.take())
        reported = 0

        async def progress(message: str) -> None:
            nonlocal reported
            reported += 1
            if reported <= _MOST_PROGRESS:
                await cleared.emit(f"{message[:_LONGEST_PROGRESS]}\n")

        deadline = cleared.deadline - _MARGIN
        gate = cleared.gatekeeper if self.server.settings.reached else None
        async with nullcontext() if gate is None else self.server.gate.during(gate):
            try:
                with self.server.answering(cleared.action):
                    result = await self.server.call(tool, arguments, deadline, progress)
            except trio.Cancelled:
                if self.server.settings.hosts:
                    # It may work on, and what it would connect to then is no part of the next call.
                    self.server.close()
                raise
        output = Output(result.text, Origin.MCP)
        if result.is_error:
            raise PermanentFailure("the server says that the call failed", output)
        return output
