"""One turn: ask the model, run what it asks for, feed the results back, until it is done.

A cancelled turn keeps what was said and answers what was not, so the next one starts from a valid
history. What a call may do is the pipeline's business; how events look is the interfaces'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import trio

from leeward.security import Pipeline, Provenance, Status, ToolCall, TurnStarted

from .conversation import Conversation
from .events import Alert, CallEnded, CallStarted, EndReason, RunEvent, Text, TurnEnded
from .given import given_by
from .providers.events import (
    CallRequested,
    Message,
    ModelError,
    Provider,
    Request,
    Requested,
    Stopped,
    StopReason,
    TextDelta,
    ToolView,
    Usage,
    Verbatim,
    new_call_id,
)

__all__ = ["Turn"]

_CLOSING_SECONDS = 5.0


_CUT = {
    StopReason.LENGTH: "the reply was cut off at the model's limit of length",
    StopReason.CONTENT_FILTER: "the model's service withheld the rest of the reply",
}


@dataclass(slots=True)
class _Reply:
    """What has come of a model's reply so far."""

    text: list[str] = field(default_factory=list)
    calls: list[Requested] = field(default_factory=list)
    verbatim: Verbatim | None = None


class Turn:
    """One turn of a conversation with a model, within `max_turns` replies and so many seconds.

    `emit` is told every event as it happens.
    """

    def __init__(
        self,
        provider: Provider,
        pipeline: Pipeline,
        conversation: Conversation,
        system: str,
        tools: Sequence[ToolView],
        max_turns: int,
        seconds: float | None,
        emit: Callable[[RunEvent], None],
    ) -> None:
        self._provider = provider
        self._pipeline = pipeline
        self._conversation = conversation
        self._system = Message("system", system)
        self._tools = tuple(tools)
        self._max_turns = max_turns
        self._seconds = math.inf if seconds is None else seconds
        self._emit = emit
        self._said: list[str] = []
        self._ended = TurnEnded(EndReason.CANCELLED, "")

    async def run(self, text: str, attached: str = "") -> TurnEnded:
        """Run the turn on the person's words; `attached` is fenced text that goes with them.

        Whatever stops the turn, the history is put right and its end is told; then that travels on.
        """
        try:
            await self._begin(text, attached)
            reason = EndReason.TIMEOUT
            with trio.move_on_after(self._seconds):
                reason = await self._rounds()
            return self._end(reason)
        except ModelError as error:
            return self._end(EndReason.MODEL_ERROR, error)
        except Exception:
            self._end(EndReason.FAILED)
            raise
        except BaseException:
            # Cancelled, or a group of it: nurseries within a tool or a model make one.
            self._end(EndReason.CANCELLED)
            raise

    async def _begin(self, text: str, attached: str) -> None:
        """Ground the URLs in the person's words before anything is made of them."""
        session = self._pipeline.session
        await self._pipeline.note(TurnStarted(session.now), *given_by(text, Provenance.PERSON, session))
        self._conversation.say(text, attached)
        await self._conversation.store()

    def _end(self, reason: EndReason, error: ModelError | None = None) -> TurnEnded:
        ended = replace(self._ended, reason=reason, text="\n\n".join(self._said), error=error)
        self._emit(ended)
        return ended

    async def _rounds(self) -> EndReason:
        try:
            for _ in range(self._max_turns):
                calls = await self._ask()
                if not calls:
                    return EndReason.DONE
                for requested in calls:
                    await self._call(requested)
            return EndReason.MAX_TURNS
        finally:
            self._conversation.close()
            await self._stored()

    async def _ask(self) -> tuple[Requested, ...]:
        """Stream one reply; a cancelled or broken one leaves the text there was, and no calls."""
        reply = _Reply()
        complete = False
        try:
            await self._stream(reply)
            complete = True
        finally:
            calls = tuple(reply.calls) if complete else ()
            said = "".join(reply.text)
            if said:
                self._said.append(said)
            calls = self._conversation.reply(said, calls, reply.verbatim if complete else None)
            await self._stored()
        return calls

    async def _stream(self, reply: _Reply) -> None:
        request = Request((self._system, *self._conversation.messages), self._tools)
        async with self._provider.stream(request) as events:
            async for event in events:
                match event:
                    case TextDelta(text):
                        reply.text.append(text)
                        self._emit(Text(text))
                    case CallRequested(requested):
                        reply.calls.append(requested)
                    case Verbatim():
                        reply.verbatim = event
                    case Usage():
                        self._ended = replace(
                            self._ended,
                            input_tokens=self._ended.input_tokens + event.input_tokens,
                            output_tokens=self._ended.output_tokens + event.output_tokens,
                        )
                    case Stopped(reason) if reason in _CUT:
                        self._emit(Alert(_CUT[reason]))

    async def _call(self, requested: Requested) -> None:
        call = ToolCall(new_call_id(), requested.name, requested.arguments)
        self._emit(CallStarted(call))
        result = await self._pipeline.run(call)
        refused = result.outcome.status is Status.DENIED
        self._ended = replace(self._ended, calls=self._ended.calls + 1, refused=self._ended.refused + refused)
        # Told before it is stored: what happened is shown even where nothing can be stored any more.
        self._emit(CallEnded(result))
        self._conversation.answer(requested.id, result.text)
        await self._conversation.store()

    async def _stored(self) -> None:
        """Store what was said, also in a turn that is being cancelled."""
        with trio.move_on_after(_CLOSING_SECONDS, shield=True):
            await self._conversation.store()
