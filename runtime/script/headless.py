"""Run one prompt or a script where nobody can be asked, and return the exit code.

`script.py` reads a script, `expect.py` compares a step with its expectations, and `account.py` prints what
happened.
"""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.security.call import Status, ToolResult
from leeward.security.lazy import dataclass

from .. import audit, slash
from ..app import Runtime
from ..console import begin, model_failure, require_model
from ..events import SCHEMA, EndReason, TurnEnded, denial_json, result_json, usage_json
from ..exits import CliError, Exit, Json, to_json
from ..printer import plain
from .account import RunPrinter
from .answer_schema import REPAIR, AnswerSchema, UnfitAnswer, load_answer_schema
from .expect import ABOUT_FILES, Happened, found_instead, unnamed_denials
from .report import Report
from .script import Script, ScriptStep, load_script
from .stdin import read_data, read_words

if TYPE_CHECKING:
    from leeward.memory.audit import AuditLogger

    from ..options import Options
    from ..printer import Printer
    from ..slash import SlashResult

__all__ = ["run_prompt", "run_script"]

_RECORDS = 10_000
_LARGEST_FILE = 16 * 1024 * 1024


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
    form = load_answer_schema(options.output_schema) if options.output_schema is not None else None
    return await _Headless(options, printer, Script("-p", (ScriptStep(0, words),)), piped, form).run()


async def run_script(options: Options, printer: Printer) -> Exit:
    """Run the steps of `--script`; nothing is opened before the whole script was read."""
    # In a thread: standard input may be a pipe, and a signal must not wait for it.
    script = await trio.to_thread.run_sync(load_script, options.script or "-", abandon_on_cancel=True)
    return await _Headless(options, printer, script).run()


@dataclass(slots=True)
class _Done:
    """What came of a step, as the envelope tells it."""

    step: ScriptStep
    happened: Happened
    slash: SlashResult | None = None

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
        }


