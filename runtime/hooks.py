"""The hooks that a session has: from the configuration to what runs them, and around its turns.

What calls are asked about passes the pipeline; a turn is asked about here. A hook's notice is fenced text,
for a hook may quote what it was shown.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

import trio

from leeward.security.filters import Source
from leeward.security.lazy import dataclass
from leeward.security.text import visible
from leeward.security.trust import Origin
from leeward.tools.hooks import HookEvent, HookRunner, HookSandbox, HookSettings
from leeward.tools.process import environment

from .events import Alert, EndReason, RunEvent, TurnEnded
from .sandbox import named_files

if TYPE_CHECKING:
    from leeward.security.kinds import HookAnswer, Json
    from leeward.security.pipeline import Pipeline
    from leeward.tools.sandbox import Sandbox

    from .config import Config

__all__ = ["TurnHooks", "open_hooks"]


def open_hooks(
    config: Config, sandbox: Sandbox, home: str, given: Mapping[str, str], alert: Callable[[str], None]
) -> HookRunner:
    """Return what runs the hooks of a session; `given` are further variables for programs."""
    return HookRunner(
        tuple(
            HookSettings(
                name,
                HookEvent(hook.on),
                hook.command,
                hook.tools,
                HookSandbox(hook.sandbox),
                hook.timeout,
                (*map(os.path.realpath, hook.read), *named_files(hook.command, home)),
            )
            for name, hook in config.hooks.items()
        ),
        sandbox,
        {**environment(home, os.environ), **given},
        dict(os.environ),
        alert,
    )


@dataclass(slots=True)
class TurnHooks:
    """The hooks around turns, and at the start and end of a session."""

    runner: HookRunner
    emit: Callable[[RunEvent], None]
    _pipeline: Pipeline | None = field(default=None, init=False)

    async def begin(self, pipeline: Pipeline) -> None:
        """Show that a session began, and that the one before it ended."""
        await self.end()
        self._pipeline = pipeline
        await self.runner.show(HookEvent.SESSION_START, _session(pipeline))

    async def end(self) -> None:
        """Show that the session ended."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            await self.runner.show(HookEvent.SESSION_END, _session(pipeline))

    async def around(
        self, pipeline: Pipeline, text: str, attached: str, turn: Callable[[str], Awaitable[TurnEnded]]
    ) -> TurnEnded:
        """Run a turn on the person's words unless a hook refuses it; `turn` takes what goes with them."""
        facts = {**_session(pipeline), "text": text}
        answers = await self.runner.turn(facts)
        if refusal := next((_refusal(one) for one in answers if one.word or one.failed), ""):
            self.emit(Alert(refusal))
            ended = TurnEnded(EndReason.REFUSED, "")
            self.emit(ended)
            return ended
        for answer in answers:
            if answer.notice:
                self.emit(Alert(f"hook {answer.hook}: {visible(answer.notice)}"))
                source = Source("hook", Origin.WORKSPACE, answer.hook)
                attached = "\n\n".join(filter(None, (attached, await pipeline.admit(answer.notice, source))))
        ended = TurnEnded(EndReason.FAILED, "")
        try:
            ended = await turn(attached)
        except trio.Cancelled:
            ended = TurnEnded(EndReason.CANCELLED, "")
            raise
        finally:
            await self.runner.show(HookEvent.AFTER_TURN, _turn(facts, ended))
        return ended


def _session(pipeline: Pipeline) -> dict[str, Json]:
    session = pipeline.session
    return {"session": session.id, "workspace": session.policy.workspace}


def _turn(facts: Mapping[str, Json], ended: TurnEnded) -> dict[str, Json]:
    return {
        **facts,
        "reason": ended.reason.value,
        "answer": ended.text,
        "calls": ended.calls,
        "refused": ended.refused,
    }


def _refusal(answer: HookAnswer) -> str:
    if answer.failed:
        why = visible(answer.reason)
        return f"the hook {answer.hook} gave no answer that counts, so the turn did not begin: {why}"
    why = f": {visible(answer.reason)}" if answer.reason else ""
    return f"the hook {answer.hook} refused this turn{why}"
