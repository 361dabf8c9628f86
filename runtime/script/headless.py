"""Run a session where nobody can be asked: one prompt or a script, to the exit code.

`script.py` reads a script, `expect.py` compares a step with its expectations, and `account.py` prints what
happened.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from dataclasses import dataclass, field

import trio

from leeward.security.call import ToolResult
from leeward.security.filters import HARD_BOUND

from ..app import Runtime
from ..audit import record_text
from ..console import begin, model_failure, require_model
from ..events import EndReason, TurnEnded, result_json, usage_json
from ..exits import CliError, Exit, Json
from ..options import Options
from ..printer import Printer
from ..slash import SlashResult, dispatch
from .account import RunPrinter
from .expect import Happened, found_instead, unnamed_denials
from .script import Script, ScriptStep, load_script

__all__ = ["run_prompt", "run_script"]

_RECORDS = 10_000
_PIECE = 64 * 1024
_FIRST_BYTE_SECONDS = 3.0


async def run_prompt(options: Options, printer: Printer) -> Exit:
    """Run one turn on the words of `-p`; what is piped in goes along as data, not as words."""
    words = options.prompt or ""
    if not words.strip():
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", "-p wants words")
    piped = await _piped(printer)
    return await _Headless(options, printer, Script("-p", (ScriptStep(0, words),)), piped).run()


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
        """Return it as an object; `text` is the answer, or what the slash command said."""
        told = [part for part in (self.slash and self.slash.text, self.ended and self.ended.text) if part]
        return {
            "line": self.step.line,
            "said": self.step.text,
            "text": "\n\n".join(told),
            "reason": self.ended.reason.value if self.ended is not None else None,
            "calls": [result_json(result) for result in self.happened.results],
        }


@dataclass(slots=True)
class _Headless:
    """One session without a person."""

    options: Options
    printer: Printer
    script: Script
    piped: str = ""
    session: str = ""
    model: str = ""
    done: list[_Done] = field(default_factory=list)
    refused: list[ToolResult] = field(default_factory=list)

    async def run(self) -> Exit:
        """Run all steps and tell how it ended.

        Raises:
            CliError: a step could not be run, or an expectation was not met.
        """
        start = begin(self.options)
        require_model(start)
        self.printer.so_far = self.data
        account = RunPrinter(self.printer)
        async with Runtime.open(start.loaded, places=start.places, listener=account.hear) as runtime:
            if self.options.resume is not None:
                await runtime.resume(self.options.resume)
            self.session, self.model = runtime.session_id, runtime.provider.name
            for number, step in enumerate(self.script.steps, 1):
                account.begin(step, number if self.options.script is not None else None)
                if await self._step(runtime, account, step):
                    break
        if self.options.script is not None:
            account.end(len(self.done), len(self.refused), self.session)
        return self._finish()

    async def _step(self, runtime: Runtime, account: RunPrinter, step: ScriptStep) -> bool:
        """Run one step and hold it against what was expected; return whether it ended the session."""
        before = await _last_record(runtime) if _wants_audit(step) else 0
        done = _Done(step, account.happened)
        self.done.append(done)
        if step.slash is None:
            await runtime.turn(step.text, await self._attached(runtime))
        else:
            done.slash = await dispatch(runtime, step.slash)
            account.slash(step, done.slash.text, failed=done.slash.failed)
            if done.slash.turn is not None:
                await runtime.turn(*done.slash.turn)
        if _wants_audit(step):
            records = await runtime.audit.list_records(runtime.session_id, _RECORDS, after=before)
            account.happened.audit = [record_text(record) for record in records]
        self.refused += unnamed_denials(account.happened.results, step.expected)
        self._compare(account, done)
        return done.slash is not None and done.slash.exit

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
                place = f"{self.script.name}:{expected.line}"
                raise CliError(
                    Exit.GENERAL_ERROR,
                    "EXPECTATION_FAILED",
                    f"{place}: the step before did not do what was expected",
                    phase="script",
                    file=self.script.name,
                    line=expected.line,
                    expected=str(expected),
                    found=found,
                )
            account.met(expected)
        if done.slash is not None and done.slash.failed and not done.step.expected:
            place = f"{self.script.name}:{done.step.line}"
            raise CliError(Exit.GENERAL_ERROR, "SLASH_FAILED", f"{place}: {done.slash.text}", phase="script")

    async def _attached(self, runtime: Runtime) -> str:
        return await runtime.admit(self.piped, "stdin") if self.piped else ""

    def _finish(self) -> Exit:
        ended = [done.ended.reason for done in self.done if done.ended is not None]
        limited = [_LIMITS[reason] for reason in ended if reason in _LIMITS]
        if not self.refused and not limited:
            return self.printer.finish(Exit.SUCCESS, self.data())
        told = [f"{result.call.tool} was refused by {result.outcome.gate}" for result in self.refused]
        told += limited
        error = CliError(Exit.PARTIAL_FAILURE, "PARTIAL_FAILURE", "; ".join(dict.fromkeys(told)))
        return self.printer.finish(Exit.PARTIAL_FAILURE, self.data(), error.error())

    def data(self) -> dict[str, Json]:
        """Return what there is by now, as the envelope tells it."""
        steps = [done.as_json() for done in self.done]
        ended = [done.ended for done in self.done if done.ended is not None]
        told: dict[str, Json] = {"session": self.session, "model": self.model, "usage": usage_json(ended)}
        return told | (steps[0] if self.options.script is None and steps else {"steps": steps})


_LIMITS = {
    EndReason.MAX_TURNS: "the model was not done after max_turns replies",
    EndReason.TIMEOUT: "the time of a turn ran out",
    EndReason.COST: "the session has cost what it may cost",
    EndReason.CONTEXT: "the conversation is too long for the model",
}


def _wants_audit(step: ScriptStep) -> bool:
    return any(expected.word == "audit" for expected in step.expected)


async def _last_record(runtime: Runtime) -> int:
    newest = await runtime.audit.list_records(limit=1)
    return newest[-1].seq if newest else 0


async def _piped(printer: Printer) -> str:
    """Return what was piped in; a terminal, or a pipe into which nothing comes, says nothing."""
    try:
        handle = sys.stdin.fileno()
        mode = os.fstat(handle).st_mode
    except (AttributeError, OSError, ValueError):
        return ""
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return ""
    raw = await trio.to_thread.run_sync(_read, handle, abandon_on_cancel=True)
    if raw is None:
        printer.note("standard input is open but says nothing; going on without it")
        return ""
    if len(raw) > HARD_BOUND:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"more than {HARD_BOUND} bytes came in on standard input")
    return raw.decode("utf-8", "replace")


def _read(handle: int) -> bytes | None:
    """Read to the end; None where not a byte comes within a moment: a pipe may be there by accident."""
    if not select.select([handle], [], [], _FIRST_BYTE_SECONDS)[0]:
        return None
    pieces: list[bytes] = []
    size = 0
    while size <= HARD_BOUND and (piece := os.read(handle, _PIECE)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