@dataclass(slots=True)
class _Headless:
    """One session without a person."""

    options: Options
    printer: Printer
    script: Script
    piped: str = ""
    form: AnswerSchema | None = None
    value: Json = None
    session: str = ""
    model: str = ""
    audit: AuditLogger | None = None
    done: list[_Done] = field(default_factory=list)
    refused: list[ToolResult] = field(default_factory=list)

    async def run(self) -> Exit:
        """Run all steps and tell how it ended.

        Raises:
            CliError: a step could not be run, or an expectation was not met.
        """
        start = begin(self.options)
        if start.left_out:
            names = plain(", ".join(start.left_out))
            self.printer.warn(f"{names}: not read; --trust-workspace or leeward config trust has it read")
        require_model(start)
        self.printer.so_far = self.data
        account = RunPrinter(self.printer, shows_answer=self.form is None)
        report = None if self.options.report is None else Report(self.options.report, self.script.name)
        try:
            async with Runtime.open(start.loaded, places=start.places, listener=account.hear) as runtime:
                await self._steps(runtime, account, report)
        finally:
            if report is not None:
                report.write(len(self.script.steps))
            # The end of the session has signed the audit by now.
            self.printer.event({"schema": SCHEMA, "type": "run", **self._summary()})
        if self.options.script is not None:
            account.end(len(self.done), len(self.refused), self.session)
        return self._finish()

    async def _steps(self, runtime: Runtime, account: RunPrinter, report: Report | None) -> None:
        if self.options.resume is not None:
            await runtime.resume(self.options.resume)
        self.session, self.model, self.audit = runtime.session_id, runtime.provider.name, runtime.audit
        for number, step in enumerate(self.script.steps, 1):
            account.begin(step, number if self.options.script is not None else None)
            with report.step(step) if report is not None else nullcontext():
                is_last = await self._step(runtime, account, step)
            if is_last:
                break

    async def _step(self, runtime: Runtime, account: RunPrinter, step: ScriptStep) -> bool:
        """Run one step and hold it against what was expected; return whether it ended the session."""
        before = await _last_record(runtime) if _wants_audit(step) else 0
        done = _Done(step, account.happened)
        self.done.append(done)
        if step.slash is None:
            await self._turn(runtime, step.text)
        else:
            done.slash = await slash.dispatch(runtime, step.slash)
            account.slash(step, done.slash)
            if done.slash.turn is not None:
                await runtime.turn(*done.slash.turn)
        if _wants_audit(step):
            records = await runtime.audit.list_records(runtime.session_id, _RECORDS, after=before)
            account.happened.audit = [audit.record_text(record) for record in records]
        for path in (one.value for one in step.expected if one.word in ABOUT_FILES):
            content = await trio.to_thread.run_sync(_content, runtime.places.workspace, path)
            account.happened.files[path] = content
        self.refused += unnamed_denials(account.happened.results, step.expected)
        self._compare(account, done)
        return done.slash is not None and done.slash.exit

    async def _turn(self, runtime: Runtime, words: str) -> None:
        """Run a turn; where the answer has to fit a schema, let the model mend it once.

        Raises:
            CliError: the second answer does not fit either.
        """
        data, form = await self._attached(runtime), self.form
        if form is None:
            await runtime.turn(words, data)
            return
        for text in (words, REPAIR):
            ended = await runtime.turn(text, "\n\n".join(filter(None, (data, form.instruction))))
            if ended.reason is not EndReason.DONE:
                return
            try:
                self.value = form.read(ended.text)
            except UnfitAnswer as unfit:
                self.printer.note(f"the answer does not fit the schema: {unfit}")
                data, problems = unfit.report, unfit.problems
            else:
                self.printer.answer(f"{to_json(self.value)}\n")
                return
        why = f"the answer does not fit the schema: {'; '.join(problems)}"
        raise CliError(Exit.GENERAL_ERROR, "ANSWER_UNFIT", why, phase="answer", problems=problems)

    def _compare(self, account: RunPrinter, done: _Done) -> None:
        """See that nothing broke and every expectation was met.

        Raises:
            CliError: the model could not answer, a slash command failed unexpectedly, or an
                expectation was not met.
        """
        if done.ended is not None and done.ended.error is not None:
            raise model_failure(done.ended.error)
        for expected in done.step.expected:
            found = found_instead(expected, account.happened)
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
            account.met(expected)
        if done.slash is not None and done.slash.failed and not done.step.expected:
            place = f"{done.step.file}:{done.step.line}"
            raise CliError(Exit.GENERAL_ERROR, "SLASH_FAILED", f"{place}: {done.slash.text}", phase="script")

    async def _attached(self, runtime: Runtime) -> str:
        return await runtime.admit(self.piped, "stdin") if self.piped else ""

    def _finish(self) -> Exit:
        ended = [done.ended.reason for done in self.done if done.ended is not None]
        limited = [_LIMITS[reason] for reason in ended if reason in _LIMITS]
        if not self.refused and not limited:
            return self.printer.finish(Exit.SUCCESS, self.data())
        reasons = [f"{result.call.tool} was refused by {result.outcome.gate}" for result in self.refused]
        reasons += limited
        error = CliError(Exit.PARTIAL_FAILURE, "PARTIAL_FAILURE", "; ".join(dict.fromkeys(reasons)))
        return self.printer.finish(Exit.PARTIAL_FAILURE, self.data(), error.error())

    def data(self) -> dict[str, Json]:
        """Return what there is by now, as the envelope tells it."""
        steps = [done.as_json() for done in self.done]
        return self._summary() | (steps[0] if self.options.script is None and steps else {"steps": steps})

    def _summary(self) -> dict[str, Json]:
        """Return what is true of all steps together; nothing has a session before one was opened."""
        ended = [turn for done in self.done for turn in done.happened.turns]
        head = self.audit.last_head() if self.audit is not None else None
        denied = (result for done in self.done for result in done.happened.results)
        return {
            "session": self.session or None,
            "model": self.model or None,
            "usage": usage_json(ended),
            "denials": [denial_json(one) for one in denied if one.outcome.status is Status.DENIED],
            "audit_head": head.line() if head is not None else None,
            **({"value": self.value} if self.form is not None else {}),
        }


_LIMITS = {
    EndReason.MAX_TURNS: "the model was not done after max_turns replies",
    EndReason.TIMEOUT: "the time of a turn ran out",
    EndReason.COST: "the session has cost what it may cost",
    EndReason.CONTEXT: "the conversation is too long for the model",
    EndReason.REFUSED: "a hook refused a turn",
}


def _wants_audit(step: ScriptStep) -> bool:
    return any(expected.word == "audit" for expected in step.expected)


def _content(workspace: Path, name: str) -> str | None:
    """Return what a file holds, as far as an expectation looks; None where nothing is there."""
    try:
        # Without waiting: a program may have left a pipe there.
        path = workspace / Path(name).expanduser()
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return file.read(_LARGEST_FILE).decode("utf-8", "replace")


async def _last_record(runtime: Runtime) -> int:
    newest = await runtime.audit.list_records(limit=1)
    return newest[-1].seq if newest else 0
