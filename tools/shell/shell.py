"""The tool `shell`: run a command line and report its output and how it ended.

The gates decide which lines may run; `process/run.py` starts and stops programs. A program's own exit code is
a result; whatever keeps it from running to its own end is a failure, which includes the output up to then.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import trio
from pydantic import Field

from leeward.security.call import Action, Cleared, Gatekeeper, Rerun, ToolExecutor
from leeward.security.kinds import LASTS_KEY, CommandLine, Effect, Kind, Runs
from leeward.security.lazy import dataclass
from leeward.security.outcome import (
    LimitExceeded,
    Output,
    PermanentFailure,
    PolicyBlocked,
    ToolError,
    ToolTimeout,
)
from leeward.security.policy import NETWORK, Autonomy
from leeward.security.text import redact_text
from leeward.security.trust import Origin

from ..declare import ShellCommand, tool
from ..process import OnChunk, ProcessExit, Serve, network_environment
from ..sandbox import Program, Ran, Runner, TrialUnavailable, run_bare
from .jobs import Ending, Jobs, JobState

if TYPE_CHECKING:
    from .readers import Readers
    from .trials import Trials

__all__ = ["Lent", "Shell"]

_BASH = "/bin/bash"
_SH = "/bin/sh"

# What a shell says instead of running: found but not executable, not found.
_NOT_FOUND = 127
_NOT_RUN = {126: "the program could not be executed", _NOT_FOUND: "the program was not found"}

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
class Lent:
    """What a program is given that is lent secrets, and whether what it prints is shown."""

    env: Mapping[str, str] = field(repr=False)
    shows_output: bool = False


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands run, with what environment, for how long (seconds), and what runs them.

    `max_bytes` of their output are kept in memory; all of it is emitted as it arrives. `before` runs in a
    thread before each command. Without `trials` no command runs on trial, without `readers` none read-only.
    `explained` are exit codes whose meaning the model was given already. `proxy` serves the network of a
    command; without it a command has the network of its runner. `lend` returns the environment of a command
    that is lent secrets.
    """

    folder: str
    env: Mapping[str, str]
    timeout: float
    max_bytes: int
    runner: Runner = run_bare
    jobs: Jobs = field(default_factory=Jobs)
    before: Callable[[], None] = lambda: None
    trials: Callable[[], Trials] | None = None
    readers: Callable[[], Readers] | None = None
    explained: list[int] = field(default_factory=list)
    proxy: Callable[[Gatekeeper], Serve] | None = None
    lend: Callable[[Sequence[str]], Lent] | None = None

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
        network but to hosts that the person allows (by http and https, through the proxy that the environment
        names), with nothing but the workspace to change, and with temporary files that do not last. What
        it changes may be shown to the person first, who keeps or discards it.
        What takes long, or never ends by itself, is started with `background`: that returns the id of a
        job at once, which job_output tells more of and job_stop ends.
        """
        if background:
            return await self._started(command, cleared)
        if cleared.lends:
            return await self._lent(command, cleared)
        if cleared.runs is Runs.TRIAL or cleared.overlay:
            output = await self._tried(command, cleared)
        elif cleared.runs is Runs.READ_ONLY:
            output = await self._read(command, cleared)
        else:
            ran = await self._run(command, cleared.deadline, cleared.emit, cleared=cleared)
            ran = self._with_refused_hosts(self._with_places(ran), command, cleared)
            if (failure := _failure(ran)) is not None:
                raise failure
            output = _output(ran, _ended(ran))
        if self.trials is None or not _starts_git(cleared.action):
            return output
        return replace(output, notices=(*output.notices, *await self.trials().tracked_secrets()))

    async def _lent(self, command: str, cleared: Cleared) -> Output:
        """Run a line that is lent secrets, with the workspace held apart; it is shown to nobody by default.

        Its end is shown as success or failure only: its exit code and the names in notices are its own words.
        """
        if self.lend is None or self.trials is None or cleared.gatekeeper is None:
            raise PolicyBlocked("no secret can be lent here")
        await trio.to_thread.run_sync(self.before)
        lent = self.lend(cleared.lends)
        env, argv = {**self._environment(cleared), **lent.env}, [*_shell(), "-c", "--", command]
        emit = cleared.emit if lent.shows_output else _unheard
        program = Program(argv, self.folder, env, cleared.deadline, self.max_bytes, emit)
        try:
            tried = await self.trials().run(program, serve=self._served(cleared), names_only=True)
        except PermanentFailure:
            if lent.shows_output:
                raise
            raise PermanentFailure("it could not be run, or what it changed could not be read") from None
        ran = tried.ran if lent.shows_output else _withheld(tried.ran, cleared.lends)
        failure = _failure(ran)
        if tried.proposal is not None and failure is not None:
            tried.proposal.close()
        elif tried.proposal is not None:
            cleared.propose(tried.proposal)
        if failure is not None:
            raise failure
        return _output(ran) if not lent.shows_output else _output(ran, _ended(ran))

    def _with_places(self, ran: Ran) -> Ran:
        """Say where programs are looked for, when the first of a session was not found."""
        if ran.finished.exit_code != _NOT_FOUND or self.explained:
            return ran
        self.explained.append(_NOT_FOUND)
        places = (
            f"commands find programs in {self.env.get('PATH', '')}; one of the workspace is called by its"
            " path (./node_modules/.bin/NAME), one that lies elsewhere is found if its folder is in PATH when"
            " a session begins, or called by its path if [tools.sandbox] extra_read names its folder; leeward"
            " doctor tells what is left out of PATH, and why"
        )
        return replace(ran, notices=(*ran.notices, places))

    async def _tried(self, command: str, cleared: Cleared) -> Output:
        """Run a line over an overlay, and propose what it changed; of one that failed all is discarded."""
        if self.trials is None:
            raise TrialUnavailable("nothing can be run on trial here")
        await trio.to_thread.run_sync(self.before)
        argv, env, emit = [*_shell(), "-c", "--", command], self._environment(cleared), cleared.emit
        tried = await self.trials().run(
            Program(argv, self.folder, env, cleared.deadline, self.max_bytes, emit),
            is_real=cleared.overlay,
            disk=0 if cleared.action.again is None else cleared.action.again.disk,
            serve=self._served(cleared),
        )
        ran = self._with_places(replace(tried.ran, notices=(*tried.ran.notices, *tried.notices)))
        ran = self._with_refused_hosts(ran, command, cleared)
        if tried.proposal is not None and _failure(ran) is not None:
            tried.proposal.close()
            ran = replace(ran, notices=(*ran.notices, "its changes were discarded"))
        if (failure := _failure(ran)) is not None:
            raise failure
        if tried.proposal is not None:
            cleared.propose(tried.proposal)
        elif tried.again is not None and _failure(ran) is None:
            cleared.propose(tried.again)
        return replace(_output(ran, _ended(ran)), caches=tried.caches)

    async def _read(self, command: str, cleared: Cleared) -> Output:
        """Run a line read-only, and tell what it wanted to change."""
        if self.readers is None:
            raise TrialUnavailable("nothing can be run read-only here")
        await trio.to_thread.run_sync(self.before)
        argv, emit = [*_shell(), "-c", "--", command], cleared.emit
        program = Program(argv, self.folder, self.env, cleared.deadline, self.max_bytes, emit)
        tried = await self.readers().run(program)
        if tried.wished:
            cleared.wish(tried.wished)
        ran = self._with_places(tried.ran)
        if (failure := _failure(ran)) is not None:
            raise failure
        return _output(ran, _ended(ran))

    def _served(self, cleared: Cleared) -> Serve | None:
        """Return what serves the network of a command, None where it has what the runner gives it."""
        if self.proxy is None or cleared.gatekeeper is None:
            return None
        return self.proxy(cleared.gatekeeper)

    def _environment(self, cleared: Cleared) -> Mapping[str, str]:
        if self.proxy is None or cleared.gatekeeper is None:
            return self.env
        return network_environment(self.env, is_open=bool(cleared.gatekeeper.hosts))

    def _with_refused_hosts(self, ran: Ran, command: str, cleared: Cleared) -> Ran:
        """Say which hosts a command was refused, and offer to run it again if it failed.

        A program that went without them needs nothing, and where nobody can be asked the notice has to do.
        """
        if self.trials is None or cleared.gatekeeper is None or not cleared.gatekeeper.wanted:
            return ran
        session, gatekeeper = self.trials().session(), cleared.gatekeeper
        policy, wanted = session.policy, tuple(gatekeeper.wanted)
        can_be_asked = not policy.headless and policy.autonomy is not Autonomy.READONLY
        if ran.finished.exit_code and _failure(ran) is None and can_be_asked:
            granted = {grant.match for grant in session.active_grants() if grant.tool == NETWORK}
            once = [host for host in gatekeeper.hosts if host not in {*policy.sandbox.allow_hosts, *granted}]
            cleared.offer(Rerun(tuple(dict.fromkeys((*once, *wanted))), partial(self._tried, command)))
        notice = (
            f"it tried to reach {', '.join(wanted)}, which nobody allowed; [tools.sandbox] allow_hosts does"
        )
        return replace(ran, notices=(*ran.notices, notice))

    async def _run(
        self,
        command: str,
        deadline: float,
        emit: OnChunk,
        *,
        lasting: bool = False,
        cleared: Cleared | None = None,
    ) -> Ran:
        await trio.to_thread.run_sync(self.before)
        return await self.runner(
            [*_shell(), "-c", "--", command],
            cwd=self.folder,
            env=self.env if cleared is None else self._environment(cleared),
            deadline=deadline,
            max_bytes=self.max_bytes,
            on_chunk=emit,
            lasting=lasting,
            serve=None if cleared is None else self._served(cleared),
        )

    async def _started(self, command: str, cleared: Cleared) -> Output:
        async def run(deadline: float, emit: OnChunk) -> Ending:
            return _ending(await self._run(command, deadline, emit, lasting=True))

        job = await self.jobs.start(cleared, redact_text(command), run)
        text = f"started as {job.id}; job_output tells how far it has come, job_stop ends it"
        longest = f"it may run for {self.jobs.longest:g} s, and ends with this session at the latest"
        return Output(text, Origin.TOOL, notices=(longest,), goes_on=True)


async def _unheard(_chunk: str) -> None:
    """Take what a program prints that nobody is shown."""


def _withheld(ran: Ran, lends: Sequence[str]) -> Ran:
    """Return how a program ended that was lent secrets, without anything that it says."""
    finished = ran.finished
    failed = bool(finished.exit_code or finished.signal)
    text = "it failed" if failed else "it succeeded"
    notice = f"{text}; what it prints is withheld, for it was lent {', '.join(lends)} ([secrets] show_output)"
    ended = replace(
        finished, pieces=(), exit_code=int(failed), signal=None, dropped=0, error_lines=(), held_open=False
    )
    blocked = ("it did what no command may; that was undone",) if ran.blocked else ()
    return Ran(ended, blocked, (notice,))


def _starts_git(action: Action) -> bool:
    """Whether a command line names git among what it starts."""
    lines = (atom.canonical for atom in action.of_kind(Kind.COMMAND))
    programs = (argv[0] for line in lines if isinstance(line, CommandLine) for argv in line.actions)
    return any(program.rpartition("/")[2] == "git" for program in programs)


def _shell() -> list[str]:
    return [_BASH, "--noprofile", "--norc"] if os.access(_BASH, os.X_OK) else [_SH]


def _failure(ran: Ran, *, lasting: bool = False) -> ToolError | None:
    """Return None where the program ran to an end of its own, else what came between, with its output."""
    finished = ran.finished
    code = finished.exit_code
    number = finished.signal or _DEADLY.get(code or 0)
    if ran.blocked:
        return PolicyBlocked(f"block: {'; '.join(ran.blocked)}", _output(ran))
    if finished.exceeded is not None:
        return LimitExceeded(str(finished.exceeded), _output(ran))
    if finished.timed_out:
        key = "longest_job" if lasting else "timeout"
        text = f"stopped after {finished.seconds:.1f} s, at its deadline ([tools.shell] {key})"
        return ToolTimeout(text, _output(ran))
    if number is not None:
        return PermanentFailure(f"ended by signal {number} ({_signal_name(number)})", _output(ran))
    if code in _NOT_RUN:
        return PermanentFailure(f"exit code {code}: {_NOT_RUN[code]}", _output(ran))
    return None


def _ended(ran: Ran) -> str:
    return f"exit code {ran.finished.exit_code} after {ran.finished.seconds:.1f} s"


def _ending(ran: Ran) -> Ending:
    """Return how a command that ran in the background came to its end."""
    failure, code = _failure(ran, lasting=True), ran.finished.exit_code
    notices = (*_remarks(ran.finished), *ran.notices)
    if failure is None:
        return Ending(JobState.ENDED, _ended(ran), code, notices)
    state = JobState.TIMEOUT if ran.finished.timed_out else JobState.FAILED
    return Ending(state, str(failure), code, notices)


def _output(ran: Ran, *notices: str) -> Output:
    finished = ran.finished
    remarks = (*notices, *_remarks(finished), *ran.notices)
    return Output(finished.output, exit_code=finished.exit_code, notices=remarks, emitted=True)


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
