"""What a turn of a sub-agent works with: a conversation that nobody keeps, and the meter of the session.

Its calls go to a `Runner` that marks them as the sub-agent's; everything else is as in any turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass

from .calls import Calls, RetryLimits, Runner
from .compaction import ModelSummarizer
from .history import History, Pending
from .turn import TurnContext
from .window import ContextWindow

if TYPE_CHECKING:
    from leeward.memory.sessions import Line
    from leeward.security.call import ToolSpec
    from leeward.security.pipeline import Pipeline

    from ..config import Config
    from ..events import RunEvent
    from ..providers.interface import Message, Provider, ToolView
    from .cost import Meter

__all__ = ["Delegation"]


@dataclass(frozen=True, slots=True)
class Delegation:
    """Who does a task with which tools, for the session of a pipeline; `runner` runs its calls."""

    pipeline: Pipeline
    config: Config
    provider: Provider
    meter: Meter
    views: tuple[ToolView, ...]
    runner: Runner
    spec_of: Callable[[str], ToolSpec | None]
    opening: Callable[[], Awaitable[Message]]

    def context(self, emit: Callable[[RunEvent], None]) -> TurnContext:
        """Return what its turn works with."""
        retry = self.config.tools.retry
        limits = RetryLimits(retry.retries, retry.first_wait, retry.longest_wait)
        window = ContextWindow(self.config.agent.context_tokens)
        return TurnContext(
            self.provider,
            self.opening,
            self.views,
            self.pipeline,
            Calls(self.runner, self.spec_of, limits, emit),
            History(_forgotten, lambda _: None),
            window,
            self.meter,
            ModelSummarizer(self.provider, self.meter, window.room),
        )


def _forgotten(_: Line) -> Pending:
    return trio.lowlevel.checkpoint
