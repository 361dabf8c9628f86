"""Run a program and end everything it started: the only file that starts processes.

A program gets a session of its own, no standard input, a pipe for each output and the environment made in
`environment.py`. However the run ends, nothing it started is left afterwards: in a sandbox with a process
namespace of its own the kernel ends all of it, elsewhere it is found by ancestry (`reaper.py`). Confinement
is decided in `sandbox/sandbox.py`, and what may run at all by the gates.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, TypeAlias

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure

from .environment import Exceeded
from .output import HeadAndTail, OnChunk, OutputDecoder, Pieces

__all__ = [
    "Child",
    "Process",
    "ProcessExit",
    "Start",
    "Starter",
    "Thread",
    "at_terminal",
    "run_process",
    "start_process",
    "starting",
    "two_pipes",
    "unstartable",
]

_CHUNK = 65_536

# How long a tree may tidy up after SIGTERM.
_GRACE = 0.2

# How long output is still collected once the program itself has ended but something it started
# holds a pipe open.
_LINGER = 0.5

# How long passing on the last output may take where nobody waits for it any more.
_LAST_WORDS = 1.0


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a program ended.

    `pieces` is what it printed, from both ends where it was too much; `dropped` counts the bytes left out
    between. `exit_code` is None where a signal ended it, `signal` None where none did. `timed_out` tells
    that it was stopped at its deadline, `held_open` that something it started still held its output when
    it had ended. `seconds` is how long it ran. `left` tells that something of it could not be ended.
    `exceeded` is the bound it was killed at, None where it kept to all of them.
    `error_lines` are the lines (first and last, from 1, of both outputs together) of standard error.
    """

    pieces: Pieces
    exit_code: int | None
    signal: int | None
    seconds: float
    dropped: int = 0
    timed_out: bool = False
    held_open: bool = False
    left: bool = False
    exceeded: Exceeded | None = None
    error_lines: tuple[tuple[int, int], ...] = ()

    @property
    def is_cut_short(self) -> bool:
        """Whether something else than itself ended it."""
        return self.timed_out or self.exceeded is not None or self.signal is not None

    @property
    def output(self) -> str:
        """Both outputs, in the order in which they came."""
        return "".join(text for text, _ in self.pieces)

    @property
    def stdout(self) -> str:
        """What was printed to standard output."""
        return "".join(text for text, is_error in self.pieces if not is_error)

    @property
    def stderr(self) -> str:
        """What was printed to standard error."""
        return "".join(text for text, is_error in self.pieces if is_error)


class Child(Protocol):
    """A program that was started."""

    @property
    def exceeded(self) -> Exceeded | None:
        """The bound it was killed at, known for good once it was ended."""
        ...

    async def ended(self) -> int:
        """Wait for its end and return its status as `os.waitstatus_to_exitcode` does: negative for a signal.

        Raises:
            PermanentFailure: it turned out that it could not be started.
        """
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to everything it started, and to itself."""
        ...

    async def end(self) -> bool:
        """End everything it started, wait until nothing of it is left, and return whether that was so."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """What is to be started: the program with its arguments, where, and with which whole environment.

    `out` and `err` are the descriptors of its outputs, `into` that of its input, None for nothing to read.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    out: int
    err: int
    into: int | None = None


Starter: TypeAlias = Callable[[Start], Awaitable[Child]]
"""How a program is started: what keeps it together, and what keeps it in."""

Process: TypeAlias = subprocess.Popen[bytes]
"""A process of ours. Others hold and end one; only this file makes them."""

Thread: TypeAlias = Callable[[Callable[[], Process]], Awaitable[Process]]
"""Runs a function on the thread that is to start a program."""


async def start_process(
    start: Start, on: Thread = trio.to_thread.run_sync, hand_over: Sequence[int] = ()
) -> Process:
    """Start a program in a session of its own, on a thread; `hand_over` are further descriptors it gets.

    Raises:
        PermanentFailure: it could not be started.
    """
    popen: Callable[..., Process] = subprocess.Popen
    started = partial(
        popen,
        list(start.argv),
        cwd=start.cwd,
        env=dict(start.env),
        stdin=subprocess.DEVNULL,
        stdout=start.out,
        stderr=start.err,
        start_new_session=True,
        pass_fds=tuple(hand_over),
    )
    try:
        # Cancelled in between, a program would run that nobody knows of.
        with starting(), trio.CancelScope(shield=True):
            process = await on(started)
    except ValueError as error:
        raise PermanentFailure(f"the program could not be started: {error}") from error
    return process


def at_terminal(argv: Sequence[str]) -> int:
    """Run a program of the person's own on their terminal, and return its exit code; this waits.

    Raises:
        PermanentFailure: it could not be started.
    """
    with starting():
        return subprocess.call(list(argv))  # noqa: S603 — the person named it


@contextmanager
def starting() -> Iterator[None]:
    """Tell what the system refuses within as a program that could not be started.

    Raises:
        PermanentFailure: an OSError came up.
    """
    try:
        yield
    except OSError as error:
        raise PermanentFailure(unstartable(error.errno or 0, error.filename)) from error


def two_pipes() -> list[tuple[int, int]]:
    """Return two pipes, reading end first, or neither.

    Raises:
        PermanentFailure: there are not enough descriptors left.
    """
    with starting():
        first = os.pipe()
        try:
            return [first, os.pipe()]
        except OSError:
            for end in first:
                os.close(end)
            raise


