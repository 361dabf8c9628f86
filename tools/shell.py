"""What does a command line print, and how did it end? The tool `shell`.

Which lines may run is decided before (`gates/commands.py`); how a program is started and stopped is
`process.py`'s. Here it is told: a program's own exit code is a result, whatever means that it did not
run to its own end is a failure.
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

# How much of the output goes with a failure; its end says why, its beginning what it was about.
_HEAD, _TAIL = 4_000, 16_000


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
        _must_have_run(finished)
        notices = (f"exit code {finished.exit_code} after {finished.seconds:.1f} s", *_remarks(finished))
        return Output(finished.output, exit_code=finished.exit_code, notices=notices)


def _shell() -> list[str]:
    return [_BASH, "--noprofile", "--norc"] if os.access(_BASH, os.X_OK) else [_SH]


def _must_have_run(finished: Finished) -> None:
    """Raise unless the program ran to an end of its own.

    Raises:
        PermanentFailure: it was not found or could not be executed, or a signal ended it.
        ToolTimeout: it was stopped at the deadline.
    """
    if finished.timed_out:
        raise ToolTimeout(_told(f"stopped after {finished.seconds:.1f} s, at its deadline", finished))
    code = finished.exit_code
    number = finished.signal or _DEADLY.get(code or 0)
    if number is not None:
        raise PermanentFailure(_told(f"ended by signal {number} ({_signal_name(number)})", finished))
    if code in _NOT_RUN:
        raise PermanentFailure(_told(f"exit code {code}: {_NOT_RUN[code]}", finished))


def _told(what: str, finished: Finished) -> str:
    """Return a failure with the output there was, cut in the middle where it is long."""
    text = finished.output
    if len(text) > _HEAD + _TAIL:
        left_out = len(text) - _HEAD - _TAIL
        text = f"{text[:_HEAD]}\n[{left_out} characters left out]\n{text[-_TAIL:]}"
    remarks = "".join(f"; {remark}" for remark in _remarks(finished))
    return f"{what}{remarks}\n{text}" if text else f"{what}{remarks}"


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
