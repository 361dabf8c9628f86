"""Start programs under bubblewrap, and report how they ended.

A reaper starts bubblewrap, with arguments from `security/sandbox/confinement.py` and a seccomp filter.
Bubblewrap itself runs outside the sandbox, so its own environment is empty: with LD_PRELOAD among the
program's variables, a library would run with all the person's rights. Everything in the sandbox ends with its
first process. If bubblewrap is killed while it sets up a sandbox, the reaper ends the processes that would
wait for it forever.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import PermanentFailure, PolicyBlocked

from ..process import (
    FIRST_DESCRIPTOR,
    MOST_ASKED,
    Child,
    Exceeded,
    Listener,
    Overlay,
    OwnNetwork,
    ProcessExit,
    Serve,
    Start,
    Starter,
    SupervisedProcess,
    SupervisedStart,
    children,
    descendants,
    run_served,
    send,
    starting,
    unstartable,
)

if TYPE_CHECKING:
    from .program import Program

__all__ = ["BubblewrapStart", "run_program"]

_CODE = regex(rb'"exit-code"')
_STATUS_BYTES = 4096

# What bubblewrap reads and writes beside its standard streams, and the number it finds each at.
_GIVEN = tuple(
    word
    for number, option in enumerate(("--json-status-fd", "--seccomp", "--args"), FIRST_DESCRIPTOR)
    for word in (option, str(number))
)

# Bubblewrap tells a death by signal N as 128 + N. Of those codes only these are no program's own.
_DEADLY = frozenset(
    (
        signal.SIGILL,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGKILL,
        signal.SIGSEGV,
        signal.SIGTERM,
    )
)


@dataclass(frozen=True, slots=True)
class BubblewrapStart:
    """Starts programs under bubblewrap: `program` with `arguments`, and a filter of system calls.

    With an `overlay`, bubblewrap finds it at the folder's own path, and the program nothing else there. With
    a `network`, bubblewrap is started in that, and makes none. A `listener` receives system calls, of
    bubblewrap's own, too. `broken` is called where no sandbox can be made.
    """

    program: str
    arguments: tuple[str, ...]
    kept: SupervisedStart
    filter: bytes
    overlay: Overlay | None = None
    listener: Listener | None = None
    network: OwnNetwork | None = None
    broken: Callable[[], None] = lambda: None

    async def __call__(self, start: Start) -> Child:
        """Start a program.

        Raises:
            PermanentFailure: it could not be started.
        """
        number = _problem(start)
        if number:
            raise PermanentFailure(unstartable(number))
        if any("\0" in word for pair in start.env.items() for word in pair):
            raise PermanentFailure("the program could not be started: embedded null byte")
        # The one place that makes bubblewrap keep the network it is started in, instead of making its own.
        network = () if self.network is None else ("--share-net",)
        argv = (self.program, *self.arguments, *network, *_GIVEN, "--", *start.argv)
        wrapped = replace(start, argv=argv, env={})
        with ExitStack() as given, ExitStack() as kept:
            with starting():
                reading, tell = os.pipe()
                kept.callback(os.close, reading)
                given.callback(os.close, tell)
                filtered = _in_memory(self.filter, given)
                variables = _in_memory(_as_arguments(start.env), given)
            descriptors = (tell, filtered, variables)
            child = await self.kept.start(wrapped, descriptors, self.overlay, self.listener, self.network)
            kept.pop_all()
        return _Bubble(child, trio.lowlevel.FdStream(reading), self.broken)


def _as_arguments(env: Mapping[str, str]) -> bytes:
    """Return the arguments that give a program its environment, each ended by a null byte."""
    words = (word for name, value in env.items() for word in ("--setenv", name, value))
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _in_memory(content: bytes, given: ExitStack) -> int:
    """Return a descriptor from which a content can be read until `given` is left."""
    file = given.enter_context(os.fdopen(os.memfd_create("given"), "w+b"))
    file.write(content)
    file.seek(0)
    return file.fileno()


def _problem(start: Start) -> int:
    """Return the number of the error with which a program cannot be started, 0 for none."""
    program = start.argv[0]
    if "/" not in program:
        return 0 if shutil.which(program, path=start.env.get("PATH", "")) else errno.ENOENT
    path = os.path.join(start.cwd, program)  # noqa: PTH118 — a text, as the kernel will read it
    if os.access(path, os.X_OK):
        return 0
    return errno.EACCES if os.path.lexists(path) else errno.ENOENT


@dataclass(slots=True)
class _Bubble:
    """A program under bubblewrap, which tells what it does as `status`."""

    kept: SupervisedProcess
    status: trio.lowlevel.FdStream
    broken: Callable[[], None]
    status_lines: bytes = b""

    @property
    def exceeded(self) -> Exceeded | None:
        return self.kept.exceeded

    async def ended(self) -> int:
        code = await self.kept.ended()
        while chunk := await self.status.receive_some():
            # Bubblewrap writes two short lines, so the end is enough.
            self.status_lines = (self.status_lines + bytes(chunk))[-_STATUS_BYTES:]
        if code >= 0 and _CODE.search(self.status_lines) is None:
            self.broken()
            raise PermanentFailure("the sandbox could not be made")
        return 128 - code if code - 128 in _DEADLY else code

    def signal(self, number: signal.Signals) -> None:
        # Bubblewrap outside, and the first process inside: those would end the rest at once.
        for outside in children(self.kept.pid):
            for first in children(outside):
                send(descendants(first, MOST_ASKED), number)

    async def end(self) -> bool:
        # All of a namespace ends at once with its first process, however many there are by now.
        send((first for outside in children(self.kept.pid) for first in children(outside)), signal.SIGKILL)
        is_gone = await self.kept.end()
        await self.status.aclose()
        return is_gone


async def run_program(program: Program, starter: Starter, serve: Serve | None) -> ProcessExit:
    """Run a program to its end, in a network of its own if something is served there."""
    if serve is None:
        return await program.run(starter)
    if not isinstance(starter, BubblewrapStart):
        raise PolicyBlocked("a network by host needs bubblewrap")

    async def run(network: OwnNetwork) -> ProcessExit:
        return await program.run(replace(starter, network=network))

    return await run_served(run, serve)
