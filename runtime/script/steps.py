"""Carry out one step after the other in a session, and hold each against what was expected of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass

from .. import audit, slash
from ..console import model_failure
from ..events import EndReason, TurnEnded, result_json
from ..exits import CliError, Exit, Json, to_json
from .answer_schema import REPAIR, AnswerSchema, UnfitAnswer
from .expect import ABOUT_FILES, Happened, found_instead
from .named_files import found_file
from .recorded import StepOutcome

if TYPE_CHECKING:
    from ..app import RuntimeSession
    from ..printer import Printer
    from ..slash import SlashResult
    from .account import RunPrinter
    from .journal import Journal
    from .script import ScriptStep

__all__ = ["StepDone", "StepRunner"]

_RECORDS = 10_000
# Errors that are what came of a step; after any other it can be resumed.
_OUTCOMES = frozenset({"ANSWER_UNFIT", "EXPECTATION_FAILED", "SLASH_FAILED"})


@dataclass(slots=True)
class StepDone:
    """What came of a step, as the envelope shows it; `is_recorded` if an earlier attempt did it."""

    step: ScriptStep
    happened: Happened
    slash: SlashResult | None = None
    is_recorded: bool = False

    @property
    def ended(self) -> TurnEnded | None:
        """How its turn ended, where it had one."""
        return self.happened.turns[-1] if self.happened.turns else None

    def as_json(self) -> dict[str, Json]:
        """Return it as an object; `text` is the answer, or the output of the slash command."""
        texts = [part for part in (self.slash and self.slash.text, self.ended and self.ended.text) if part]
        return {
            "line": self.step.line,
            "said": self.step.text,
            "text": "\n\n".join(texts),
            "reason": self.ended.reason.value if self.ended is not None else None,
            "calls": [result_json(result) for result in self.happened.results],
            **({"data": dict(self.slash.data)} if self.slash and self.slash.data is not None else {}),
            **({"recorded": True} if self.is_recorded else {}),
        }


class StepRunner:
    """Carries out the steps of a run in its session.

    `value` is the answer in the form that was wanted. What was `piped` in goes along with each turn.
    """

    def __init__(
        self,
        runtime: RuntimeSession,
        account: RunPrinter,
        printer: Printer,
        journal: Journal | None,
        form: AnswerSchema | None,
        piped: str,
    ) -> None:
        self.value: Json = None
        self._runtime = runtime
        self._account = account
        self._printer = printer
        self._journal = journal
        self._form = form
        self._piped = piped
        self._turns: list[TurnEnded] = []

    async def run(self, done: StepDone, number: int) -> None:
        """Carry a step out, and hold it against what was expected.

        Raises:
            CliError: it could not be carried out, or an expectation was not met.
            RecordError: what must be on record of it could not be written.
        """
        before = await _last_record(self._runtime) if _wants_audit(done.step) else 0
        if self._journal is not None:
            left = await self._journal.begin(number, before)
            before, self._turns, done.slash = left.before, list(left.outcome.turns), left.outcome.slash
            self._account.recall(left.outcome)
        try:
            await self._carry_out(done)
            await self._look(done, before)
            self._compare(done)
        except CliError as error:
            if error.code in _OUTCOMES:
                await self._finish(done, error)
            raise
        await self._finish(done, None)

    async def _finish(self, done: StepDone, failure: CliError | None) -> None:
        if self._journal is not None:
            happened = done.happened
            outcome = StepOutcome(happened.results, happened.turns, done.slash, self.value, failure)
            await self._journal.finish(outcome)

    async def _carry_out(self, done: StepDone) -> None:
        """Run the turn or the slash command of a step, as far as that is not on record."""
        step = done.step
        if step.slash is None:
            await self._answer(step.text)
            return
        if done.slash is None:
            done.slash = await slash.dispatch(self._runtime, step.slash)
            if self._journal is not None:
                await self._journal.answered(done.slash)
        self._account.slash(step, done.slash)
        if done.slash.turn is not None:
            await self._turn(*done.slash.turn)

    async def _turn(self, words: str, data: str) -> TurnEnded:
        """Run a turn, or resume the one that broke off; one that is on record is over."""
        if self._turns:
            return self._turns.pop(0)
        continues = self._journal is not None and self._journal.take_broken_turn()
        return await self._runtime.turn(words, data, continues=continues)

    async def _answer(self, words: str) -> None:
        """Run a turn; where the answer has to fit a schema, let the model mend it once.

        Raises:
            CliError: the second answer does not fit either.
        """
        data = await self._runtime.admit(self._piped, "stdin") if self._piped else ""
        form = self._form
        if form is None:
            await self._turn(words, data)
            return
        for text in (words, REPAIR):
            ended = await self._turn(text, "\n\n".join(filter(None, (data, form.instruction))))
            if ended.reason is not EndReason.DONE:
                return
            try:
                self.value = form.read(ended.text)
            except UnfitAnswer as unfit:
                self._printer.note(f"the answer does not fit the schema: {unfit}")
                data, problems = unfit.report, unfit.problems
            else:
                self._printer.answer(f"{to_json(self.value)}\n")
                return
        why = f"the answer does not fit the schema: {'; '.join(problems)}"
        raise CliError(Exit.GENERAL_ERROR, "ANSWER_UNFIT", why, phase="answer", problems=problems)

    async def _look(self, done: StepDone, before: int) -> None:
        """Gather what expectations are about besides what was heard: records and files."""
        runtime, happened = self._runtime, done.happened
        if _wants_audit(done.step):
            records = await runtime.audit.list_records(runtime.session_id, _RECORDS, after=before)
            happened.audit = [audit.record_text(record) for record in records]
        session = runtime.pipeline.session
        for path in (one.value for one in done.step.expected if one.word in ABOUT_FILES):
            looked = partial(found_file, path, session.policy, session.secrets)
            # A file system that does not answer is left waiting in its thread.
            happened.files[path] = await trio.to_thread.run_sync(looked, abandon_on_cancel=True)

    def _compare(self, done: StepDone) -> None:
        """See that nothing broke and every expectation was met.

        Raises:
            CliError: the model could not answer, a slash command failed unexpectedly, or an
                expectation was not met.
        """
        if done.ended is not None and done.ended.error is not None:
            raise model_failure(done.ended.error)
        for expected in done.step.expected:
            found = found_instead(expected, done.happened)
            if found is not None:
                place = f"{expected.file}:{expected.line}"
                raise CliError(
                    Exit.GENERAL_ERROR,
                    "EXPECTATION_FAILED",
                    f"{place}: the step before did not do what was expected",
                    phase="script",
                    file=expected.file,
                    line=expected.line,
                    expected=str(expected),
                    found=found,
                )
            self._account.met(expected)
        if done.slash is not None and done.slash.failed and not done.step.expected:
            place = f"{done.step.file}:{done.step.line}"
            raise CliError(Exit.GENERAL_ERROR, "SLASH_FAILED", f"{place}: {done.slash.text}", phase="script")


def _wants_audit(step: ScriptStep) -> bool:
    return any(expected.word == "audit" for expected in step.expected)


async def _last_record(runtime: RuntimeSession) -> int:
    newest = await runtime.audit.list_records(limit=1)
    return newest[-1].seq if newest else 0
