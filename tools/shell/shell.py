"""The tool `shell`: run a command line and report its output and how it ended.

The gates decide which lines may run; `process/run.py` starts and stops programs. A program's own exit code is
a result; whatever keeps it from running to its own end is a failure, which includes the output up to then.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import trio
from pydantic import Field

from leeward.security.call import Cleared, ToolExecutor
from leeward.security.kinds import LASTS_KEY, Effect, Runs
from leeward.security.outcome import (
    LimitExceeded,
    Output,
    PermanentFailure,
    PolicyBlocked,
    ToolError,
    ToolTimeout,
)
from leeward.security.text import redact_text
from leeward.security.trust import Origin

from ..declare import ShellCommand, tool
from ..process import OnChunk, ProcessExit
from ..sandbox import Ran, Runner, TrialUnavailable, run_bare
from .jobs import Ending, Jobs, JobState
from .trials import Trials

__all__ = ["Shell"]

_BASH = "/bin/bash"
_SH = "/bin/sh"

# What a shell says instead of running: found but not executable, not found.
_NOT_RUN = {126: "the program could not be executed", 127: "the program was not found"}

# A shell tells a child's death by signal N as 128 + N. Of those codes only these are no program's own:
# git, for one, exits with 128, 129 and 130 for reasons of its own.
_DEADLY = {
    128 + number: number
    for number in (
        signal.SIGILL,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGKILL,
        signal.SIGSEGV,
        signal.SIGTERM,
    )
}


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands run, with what environment, for how long (seconds), and what runs them.

    `max_bytes` is how much of their output is kept here; all of it is emitted as it comes. `before` is done
    in a thread before each of them. Without `trials` nothing can be run on trial.
    """

    folder: str
    env: Mapping[str, str]
    timeout: float
    max_bytes: int
    runner: Runner = run_bare
    jobs: Jobs = field(default_factory=Jobs)
    before: Callable[[], None] = lambda: None
    trials: Trials | None = None

    def tools(self) -> list[ToolExecutor]:
        """Return the tool `shell`."""
        return [tool(effects=Effect.ALL, timeout=self.timeout)(self.shell)]

    async def shell(
        self,
        command: ShellCommand,
        cleared: Cleared,
        background: Annotated[
            bool, Field(description="do not wait for its end", json_schema_extra={LASTS_KEY: True})
        ] = False,
    ) -> Output:
        """Run a command line with bash in the workspace and return what it prints.

        Standard input is empty and there is no terminal: use options that answer questions in
        advance. Each call starts a new shell, so `cd` and variables do not last; programs left
        running in the background are stopped when the line has ended. It may run in a sandbox: without
        network, with nothing but the workspace to change, and with temporary files that do not last. What
        it changes may be shown to the person first, who keeps or discards it.
        What takes long, or never ends by itself, is started with `background`: that returns the id of a
        job at once, which job_output tells more of and job_stop ends.
        """
        if background:
            return await self._started(command, cleared)
        if cleared.runs is Runs.TRIAL:
            return await self._tried(command, cleared)
        if cleared.runs is not Runs.REAL:
            raise PolicyBlocked(f"commands cannot run {cleared.runs} here")
        ran = await self._run(command, cleared.deadline, cleared.emit, lasting=False)
        if (failure := _failure(ran)) is not None:
            raise failure
        return _output(ran, _ended(ran))

    async def _tried(self, command: str, cleared: Cleared) -> Output:
        """Run a line on trial, and propose what it changed; of one that failed everything is discarded."""
        if self.trials is None:
            raise TrialUnavailable("nothing can be run on trial here")
        await trio.to_thread.run_sync(self.before)
        tried = await self.trials.run(
            [*_shell(), "-c", "--", command],
            cwd=self.folder,
            env=self.env,
            deadline=cleared.deadline,
            max_bytes=self.max_bytes,
            on_chunk=cleared.emit,
        )
        ran = replace(tried.ran, notices=(*tried.ran.notices, *tried.notices))
        if (failure := _failure(ran)) is not None:
            if tried.proposal is not None:
                tried.proposal.close()
            raise failure
        if tried.proposal is not None:
            cleared.propose(tried.proposal)
        return _output(ran, _ended(ran))

    async def _run(self, command: str, deadline: float, emit: OnChunk, *, lasting: bool) -> Ran:
        await trio.to_thread.run_sync(self.before)
        return await self.runner(
            [*_shell(), "-c", "--", command],
            cwd=self.folder,
            env=self.env,
            deadline=deadline,
            max_bytes=self.max_bytes,
            on_chunk=emit,
            lasting=lasting,
        )

    async def _started(self, command: str, cleared: Cleared) -> Output:
        async def run(deadline: float, emit: OnChunk) -> Ending:
            return _ending(await self._run(command, deadline, emit, lasting=True))

        job = await self.jobs.start(cleared, redact_text(command), run)
        told = f"started as {job.id}; job_output tells how far it has come, job_stop ends it"
        longest = f"it may run for {self.jobs.longest:g} s, and ends with this session at the latest"
        return Output(told, Origin.TOOL, notices=(longest,), goes_on=True)


def _shell() -> list[str]:
    return [_BASH, "--noprofile", "--norc"] if os.access(_BASH, os.X_OK) else [_SH]


def _failure(ran: Ran) -> ToolError | None:
    """Return None where the program ran to an end of its own, else what came between, with its output."""
    finished = ran.finished
    code = finished.exit_code
    number = finished.signal or _DEADLY.get(code or 0)
    if ran.blocked:
        return PolicyBlocked(f"block: {'; '.join(ran.blocked)}", _output(ran))
    if finished.exceeded is not None:
        return LimitExceeded(str(finished.exceeded), _output(ran))
    if finished.timed_out:
        return ToolTimeout(f"stopped after {finished.seconds:.1f} s, at its deadline", _output(ran))
    if number is not None:
        return PermanentFailure(f"ended by signal {number} ({_signal_name(number)})", _output(ran))
    if code in _NOT_RUN:
        return PermanentFailure(f"exit code {code}: {_NOT_RUN[code]}", _output(ran))
    return None


def _ended(ran: Ran) -> str:
    return f"exit code {ran.finished.exit_code} after {ran.finished.seconds:.1f} s"


def _ending(ran: Ran) -> Ending:
    """Return how a command that ran in the background came to its end."""
    failure, code = _failure(ran), ran.finished.exit_code
    notices = (*_remarks(ran.finished), *ran.notices)
    if failure is None:
        return Ending(JobState.ENDED, _ended(ran), code, notices)
    state = JobState.TIMEOUT if ran.finished.timed_out else JobState.FAILED
    return Ending(state, str(failure), code, notices)


def _output(ran: Ran, *notices: str) -> Output:
    finished = ran.finished
    told = (*notices, *_remarks(finished), *ran.notices)
    return Output(finished.output, exit_code=finished.exit_code, notices=told, emitted=True)


def _remarks(finished: ProcessExit) -> tuple[str, ...]:
    remarks = []
    if finished.error_lines and not finished.stdout and not finished.dropped:
        remarks.append("all of it is standard error")
    elif finished.error_lines:
        ranges = (f"{first}-{last}" if last > first else str(first) for first, last in finished.error_lines)
        remarks.append(f"standard error: lines {', '.join(ranges)}")
    if finished.held_open:
        remarks.append("something it left running still held its output, which is no longer read")
    if finished.left:
        remarks.append("something it left running could not be ended; the person may have to")
    return tuple(remarks)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"
