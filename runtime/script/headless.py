"""Run one prompt or a script where nobody can be asked, and return the exit code.

`script.py` reads a script, `steps.py` carries its steps out, and `account.py` prints what happened.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias

import trio

from leeward.security.call import Status
from leeward.security.lazy import dataclass

from ..app import Runtime, RuntimeSession
from ..console import Startup, begin, require_model
from ..events import SCHEMA, EndReason, RunEvent, denial_json, usage_json
from ..exits import CliError, Exit, Json, to_json
from ..printer import plain
from .account import RunPrinter
from .answer_schema import AnswerSchema, load_answer_schema
from .expect import unnamed_denials
from .journal import Journal
from .keyed import check_key, found_run, task_of
from .report import Report, Suite
from .script import Script, ScriptStep, load_script
from .stdin import read_data, read_words
from .steps import StepDone, StepRunner

if TYPE_CHECKING:
    from leeward.memory.audit import AuditLogger
    from leeward.security.call import ToolResult

    from ..options import Options
    from ..printer import Printer
    from .recorded import StepOutcome

__all__ = ["HeadlessRun", "Listener", "OpenSession", "run_prompt", "run_script", "started"]

Listener: TypeAlias = Callable[[RunEvent], None]
OpenSession: TypeAlias = Callable[[Listener], AbstractAsyncContextManager[RuntimeSession]]
"""Opens a session whose events are heard."""


async def run_prompt(options: Options, printer: Printer) -> Exit:
    """Run one turn on the words of `-p`, or on standard input for `-p -`.

    Beside words that were typed, what is piped in goes along as data.
    """
    words, piped = options.prompt or "", ""
    if words == "-":
        words = await read_words()
    else:
        piped = await read_data(printer)
    if not words.strip():
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", "-p wants words, or - to take them from standard input")
    form = None
    if options.output_schema is not None:
        form = await trio.to_thread.run_sync(
            load_answer_schema, options.output_schema, abandon_on_cancel=True
        )
    script = Script("-p", (ScriptStep(0, words, file="-p"),))
    start = started(options, printer)
    return await HeadlessRun(options, printer, script, start, _opening(start), piped, form).run()


async def run_script(options: Options, printer: Printer) -> Exit:
    """Run the steps of `--script`; nothing is opened before the whole script was read."""
    # In a thread, as a schema is: it may be a pipe, and a signal must not wait for it.
    script = await trio.to_thread.run_sync(load_script, options.scripts[0], abandon_on_cancel=True)
    start = started(options, printer)
    run = HeadlessRun(options, printer, script, start, _opening(start))
    if options.report is not None:
        run.report = Report(options.report, [script])
        (run.suite,) = run.report.suites
    return await run.run()


def started(options: Options, printer: Printer) -> Startup:
    """Return where to work, with which model.

    Raises:
        CliError: a question is open that nobody is here to answer, or the key is none.
    """
    if options.key is not None:
        check_key(options.key)
    start = begin(options)
    if start.left_out:
        names = plain(", ".join(start.left_out))
        printer.warn(f"{names}: not read; --trust-workspace or leeward config trust has it read")
    require_model(start)
    return start


def _opening(start: Startup) -> OpenSession:
    return lambda hear: Runtime.open(start.loaded, places=start.places, listener=hear)


@dataclass(slots=True)
class HeadlessRun:
    """One session without a person; `part` tells those apart that share a key.

    Its steps are added to `suite`, which is all of `report` where it has one.
    """

    options: Options
    printer: Printer
    script: Script
    start: Startup
    opened: OpenSession
    piped: str = ""
    form: AnswerSchema | None = None
    report: Report | None = None
    suite: Suite | None = None
    part: str = ""
    value: Json = None
    session: str = ""
    model: str = ""
    audit: AuditLogger | None = None
    head: str | None = None
    journal: Journal | None = None
    done: list[StepDone] = field(default_factory=list)

    @property
    def refused(self) -> list[ToolResult]:
        """The refusals that no expectation named."""
        return [
            one for done in self.done for one in unnamed_denials(done.happened.results, done.step.expected)
        ]

    async def run(self) -> Exit:
        """Run all steps and tell how it ended.

        Raises:
            CliError: a step could not be run, or an expectation was not met.
        """
        self.printer.so_far = self.data
        account = RunPrinter(self.printer, shows_answer=self.form is None)
        try:
            with self.report.written() if self.report is not None else nullcontext():
                async with self._journal() as self.journal:
                    if not self._recalled(account):
                        await self._run(account)
        finally:
            # The end of the session has signed the audit by now.
            self.printer.event({"schema": SCHEMA, "type": "run", **self._summary()})
        if self.options.scripts:
            account.end(len(self.done), len(self.refused), self.session)
        return self._finish()

    @asynccontextmanager
    async def _journal(self) -> AsyncGenerator[Journal | None, None]:
        """Take the key, where one was given."""
        if self.options.key is None:
            yield None
            return
        task = task_of(self.options.key, self.script, self.start, self.piped, self.form)
        task = replace(task, part=self.part)
        async with found_run(task, self.start, self.options.on_unknown) as found:
            self.session, self.model, self.head = found.session, found.record.model, found.record.head
            yield Journal(task, found, skips=self.options.on_unknown == "skip")

    async def _run(self, account: RunPrinter) -> None:
        """Run the steps that are not on record in a session, and end that."""

        def hear(event: RunEvent) -> None:
            if self.journal is not None:
                self.journal.hear(event)
            account.hear(event)

        failure: CliError | None = None
        try:
            async with self.opened(hear) as runtime:
                try:
                    await self._steps(runtime, account)
                except CliError as error:
                    failure = error
        finally:
            head = self.audit.last_head() if self.audit is not None else None
            self.head = head.line() if head is not None else None
        if self.journal is not None:
            await self.journal.end(self.model, self.head)
        if failure is not None:
            raise failure

    def _recalled(self, account: RunPrinter) -> bool:
        """Tell what is on record of the first steps; return whether that is all there is to do.

        Raises:
            CliError: the error that a step on record ended with.
        """
        if self.journal is None:
            return False
        for number, outcome in sorted(self.journal.record.done.items()):
            step = self.script.steps[number - 1]
            account.begin(step, self._number(number), is_recorded=True)
            with self.suite.step(step) if self.suite is not None else nullcontext():
                self._recall(account, step, outcome)
        return self.journal.is_over

    def _recall(self, account: RunPrinter, step: ScriptStep, outcome: StepOutcome) -> None:
        account.recall(outcome)
        if outcome.slash is not None:
            account.slash(step, outcome.slash)
        self.done.append(StepDone(step, account.happened, outcome.slash, is_recorded=True))
        if self.form is not None and outcome.failure is None:
            self.value = outcome.value
            self.printer.answer(f"{to_json(self.value)}\n")
        if outcome.failure is not None:
            raise outcome.failure
        for expected in step.expected:
            account.met(expected)

    async def _steps(self, runtime: RuntimeSession, account: RunPrinter) -> None:
        if self.journal is not None:
            await self.journal.resume(runtime)
        elif self.options.resume is not None:
            await runtime.resume(self.options.resume)
        self.session, self.model, self.audit = runtime.session_id, runtime.provider.name, runtime.audit
        runner = StepRunner(runtime, account, self.printer, self.journal, self.form, self.piped)
        for number, step in enumerate(self.script.steps[len(self.done) :], len(self.done) + 1):
            account.begin(step, self._number(number))
            done = StepDone(step, account.happened)
            self.done.append(done)
            with self.suite.step(step) if self.suite is not None else nullcontext():
                await runner.run(done, number)
                self.value = runner.value
            if done.slash is not None and done.slash.exit:
                break

    def _number(self, number: int) -> int | None:
        return number if self.options.scripts else None

    def _finish(self) -> Exit:
        ended = [done.ended.reason for done in self.done if done.ended is not None]
        limited = [_LIMITS[reason] for reason in ended if reason in _LIMITS]
        refused = self.refused
        if not refused and not limited:
            return self.printer.finish(Exit.SUCCESS, self.data())
        reasons = [f"{result.call.tool} was refused by {result.outcome.gate}" for result in refused]
        reasons += limited
        error = CliError(Exit.PARTIAL_FAILURE, "PARTIAL_FAILURE", "; ".join(dict.fromkeys(reasons)))
        return self.printer.finish(Exit.PARTIAL_FAILURE, self.data(), error.error())

    def data(self) -> dict[str, Json]:
        """Return what there is by now, as the envelope shows it."""
        steps = [done.as_json() for done in self.done]
        return self._summary() | (steps[0] if not self.options.scripts and steps else {"steps": steps})

    def _summary(self) -> dict[str, Json]:
        """Return what is true of all steps together; nothing has a session before one was opened."""
        ended = [turn for done in self.done for turn in done.happened.turns]
        denied = (result for done in self.done for result in done.happened.results)
        return {
            "session": self.session or None,
            "model": self.model or None,
            "usage": usage_json(ended),
            "denials": [denial_json(one) for one in denied if one.outcome.status is Status.DENIED],
            "audit_head": self.head,
            **({"value": self.value} if self.form is not None else {}),
            **({"key": self.options.key} if self.options.key is not None else {}),
        }


_LIMITS = {
    EndReason.MAX_TURNS: "the model was not done after max_turns replies",
    EndReason.TIMEOUT: "the time of a turn ran out",
    EndReason.COST: "the session has cost what it may cost",
    EndReason.CONTEXT: "the conversation is too long for the model",
    EndReason.REFUSED: "a hook refused a turn",
}
