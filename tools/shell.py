"""What does a command line print, and how did it end? The tool `shell`.

Which lines may run is decided before, by the gates; how a program is started and stopped is
`process.py`'s. Here it is told: a program's own exit code is a result, whatever means that it did not
run to its own end is a failure, which takes along what was printed by then.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from leeward.security import (
    Cleared,
    Effect,
    Output,
    PermanentFailure,
    ToolError,
    ToolExecutor,
    ToolTimeout,
)

from .declare import tool
from .kinds import ShellCommand
from .process import Finished, run_process

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
    """Where commands run, with what environment, how long (seconds) and how much they may print (bytes)."""

    folder: str
    env: Mapping[str, str]
    timeout: float
    max_bytes: int

    def tools(self) -> list[ToolExecutor]:
        """Return the tool `shell`."""
        return [tool(effects=Effect.ALL, timeout=self.timeout)(self.shell)]

    async def shell(self, command: ShellCommand, cleared: Cleared) -> Output:
        """Run a command line with bash in the workspace and return what it prints.

        Standard input is empty and there is no terminal: use options that answer questions in
        advance. Each call starts a new shell, so `cd` and variables do not last; programs left
        running in the background are stopped when the line has ended.
        """
        finished = await run_process(
            [*_shell(), "-c", "--", command],
            cwd=self.folder,
            env=self.env,
            deadline=cleared.deadline,
            max_bytes=self.max_bytes,
            on_chunk=cleared.emit,
        )
        if (failure := _failure(finished)) is not None:
            raise failure
        ended = f"exit code {finished.exit_code} after {finished.seconds:.1f} s"
        return _output(finished, ended)


def _shell() -> list[str]:
    return [_BASH, "--noprofile", "--norc"] if os.access(_BASH, os.X_OK) else [_SH]


def _failure(finished: Finished) -> ToolError | None:
    """Return None where the program ran to an end of its own, else what came between, with its output."""
    code = finished.exit_code
    number = finished.signal or _DEADLY.get(code or 0)
    if finished.timed_out:
        return ToolTimeout(f"stopped after {finished.seconds:.1f} s, at its deadline", _output(finished))
    if number is not None:
        return PermanentFailure(f"ended by signal {number} ({_signal_name(number)})", _output(finished))
    if code in _NOT_RUN:
        return PermanentFailure(f"exit code {code}: {_NOT_RUN[code]}", _output(finished))
    return None


def _output(finished: Finished, *notices: str) -> Output:
    told = (*notices, *_remarks(finished))
    return Output(finished.output, exit_code=finished.exit_code, notices=told)


def _remarks(finished: Finished) -> tuple[str, ...]:
    remarks = []
    if finished.dropped:
        remarks.append(f"{finished.dropped} bytes of output beyond the bound were dropped")
    if finished.held_open:
        remarks.append("something it left running still held its output, which is no longer read")
    return tuple(remarks)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unnamed"
