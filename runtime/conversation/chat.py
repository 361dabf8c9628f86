"""The part of a conversation that outlives a turn: history, window, cost and system prompt.

A turn itself is run by `turn.py`; which model answers is given anew for each.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from leeward.security.action import without_secrets
from leeward.security.filters import Source
from leeward.security.trust import Origin

from ..config import Config, Locations
from ..providers.interface import Message, Provider, ToolView
from .calls import Calls, RetryLimits
from .compaction import ModelSummarizer, compact, weakest
from .cost import Meter, Price
from .history import History, HistorySnapshot, Pending, at_rest
from .instructions import Instructions
from .prices import listed_price
from .prompt import system_prompt
from .skills import listed
from .surroundings import repository_of, system_line
from .turn import Turn, TurnContext
from .window import ContextWindow, tokens_in

if TYPE_CHECKING:
    from leeward.memory.sessions import Charge, Line, Transcript
    from leeward.security.call import ToolCall
    from leeward.security.outcome import Picture
    from leeward.security.pipeline import Pipeline
    from leeward.tools.composite import CompositeExecutor
    from leeward.tools.skills import Skills

    from ..events import RunEvent, TurnEnded

__all__ = ["Chat"]


class Chat:
    """One session's conversation; `meter` tells what it has cost, `views` are the tools it is shown."""

    def __init__(
        self,
        pipeline: Pipeline,
        tools: CompositeExecutor,
        transcript: Transcript,
        config: Config,
        places: Locations,
        warn: Callable[[str], None],
        news: Callable[[], Awaitable[str]],
        skills: Skills,
    ) -> None:
        self._news = news
        self._pipeline = pipeline
        self._tools = tools
        self._config = config
        self._places = places
        self.views: tuple[ToolView, ...] = tuple(
            ToolView(spec.name, spec.description, spec.schema) for spec in tools.specs()
        )
        self._skills = skills
        self._system: Message | None = None
        self._instructions = Instructions(pipeline, places, warn)
        self._window = ContextWindow(config.agent.context_tokens)
        keep, masked = partial(_keep, transcript, pipeline), partial(_masked, tools)
        self.conversation: History = History(keep, warn, masked)
        cost = config.cost
        prices = (Price(p.model, p.input, p.output, p.cache_read, p.cache_write) for p in cost.prices)
        own = frozenset(entry.name for entry in config.llm.providers)
        self.meter: Meter = Meter(tuple(prices), cost.max_session, partial(listed_price, own=own))

    def resume(
        self, taken: HistorySnapshot, charges: Sequence[Charge], answers: Mapping[str, str] | None = None
    ) -> None:
        """Resume the conversation and its cost; calls left open are answered, and stored as such.

        With `answers` its last turn will go on, as `History.resume` says.
        """
        self.conversation.resume(taken, answers)
        self.conversation.hand_over()
        self.meter.resume(charges)

    @property
    def context_left(self) -> float | None:
        """The share of the model's context that the last request left free; None where any fits."""
        tokens = self._config.agent.context_tokens
        return max(0.0, 1 - self._window.expected / tokens) if tokens else None

    def filled(self) -> dict[str, int]:
        """Return what fills the context of the next request, by what it is, in estimated tokens."""
        found = dict.fromkeys(("prompt", "tools", "your words", "answers", "results"), 0.0)
        found["prompt"] = tokens_in(self._system.text) if self._system is not None else 0.0
        for view in self.views:
            found["tools"] += tokens_in(view.description) + tokens_in(json.dumps(dict(view.schema)))
        names = {"user": "your words", "assistant": "answers", "tool": "results"}
        for message in self.conversation.messages:
            asked = "".join(call.arguments for call in message.calls)
            found[names[message.role]] += tokens_in(message.text) + tokens_in(asked)
        return {name: round(tokens) for name, tokens in found.items()}

    async def clear(self) -> bool:
        """Forget the conversation; its cost stays known. Return whether that is on the disk."""
        self.conversation.clear()
        self._window.begin()
        self._system = None
        return await self.conversation.store()

    async def compact(self, provider: Provider, emit: Callable[[RunEvent], None]) -> bool:
        """Summarise everything but the person's words; return whether there was anything."""
        messages = self.conversation.messages
        if all(message.role == "user" for message in messages):
            return False
        summarizer = ModelSummarizer(provider, self.meter, self._window.room)
        await compact(len(messages), summarizer, self.conversation, self._window, self._pipeline, emit)
        await self.conversation.store()
        return True

    async def turn(
        self,
        provider: Provider,
        text: str,
        attached: str,
        emit: Callable[[RunEvent], None],
        pictures: tuple[Picture, ...] = (),
    ) -> TurnEnded:
        """Run one turn on the person's words, and on what came to its end since the last one."""
        attached = "\n\n".join(filter(None, (attached, await self._news())))
        return await self._turn(provider, emit).run(text, attached, pictures)

    async def resume_turn(self, provider: Provider, emit: Callable[[RunEvent], None]) -> TurnEnded:
        """Resume the turn that the conversation was resumed in."""
        return await self._turn(provider, emit).resume()

    def _turn(self, provider: Provider, emit: Callable[[RunEvent], None]) -> Turn:
        agent, retry = self._config.agent, self._config.tools.retry
        limits = RetryLimits(retry.retries, retry.first_wait, retry.longest_wait)
        calls = Calls(self._pipeline, self._tools.spec, limits, emit, self._instructions.behind)
        means = TurnContext(
            provider,
            self._opening,
            self.views,
            self._pipeline,
            calls,
            self.conversation,
            self._window,
            self.meter,
            ModelSummarizer(provider, self.meter, self._window.room),
        )
        return Turn(means, agent.max_turns, agent.timeout or None, emit)

    async def _opening(self) -> Message:
        """Return the system prompt; it is made once, for services keep what begins with the same bytes."""
        if self._system is not None:
            return self._system
        workspace, session = self._places.workspace, self._pipeline.session
        files = await self._instructions.begin()
        around = "\n".join([system_line(session.now), *await self._repository()])
        skills = await listed(self._skills, self._pipeline)
        prompt = system_prompt(str(workspace), files, session.canary, around, skills)
        self._system = Message("system", prompt)
        return self._system

    async def _repository(self) -> list[str]:
        """Return a line about the git repository; its branch is a name that others may have chosen."""
        found = await trio.to_thread.run_sync(repository_of, self._places.workspace)
        if found is None:
            return []
        at = f"no branch, the commit {found.commit}"
        if found.branch:
            source = Source("branch", Origin.WORKSPACE, ".git/HEAD", shows=True)
            at = f"the branch {await self._pipeline.admit(found.branch, source)}"
        under_way = f"; {found.under_way} is under way" if found.under_way else ""
        return [f"Git has checked out {at}{under_way}."]


def _masked(tools: CompositeExecutor, call: ToolCall) -> str:
    return without_secrets(call.arguments, tools.spec(call.tool), call.once)


def _keep(transcript: Transcript, pipeline: Pipeline, line: Line) -> Pending:
    """Store a line as whose words it is; what was brought weighs no more than the least that was read."""
    session = pipeline.session
    if line.role in {"tool", "summary"}:
        line = replace(line, origin=weakest(session.labels | {line.origin}))
    elif line.role == "assistant":
        line = replace(line, content=at_rest(line.content, session.secrets))
    elif isinstance(line.content, Mapping) and "attached" in line.content:
        # The words are the person's, what goes along with them is not.
        brought = weakest(session.labels | {Origin.TOOL}).value
        line = replace(line, content={**line.content, "brought": brought})
    return transcript.add(session.id, line)