def unstartable(number: int, name: str | None = None) -> str:
    """Say that a program could not be started, by the number of the error and the file it is about."""
    about = f" ({name})" if name else ""
    return f"the program could not be started: {os.strerror(number)}{about}"


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    deadline: float,
    max_bytes: int,
    starter: Starter,
    on_chunk: OnChunk | None = None,
) -> ProcessExit:
    """Run a program to its end, or to the deadline, and leave nothing of it behind.

    Args:
        argv: program and arguments.
        cwd: the folder it starts in.
        env: its whole environment.
        deadline: on trio's clock, in seconds; it is stopped a moment before, to be gone by then.
        max_bytes: how much output is kept in memory.
        starter: how it is started.
        on_chunk: gets all output as it comes.

    Raises:
        PermanentFailure: it could not be started.
    """
    began = trio.current_time()
    collected = HeadAndTail(max_bytes, on_chunk)
    pipes = two_pipes()
    reading = [trio.lowlevel.FdStream(end) for end, _ in pipes]
    try:
        start = Start(argv, cwd, env, pipes[0][1], pipes[1][1])
        try:
            child = await starter(start)
        finally:
            for _, writing in pipes:
                os.close(writing)
        out = _Pipe(reading[0], collected.output(is_error=False))
        err = _Pipe(reading[1], collected.output(is_error=True), before=out)
        return await _Run(child, (out, err), collected).followed(began, deadline)
    finally:
        for pipe in reading:
            await trio.aclose_forcefully(pipe)


@dataclass(frozen=True, slots=True)
class _Pipe:
    """One output of a program, and where it goes. What waits in `before` goes there first.

    Nobody can tell which of two pipes was written to first; so it is always the same one.
    """

    stream: trio.lowlevel.FdStream
    output: OutputDecoder
    before: _Pipe | None = None

    async def read(self) -> None:
        """Pass on all there is until nobody can write any more."""
        async for chunk in self.stream:
            if self.before is not None:
                await self.before.pass_on()
            await self.output.feed(bytes(chunk))

    async def pass_on(self, *, final: bool = False) -> None:
        """Pass on what was printed by now and is not read yet; `final` tells that no more will be."""
        rest = b""
        with suppress(BlockingIOError):
            rest = os.read(self.stream.fileno(), _CHUNK)
        await self.output.feed(rest, final=final)

    async def drain(self) -> None:
        """Throw away what comes."""
        async for _ in self.stream:
            pass


@dataclass(slots=True)
class _Run:
    """One program while it runs; `code` is its exit code (negative for a signal) once it has ended."""

    child: Child
    pipes: Sequence[_Pipe]
    collected: HeadAndTail
    code: int | None = None
    failure: PermanentFailure | None = None

    async def followed(self, began: float, deadline: float) -> ProcessExit:
        closed = is_gone = is_passed_on = False
        try:
            with trio.CancelScope(deadline=deadline - _margin(deadline - began)) as scope:
                closed = await self._follow()
            await self._pass_on()
            is_passed_on = True
        finally:
            if not is_passed_on:
                # It is stopped: what it printed until then is the last that is known of it.
                with trio.move_on_after(_LAST_WORDS, shield=True):
                    await self._pass_on()
            with trio.CancelScope(shield=True):
                is_gone = await self._stop(gently=self.code is None and self.failure is None)
        if self.failure is not None:
            raise _with_reason(self.failure, self.collected.pieces())
        code = self.code if self.code is not None else -signal.SIGKILL
        return ProcessExit(
            pieces=self.collected.pieces(),
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            seconds=trio.current_time() - began,
            dropped=self.collected.dropped,
            timed_out=scope.cancelled_caught,
            held_open=not (scope.cancelled_caught or closed),
            left=not is_gone,
            exceeded=self.child.exceeded,
            error_lines=tuple(self.collected.error_lines),
        )

    async def _pass_on(self) -> None:
        for pipe in self.pipes:
            await pipe.pass_on(final=True)

    async def _follow(self) -> bool:
        """Collect output until the program has ended; return whether its pipes were closed by then."""
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait, scope)
                for pipe in self.pipes:
                    nursery.start_soon(pipe.read)
        return not scope.cancelled_caught

    async def _wait(self, scope: trio.CancelScope) -> None:
        """Give whatever else holds the pipes a moment to close them, once the program has ended."""
        await self._end()
        scope.deadline = trio.current_time() + _LINGER

    async def _end(self) -> None:
        try:
            self.code = await self.child.ended()
        except PermanentFailure as error:
            # A nursery would wrap it.
            self.failure = error

    async def _stop(self, *, gently: bool) -> bool:
        """End the tree; `gently` lets it tidy up first. Full pipes would keep it from ending."""
        async with trio.open_nursery() as nursery:
            for pipe in self.pipes:
                nursery.start_soon(pipe.drain)
            if gently:
                self.child.signal(signal.SIGTERM)
                with trio.move_on_after(_GRACE):
                    await self._end()
            is_gone = await self.child.end()
            nursery.cancel_scope.cancel()
        return is_gone


def _with_reason(failure: PermanentFailure, pieces: Pieces) -> PermanentFailure:
    """Return a failure with the first line that was printed on the way to it."""
    reason = "".join(text for text, _ in pieces).strip().partition("\n")[0]
    return PermanentFailure(f"{failure}: {reason}") if reason else failure


def _margin(seconds: float) -> float:
    """Return how long before the deadline to stop, so that the tree is gone, and reported, in time."""
    return min(2 * _GRACE, seconds / 4)
