"""One turn: ask the model, run its calls, return the results to it, until it is done.

A cancelled turn keeps what came and answers the open calls, so the next one starts from a valid
history. The order of calls is decided in `calls.py`, what they may do is the pipeline's business,
how events look is the interfaces'.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import trio

from leeward.memory.sessions import Charge
from leeward.security.lazy import dataclass
from leeward.security.session import ModelSet, TurnStarted
from leeward.security.text import redact_text

from ..events import Alert, EndReason, RunEvent, Text, Thinking, TurnEnded
from ..grounding import said_by_person
from ..providers.interface import (
    CallRequested,
    FellBack,
    Message,
    ModelError,
    Provider,
    Reasoning,
    Request,
    Retrying,
    Stopped,
    StopReason,
    TextDelta,
    ToolView,
    Usage,
    Verbatim,
    takes_pictures,
    without_pictures,
)
from .compaction import Summarizer, compact
from .window import ContextWindow, TooLong, tokens_in

if TYPE_CHECKING:
    from leeward.security.call import ToolCall
    from leeward.security.outcome import Picture
    from leeward.security.pipeline import Pipeline

    from .calls import Calls
    from .cost import Meter
    from .history import History

__all__ = ["Turn", "TurnContext"]

_CLOSING_SECONDS = 5.0
_LONGEST_CAUSE = 300
_NO_PICTURES = "the request was refused; the pictures of this conversation are not sent any more"

_CUT = {
    StopReason.LENGTH: "the reply was cut off at the model's limit of length",
    StopReason.CONTENT_FILTER: "the model's service withheld the rest of the reply",
}


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What a turn works with: whom it asks and what with, where calls go, what keeps count.

    `opening` returns the system prompt; `summarizer` is asked when the conversation is too long.
    """

    provider: Provider
    opening: Callable[[], Awaitable[Message]]
    tools: tuple[ToolView, ...]
    pipeline: Pipeline
    calls: Calls
    conversation: History
    window: ContextWindow
    meter: Meter
    summarizer: Summarizer


@dataclass(slots=True)
class _Reply:
    """What has come of a model's reply so far; `thought` is in tokens, estimated."""

    text: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    verbatim: Verbatim | None = None
    usage: Usage | None = None
    thought: float = 0.0


