"""Resume a run that has a key, and put on record what its steps do, so that none is done twice.

A step is written down when it begins, each of its calls when it starts and ends, each turn when it ends,
and what came of the whole of it once it is done. The turn that broke off is resumed: calls that ended have
their results from here, those that did not begin run now, and of the rest `--on-unknown` decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from leeward.security.action import ActionBuilder
from leeward.security.call import Outcome, Status, ToolCall, ToolResult
from leeward.security.ports import RecordError
from leeward.security.text import redact_text

from .. import slash
from ..app import resume_run
from ..events import CallEnded, CallStarted, EndReason, RunEvent, TurnEnded
from ..sessions import still_given
from .keyed import FoundRun, KeyedTask, is_once_only
from .recorded import OpenStep, RunOnRecord, StepOutcome, result_row, slash_row, turn_row

if TYPE_CHECKING:
    from ..app import RuntimeSession
    from ..exits import Json
    from ..sessions import EndedInside, LeftOff, OpenCall
    from ..slash import SlashLine, SlashResult

__all__ = ["Journal"]

# What they set ends with the process, and another attempt is another one.
_SETTINGS = frozenset({"model", "autonomy", "plan"})
_WITHOUT_OUTCOME = frozenset({EndReason.CANCELLED, EndReason.FAILED, EndReason.MODEL_ERROR})
_UNRECORDED = "AUDIT_UNAVAILABLE"
# Its kind and hash follow; secrets of a call are kept by such a mask only.
_MASK = "[REDACTED:"
_SKIPPED = (
    "unknown outcome: the session broke off while this call ran, so it may have been done or not; it is not "
    "to be done again, continue without it"
)
_NOT_AGAIN = "the outcome is unknown; it was not done again"
_AGAIN = (
    "unknown outcome: the session broke off while this call ran, so it may have been done or not; it may be "
    "done again, so ask for it again"
)


class Journal:
    """What is on record of the steps of a run that has a key, and how more is put there.

    With `skips` a call whose outcome is unknown is not repeated.
    """

    def __init__(self, task: KeyedTask, found: FoundRun, *, skips: bool) -> None:
        self.session: str = found.session
        self.record: RunOnRecord = found.record
        self._task = task
        self._found = found
        self._keys = found.kept.keys
        self._skips = skips
        self._is_in_turn = found.is_in_turn
        self._shown: dict[str, str] = {}
        self._is_unrecorded = False
        self._runtime: RuntimeSession
        self._step = 0

    @property
    def is_over(self) -> bool:
        """Whether all there is to be done is on record."""
        return self.record.is_over(len(self._task.steps))

    async def resume(self, runtime: RuntimeSession) -> None:
        """Have a runtime resume the session, or put on record that its session is that of the key.

        Raises:
            CliError: the session is open elsewhere, or cannot be resumed.
            RecordError: it could not be written or read.
        """
        self._runtime, left = runtime, self._found.left
        if left is None:
            self.session = runtime.session_id
            await self._keys.begin(self._task.digest, self.session, self._task.about)
            return
        answers = dict(self._answers(left)) if self._is_in_turn else None
        await resume_run(runtime, self.session, answers)
        await _give_again(runtime)
        for number in sorted(self.record.done):
            step = self._task.steps[number - 1]
            if step.slash is not None and step.command in _SETTINGS:
                # Its URLs are on record, unless they were forgotten since.
                await slash.dispatch(runtime, step.slash, gives_urls=False)

    def take_broken_turn(self) -> bool:
        """Return whether the next turn is the one that broke off; it is so once."""
        is_in_turn, self._is_in_turn = self._is_in_turn, False
        return is_in_turn

    async def begin(self, number: int, before: int) -> OpenStep:
        """Put on record that a step begins; return what is there of it already.

        Raises:
            RecordError: it could not be written.
        """
        self._step, begun = number, self.record.open
        if begun is not None and begun.number == number:
            command = self._task.steps[number - 1].slash
            if command is not None and begun.outcome.slash is None:
                known = begun.outcome.slash = self._known_answer(command, begun)
                if known is not None:
                    await self.answered(known)
            self._shown |= {result.call.id: result.call.arguments for result in begun.outcome.results}
            return begun
        turn = self._runtime.conversation.turn
        await self._keys.add(self.session, number, "begun", {"turn": turn, "before": before})()
        return OpenStep(number, before, StepOutcome(turn=turn))

    def hear(self, event: RunEvent) -> None:
        """Put on record what happens in the step at hand."""
        match event:
            case CallStarted(call):
                self._shown[call.id] = call.arguments
                self._add("call", {"call": call.id, "model_id": call.model_id})
            case CallEnded(result) if (result.error or {}).get("code") == _UNRECORDED:
                self._is_unrecorded = True
            case CallEnded(result):
                self._add("result", result_row(result, self._mask, self._shown))
            case TurnEnded() if event.reason not in _WITHOUT_OUTCOME and not self._is_unrecorded:
                ended = turn_row(event, self._mask)
                self._add("turn", {**ended, "turn": self._runtime.conversation.turn})

    async def answered(self, result: SlashResult) -> None:
        """Put on record what a slash command answered.

        Raises:
            RecordError: it could not be written.
        """
        await self._keys.add(self.session, self._step, "slash", slash_row(result, self._mask))()

    async def finish(self, outcome: StepOutcome) -> None:
        """Put on record that the step is done, and what came of it.

        Raises:
            RecordError: it could not be written, or a call was not started because it could not be.
        """
        if self._is_unrecorded:
            # That is no outcome of the step: another attempt resumes its turn.
            raise RecordError("a call could not be recorded, so it was not started, and its step is not done")
        outcome.turn = self._runtime.conversation.turn
        await self._keys.close(self.session, self._step, "done", outcome.row(self._mask, self._shown))

    async def end(self, model: str, head: str | None) -> None:
        """Put on record who answered, and the head that was signed when the session ended.

        Raises:
            RecordError: it could not be written.
        """
        await self._keys.close(self.session, 0, "end", {"model": model, "audit_head": head})

    def _mask(self, text: str) -> str:
        return redact_text(text, self._runtime.pipeline.session.secrets)

    def _add(self, kind: str, content: Json) -> None:
        # Events from outside of steps, such as at the start of a session, are of none. What cannot be written
        # here is missed by no step that comes to its end, which is written again, and waited for.
        if self._step:
            with suppress(RecordError):
                self._keys.add(self.session, self._step, kind, content)

    def _answers(self, left: LeftOff) -> Iterator[tuple[str, str]]:
        """Yield the answers to open calls; one that is to be run or repeated just as it was stays open."""
        loose = [*left.loose]
        for open_call in left.open_calls:
            one = _with_loose(self._runtime, open_call, loose)
            if not one.has_begun and _MASK not in one.call.arguments:
                continue
            if one.answer is not None:
                text = one.answer
            elif not self._skips and _is_same_call(self._runtime, one):
                continue
            else:
                text = _SKIPPED if self._skips else _AGAIN
                text += _done_inside(left.inside.get(one.decided.call, ()) if one.decided else ())
            self._note(one, text)
            yield one.call.id, text

    def _known_answer(self, command: SlashLine, begun: OpenStep) -> SlashResult | None:
        """Return what a slash command that broke off answers, None where it is to be carried out."""
        written = self._found.left.written if self._found.left is not None else ()
        last = written[-1] if written else None
        if is_once_only(self._task.steps[begun.number - 1]):
            return slash.SlashResult(_NOT_AGAIN) if self._skips else None
        if last is None or not last.has_begun:
            return None
        if last.answer is None and not self._skips:
            return None
        result = next((one for one in begun.outcome.results if one.call.id == last.call.id), None)
        if result is None:
            self._note(last, last.answer or _NOT_AGAIN)
        if last.answer is None:
            return slash.SlashResult(_NOT_AGAIN)
        if result is None:
            is_failed = last.ended is not None and last.ended.status is not Status.OK
            return slash.SlashResult(last.answer, failed=is_failed)
        return slash.answer_of(result, command.argument.partition(" ")[2])

    def _note(self, one: OpenCall, text: str) -> None:
        """Put what is known of a call without a result among the results of its step."""
        decided, ended, begun = one.decided, one.ended, self.record.open
        if begun is None or decided is None or (ended is None and one.answer is not None):
            return
        how = Outcome(Status.UNKNOWN)
        if ended is not None:
            how = Outcome(ended.status, ended.category, None, ended.exit_code)
        call = ToolCall(decided.call, decided.tool, decided.arguments, model_id=one.call.id)
        result = ToolResult(call, how, text, text)
        begun.outcome.results.append(result)
        with suppress(RecordError):
            row = result_row(result, self._mask, {call.id: call.arguments})
            self._keys.add(self.session, begun.number, "result", row)


async def _give_again(runtime: RuntimeSession) -> None:
    """Give what lapsed as it was given: the words that gave it are part of what was begun.

    It covers no more than it did then. So of files that a call changed since, nothing is allowed.
    """
    session = runtime.pipeline.session
    given = still_given(await runtime.audit.history_of(session.id))
    held = {grant.id for grant in session.grants}
    again = [replace(event, at=session.now) for event in given if event.grant.id not in held]
    await runtime.pipeline.note(*again)


def _with_loose(runtime: RuntimeSession, one: OpenCall, loose: list[OpenCall]) -> OpenCall:
    """Return an open call with what is known of a loose one, if it is that; take it from the others."""
    if one.decided is not None or one.has_begun:
        return one
    digest = None if _MASK in one.call.arguments else _digest(runtime, one.call)
    for other in loose:
        decided = other.decided
        # Where nobody can tell what the call was, it counts as the same: better not run than run twice.
        if decided is not None and decided.tool == one.call.tool and digest in {None, decided.digest}:
            loose.remove(other)
            return replace(other, call=one.call)
    return one


def _is_same_call(runtime: RuntimeSession, one: OpenCall) -> bool:
    """Whether the conversation holds a call just as it was decided: secrets in it were not kept."""
    return one.decided is not None and _digest(runtime, one.call) == one.decided.digest


def _digest(runtime: RuntimeSession, call: ToolCall) -> str | None:
    """Return the hash of a call as it goes on record, None where its tool does not take it."""
    spec = runtime.tools.spec(call.tool)
    if spec is None:
        return None
    session = runtime.pipeline.session
    action = ActionBuilder.of(call, {spec.name: spec}).read(session.policy, {})
    return None if action.problems else session.keyed(action.digest)


def _done_inside(ended: Sequence[EndedInside]) -> str:
    """Name the tools of a sub-agent's calls that ended; what they were asked was not read by a filter."""
    named = Counter(f"{one.decided.tool} ({one.status.value})" for one in ended)
    listed = ", ".join(f"{count} × {what}" for what, count in named.items())
    return f"; of the calls of the sub-agent these came to their end: {listed}" if listed else ""
