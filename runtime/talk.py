"""What of a session's conversation outlives a turn? Its history, its room, its cost, and how it opens.

A turn itself stands in `turn.py`; which model answers is said anew for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from leeward.memory import Transcript
from leeward.security import (
    Json,
    Origin,
    Pipeline,
    Policy,
    Source,
    integrity,
    secret_reason,
    without_secrets,
)
from leeward.tools import CompositeExecutor

from .batches import Calls, RetryLimits
from .config import Config
from .context import ContextWindow
from .conversation import Conversation, Pending
from .cost import Meter, Price
from .events import RunEvent, TurnEnded
from .places import Places
from .project_files import ProjectFile, read_project_files
from .prompt import system_prompt
from .providers.events import Message, Provider, Role, ToolView
from .trusted import is_trusted
from .turn import Means, Turn

__all__ = ["Talk"]


class Talk:
    """One session's conversation; `meter` tells what it has cost."""

    def __init__(
        self,
        pipeline: Pipeline,
        tools: CompositeExecutor,
        transcript: Transcript,
        config: Config,
        places: Places,
        warn: Callable[[str], None],
    ) -> None:
        self._pipeline = pipeline
        self._tools = tools
        self._config = config
        self._places = places
        self._views = tuple(ToolView(spec.name, spec.description, spec.schema) for spec in tools.specs())
        self._system: Message | None = None
        self._window = ContextWindow(config.agent.context_tokens)
        keep, masked = partial(_keep, transcript, pipeline), partial(_masked, tools)
        self.conversation = Conversation(keep, warn, masked)
        cost = config.cost
        prices = (Price(p.model, p.input, p.output, p.cache_read, p.cache_write) for p in cost.prices)
        self.meter = Meter(tuple(prices), cost.max_session)

    def clear(self) -> None:
        """Forget what was said; what it has cost stays known."""
        self.conversation.clear()
        self._window.begin()
        self._system = None

    async def turn(
        self, provider: Provider, text: str, attached: str, emit: Callable[[RunEvent], None]
    ) -> TurnEnded:
        """Run one turn on the person's words."""
        agent, retry = self._config.agent, self._config.tools.retry
        limits = RetryLimits(retry.retries, retry.first_wait, retry.longest_wait)
        calls = Calls(self._pipeline, self._tools.spec, limits, emit)
        means = Means(
            provider,
            self._opening,
            self._views,
            self._pipeline,
            calls,
            self.conversation,
            self._window,
            self.meter,
        )
        return await Turn(means, agent.max_turns, agent.timeout or None, emit).run(text, attached)

    async def _opening(self) -> Message:
        """Return the system prompt; it is made once, for services keep what begins with the same bytes."""
        if self._system is not None:
            return self._system
        workspace = self._places.workspace
        files: tuple[ProjectFile, ...] = ()
        if is_trusted(self._places.data, workspace):
            policy = self._pipeline.session.policy
            is_secret = partial(_is_secret, policy=policy)
            files = await trio.to_thread.run_sync(read_project_files, workspace, is_secret)
        admitted = [(file.name, await self._admitted(file)) for file in files]
        self._system = Message("system", system_prompt(str(workspace), admitted))
        return self._system

    async def _admitted(self, file: ProjectFile) -> str:
        fenced = await self._pipeline.admit(file.text, Source("project", Origin.PROJECT, file.name))
        return f"{fenced}\n[{file.name} goes on; only its beginning is read]" if file.is_cut else fenced


def _is_secret(path: str, policy: Policy) -> bool:
    return secret_reason(path, policy) is not None


def _masked(tools: CompositeExecutor, tool: str, arguments: str) -> str:
    return without_secrets(arguments, tools.spec(tool))


def _keep(transcript: Transcript, pipeline: Pipeline, turn: int, role: Role, content: Json) -> Pending:
    """Store a message as whose words it is; a result weighs no more than the least that was read so far."""
    session = pipeline.session
    read = min(session.labels, key=lambda label: integrity(frozenset({label})), default=Origin.TOOL)
    origin = {"user": Origin.PERSON, "assistant": Origin.MODEL}.get(role, read)
    return transcript.add(session.id, turn, role, content, origin)