class Turn:
    """One turn of a conversation with a model, within `max_turns` replies and so many seconds.

    `emit` is called with every event as it happens.
    """

    def __init__(
        self, means: TurnContext, max_turns: int, seconds: float | None, emit: Callable[[RunEvent], None]
    ) -> None:
        self._means = means
        self._max_turns = max_turns
        self._seconds = math.inf if seconds is None else seconds
        self._emit = emit
        self._model = means.provider.name
        self._texts: list[str] = []
        self._system = Message("system", "")
        self._is_summed_up_in_vain = False
        self._is_delegated = False
        self._has_pictures = False
        self._is_text_alone = False

    async def delegated(self, task: str) -> TurnEnded:
        """Run the turn on a task that a model wrote: nobody's words, and no turn of the session's own."""
        self._is_delegated = True
        return await self._run(partial(self._begin, task, "", ()))

    async def run(self, text: str, attached: str = "", pictures: tuple[Picture, ...] = ()) -> TurnEnded:
        """Run the turn on the person's words; fenced text (`attached`) and `pictures` go with them.

        Whatever stops the turn, the history is put right and its end is reported; then the error travels on.
        """
        self._means.meter.begin_turn()
        return await self._run(partial(self._begin, text, attached, pictures))

    async def resume(self) -> TurnEnded:
        """Resume a turn that broke off: run the calls that are open, and ask for what follows."""
        self._means.meter.begin_turn()
        for text in _texts_of_turn(self._means.conversation.messages):
            self._texts.append(text)
            self._emit(Text(text))
        return await self._run(partial(self._begin, None, "", ()))

    async def _run(self, begin: Callable[[], Awaitable[bool]]) -> TurnEnded:
        try:
            if not await begin():
                return self._end(EndReason.CONTEXT)
            reason = EndReason.TIMEOUT
            with trio.move_on_after(self._seconds):
                reason = await self._rounds()
            return self._end(reason)
        except ModelError as error:
            if error.is_about_content and self._has_pictures:
                # It would be refused with every message to come.
                self._means.conversation.sends_pictures = False
                self._emit(Alert(_NO_PICTURES))
            return self._end(EndReason.MODEL_ERROR, error)
        except Exception:
            self._end(EndReason.FAILED)
            raise
        except BaseException:
            # Cancelled, or a group of it: nurseries within a tool or a model make one.
            self._end(EndReason.CANCELLED)
            raise

    async def _begin(self, text: str | None, attached: str, pictures: tuple[Picture, ...]) -> bool:
        """Ground the URLs in the person's words before anything is made of them; without words, it has begun.

        A message that is too long to be sent is dropped, so that others can follow.
        """
        conversation, pipeline = self._means.conversation, self._means.pipeline
        self._system = await self._means.opening()
        if text is None:
            return True
        conversation.say(text, attached, pictures)
        try:
            await self._request()
        except TooLong as error:
            conversation.take_back()
            self._emit(Alert(str(error)))
            return False
        conversation.hand_over()
        if self._is_delegated:
            return True
        session = pipeline.session
        started = TurnStarted(session.now, conversation.turn)
        await pipeline.note(started, *said_by_person(text, session))
        return True

    def _end(self, reason: EndReason, error: ModelError | None = None) -> TurnEnded:
        calls, spent = self._means.calls, self._means.meter.turn
        ended = TurnEnded(
            reason,
            "\n\n".join(self._texts),
            calls.made,
            calls.refused,
            spent.input_tokens,
            spent.output_tokens,
            error,
            spent.cache_read_tokens,
            spent.known_cost,
        )
        self._emit(ended)
        return ended

    async def _rounds(self) -> EndReason:
        conversation = self._means.conversation
        try:
            if calls := tuple(conversation.unanswered.values()):
                await self._answer(calls)
            for _ in range(self._max_turns):
                if why := self._means.meter.objection(self._model):
                    self._emit(Alert(why))
                    return EndReason.COST
                calls = await self._ask()
                if not calls:
                    return EndReason.DONE
                await self._answer(calls)
            return EndReason.MAX_TURNS
        except TooLong as error:
            self._emit(Alert(str(error)))
            return EndReason.CONTEXT
        finally:
            conversation.close()
            await self._stored()

    async def _answer(self, calls: tuple[ToolCall, ...]) -> None:
        await self._means.calls.run(calls, self._means.conversation.answer)
        self._means.conversation.hand_over()

    async def _request(self) -> Request:
        """Return what is sent; a conversation that has got too long is summed up first, if it can be."""
        means = self._means
        window, conversation = means.window, means.conversation
        is_full = window.is_full(self._system, conversation.messages, means.tools)
        if is_full and not self._is_summed_up_in_vain and (kept := window.first_kept()):
            self._is_summed_up_in_vain = not await compact(
                kept, means.summarizer, conversation, window, means.pipeline, self._emit
            )
        request = window.request(self._system, conversation.messages, means.tools)
        text_alone = without_pictures(request)
        has_any = text_alone is not request and conversation.sends_pictures
        self._has_pictures = has_any and takes_pictures(means.provider)
        if has_any and not self._has_pictures and not self._is_text_alone:
            self._is_text_alone = True
            name = means.provider.name
            self._emit(Alert(f"{name} takes no pictures: it is sent the text of this conversation alone"))
        return request if self._has_pictures else text_alone

    async def _ask(self) -> tuple[ToolCall, ...]:
        """Stream one reply; a cancelled or broken one leaves the text there was, and no calls."""
        conversation, reply = self._means.conversation, _Reply()
        request = await self._request()
        # Nothing before this waits for sure: who is cancelled already asks nobody.
        await trio.lowlevel.checkpoint_if_cancelled()
        complete = False
        try:
            await self._stream(request, reply)
            complete = True
        finally:
            text = "".join(reply.text)
            charge = self._count(reply, text, complete=complete)
            if text:
                self._texts.append(text)
            calls = tuple(reply.calls) if complete else ()
            calls = conversation.reply(text, calls, reply.verbatim if complete else None, charge)
            # In line before any call is: what was asked for is stored with the first decision about it.
            conversation.hand_over()
        return calls

    async def _stream(self, request: Request, reply: _Reply) -> None:
        usual = self._model = self._means.provider.name
        async with self._means.provider.stream(request) as events:
            async for event in events:
                match event:
                    case TextDelta(text):
                        reply.text.append(text)
                        self._emit(Text(text))
                    case CallRequested(requested):
                        reply.calls.append(requested)
                    case Reasoning(text):
                        reply.thought += tokens_in(text)
                        self._emit(Thinking(text))
                    case Verbatim():
                        reply.verbatim = event
                    case Usage():
                        reply.usage = event
                    case Stopped(reason) if reason in _CUT:
                        self._emit(Alert(_CUT[reason]))
                    case Retrying(reason, seconds):
                        self._emit(Alert(f"{reason}; asking again in {seconds:.1f} seconds"))
                    case FellBack(name, reason, again):
                        await self._answered_by(name, f"fallback: {reason}")
                        if not again:
                            self._emit(Alert(f"{reason}; {name} answers instead"))
        if self._model == usual != self._means.pipeline.session.model:
            await self._answered_by(usual, "it answers")

    async def _answered_by(self, name: str, cause: str) -> None:
        """Put on record who answers; a service's own reason is quoted as a value."""
        self._model, session = name, self._means.pipeline.session
        shown = redact_text(cause, session.secrets)[:_LONGEST_CAUSE]
        await self._means.pipeline.note(ModelSet(session.now, name, shown))

    def _count(self, reply: _Reply, text: str, *, complete: bool) -> Charge:
        """Count what a reply cost; one that broke off had a price, too, once anything of it came."""
        window, meter = self._means.window, self._means.meter
        if reply.usage is not None:
            window.learn(reply.usage.input_tokens)
            return meter.add(self._model, reply.usage)
        if complete or text or reply.calls or reply.thought:
            asked = sum(tokens_in(call.arguments) for call in reply.calls)
            spent = round(reply.thought + tokens_in(text) + asked)
            return meter.add_untold(self._model, window.expected, spent)
        return Charge()

    async def _stored(self) -> None:
        """Store the messages, also in a turn that is being cancelled."""
        with trio.move_on_after(_CLOSING_SECONDS, shield=True):
            await self._means.conversation.store()


def _texts_of_turn(messages: Sequence[Message]) -> list[str]:
    """Return the texts of the model since the person's last message."""
    texts: list[str] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        texts += [message.text] if message.role == "assistant" and message.text else []
    return texts[::-1]
