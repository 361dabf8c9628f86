"""How does a program run and end? The only file that starts one.

A program gets a session and process group of its own, nothing to read, one pipe for both outputs and
an environment made here. Whatever ends the run, the group is gone when it is over. What a program may
be is judged elsewhere; what its exit code means is told by `shell.py`.
"""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import trio

from leeward.security import PermanentFailure

__all__ = ["Finished", "environment", "run_process"]

OnChunk: TypeAlias = Callable[[str], Awaitable[None]]

_CHUNK = 65_536

# How long a group may tidy up after SIGTERM, and how long after SIGKILL it is waited for: a process
# that hangs in the kernel must not hang the runtime too.
_GRACE = 0.25
_REAP = 2.0

# How long output is still collected once the program itself has ended but something it started
# holds the pipe open.
_LINGER = 0.5

_FIXED = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "CI": "1",
    "NO_COLOR": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}
_INHERITED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME")


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended.

    `exit_code` is None where a signal ended it, `signal` None where none did. `timed_out` tells that
    it was stopped at its deadline, `held_open` that something it started still held its output when it
    had ended. `dropped` counts the bytes of output beyond the bound, `seconds`
    is how long it ran.
    """

    output: str
    exit_code: int | None
    signal: int | None
    seconds: float
    dropped: int = 0
    timed_out: bool = False
    held_open: bool = False


@dataclass(slots=True)
class _Sink:
    """Output as text, up to a bound in bytes; what is beyond it is counted."""

    room: int
    on_chunk: OnChunk | None
    dropped: int = 0
    parts: list[str] = field(default_factory=list)
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    async def feed(self, chunk: bytes) -> None:
        kept = chunk[: self.room]
        self.room -= len(kept)
        self.dropped += len(chunk) - len(kept)
        await self._add(self.decoder.decode(kept))

    async def finish(self) -> None:
        """Add what an incomplete last character left over, unless the bound cut it."""
        if not self.dropped:
            await self._add(self.decoder.decode(b"", final=True))

    async def _add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            if self.on_chunk is not None:
                await self.on_chunk(text)


def environment(home: str, parent: Mapping[str, str]) -> dict[str, str]:
    """Return what programs get: fixed values, and only language, time zone and user of `parent`."""
    inherited = {name: parent[name] for name in _INHERITED if name in parent}
    return {"LANG": "C.UTF-8", **inherited, **_FIXED, "HOME": home}


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    deadline: float,
    max_bytes: int,
    on_chunk: OnChunk | None = None,
) -> Finished:
    """Run a program to its end, or to the deadline, and leave nothing of its group behind.

    Args:
        argv: program and arguments.
        cwd: the folder it starts in.
        env: its whole environment.
        deadline: on trio's clock, in seconds; the group is stopped a moment before, to be gone by then.
        max_bytes: how much output is kept.
        on_chunk: gets kept output as it comes.

    Raises:
        PermanentFailure: it could not be started.
    """
    started = trio.current_time()
    process = await _spawn(argv, cwd, env)
    sink = _Sink(max_bytes, on_chunk)
    ended = closed = False
    try:
        with trio.CancelScope(deadline=deadline - _margin(deadline - started)) as scope:
            closed = await _follow(process, sink)
            ended = True
    finally:
        with trio.CancelScope(shield=True):
            await _end(process, gently=not ended)
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Finished(
        output="".join(sink.parts),
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        seconds=trio.current_time() - started,
        dropped=sink.dropped,
        timed_out=scope.cancelled_caught,
        held_open=ended and not closed,
    )


def _margin(seconds: float) -> float:
    """Return how long before the deadline to stop, so that the group is gone and told of in time."""
    return min(2 * _GRACE, seconds / 4)


async def _spawn(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> trio.Process:
    try:
        return await trio.lowlevel.open_process(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        about = f" ({error.filename})" if error.filename else ""
        raise PermanentFailure(f"the program could not be started: {error.strerror}{about}") from error
    except ValueError as error:
        raise PermanentFailure(f"the program could not be started: {error}") from error


async def _follow(process: trio.Process, sink: _Sink) -> bool:
    """Collect output until the program has ended; return whether its pipe was closed by then."""
    pipe = _pipe(process)
    with trio.CancelScope() as reading:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_limit, process, reading)
            async for chunk in pipe:
                await sink.feed(bytes(chunk))
    if reading.cancelled_caught:
        # What the pipe holds by now was printed in time, only read too slowly.
        with suppress(BlockingIOError):
            await sink.feed(os.read(pipe.fileno(), _CHUNK))
    await sink.finish()
    return not reading.cancelled_caught


async def _limit(process: trio.Process, reading: trio.CancelScope) -> None:
    """Once the program has ended, give whatever else holds its pipe a moment to let go."""
    await _exited(process)
    reading.deadline = trio.current_time() + _LINGER


async def _exited(process: trio.Process) -> None:
    """Wait for the end without reaping: the number must stay the group's until that is killed."""
    if sys.platform != "linux":
        await process.wait()
        return
    descriptor = os.pidfd_open(process.pid)
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def _end(process: trio.Process, *, gently: bool) -> None:
    """Kill what is left of the group and reap the program; `gently` lets it tidy up first."""
    pipe = _pipe(process)
    if gently:
        _signal_group(process.pid, signal.SIGTERM)
        with trio.move_on_after(_GRACE):
            # A full pipe would keep the group from ending, and its closing tells that all have gone.
            async for _ in pipe:
                pass
            await _exited(process)
    _signal_group(process.pid, signal.SIGKILL)
    with trio.move_on_after(_REAP):
        await process.wait()
    await pipe.aclose()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _pipe(process: trio.Process) -> trio.lowlevel.FdStream:
    pipe = process.stdout
    if not isinstance(pipe, trio.lowlevel.FdStream):
        raise TypeError("the program was not started with a pipe")
    return pipe
