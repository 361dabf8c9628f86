"""Start programs under reapers, and kill whole process trees.

The supervisor is one small process of a session (`reaper.py`). Starting a program is a message to it, sent
with the descriptors the program gets; it forks a reaper for each. A reaper ends everything below it when it
is asked to or when this process dies. If a program kills its reaper, what it started becomes the
supervisor's; if it kills the supervisor as well, it becomes this process's, where this process is ours alone
(`claim_process`).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import IO

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure

from ..linux import keep_from_debuggers, set_subreaper
from .cgroup import Group, Groups
from .disk_usage import DiskUsage
from .environment import Exceeded, Limits, Resource
from .listener import Listener
from .network import OwnNetwork
from .overlay import Overlay
from .reaper import children, descendants, end_all, is_stopped, stop_group
from .run import Process, Start, Thread, start_process, starting, two_pipes, unstartable

__all__ = ["MOST_ASKED", "SupervisedProcess", "SupervisedStart", "Supervisor", "claim_process", "send"]

_REAPER = str(Path(__file__).resolve().with_name("reaper.py"))

# How long something killed is waited for: a process that hangs in the kernel must not hang the runtime.
_REAP = 2.0

# Seconds after which it is looked whether the reaper of a program still does its work.
_LOOK = 0.5

MOST_ASKED = 1_000
"""Processes that are asked to end before they are ended."""


class _Ours:
    """What this process knows of itself: whether its children are ours, its supervisors, what is at work."""

    is_owned = False
    supervisors: set[int] = set()  # noqa: RUF012 — there is one such process
    at_work = 0


def claim_process() -> None:
    """Say that this process is ours alone, as on the command line: not for a program that embeds us.

    From then on its children are ended as ours, and no program of the same user may trace it or read its
    memory and environment.
    """
    _Ours.is_owned = True
    with suppress(OSError):
        keep_from_debuggers()


def _begin_work() -> None:
    """Become the subreaper of orphaned processes, where this process is ours, while anything is at work."""
    _Ours.at_work += 1
    if _Ours.is_owned and _Ours.at_work == 1:
        set_subreaper(True)


def _end_work() -> None:
    _Ours.at_work -= 1
    if _Ours.is_owned and not _Ours.at_work:
        set_subreaper(False)


# ------------------------------------------------------------------ supervisors


@dataclass(slots=True)
class Supervisor:
    """The process that programs descend from; `reapers` are those at work below it."""

    process: Process
    control: socket.socket
    reapers: set[int] = field(default_factory=set)

    @classmethod
    async def started(cls, on: Thread = trio.to_thread.run_sync) -> Supervisor:
        """Start one on a thread, whose confinement it and all that it starts then share.

        Raises:
            PermanentFailure: it could not be started.
        """
        with starting():
            ours, theirs = socket.socketpair()
        argv = [sys.executable, "-I", "-S", "-X", "utf8", _REAPER, str(theirs.fileno())]
        try:
            with starting():
                nowhere = os.open(os.devnull, os.O_RDWR)
            try:
                process = await start_process(Start(argv, "/", {}, nowhere, nowhere), on, (theirs.fileno(),))
            finally:
                os.close(nowhere)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        _Ours.supervisors.add(process.pid)
        return cls(process, ours)

    @property
    def is_alive(self) -> bool:
        """Whether it can still be given jobs."""
        return self.process.poll() is None

    def hand_over(self, job: bytes, descriptors: Sequence[int]) -> None:
        """Have it start a program.

        Raises:
            OSError: it is gone.
        """
        with _in_memory(job) as file:
            socket.send_fds(self.control, [b"j"], [file.fileno(), *descriptors])

    async def aclose(self) -> None:
        """Let it end, and wait for that."""
        self.control.close()
        with trio.move_on_after(_REAP, shield=True):
            await _exited(self.process)
        self.process.kill()
        self.process.poll()
        _Ours.supervisors.discard(self.process.pid)


def _in_memory(content: bytes) -> IO[bytes]:
    """Return a file without a name, to be read from its beginning."""
    is_linux = sys.platform == "linux"
    descriptor = os.memfd_create("job") if is_linux else os.dup(tempfile.TemporaryFile().fileno())  # noqa: SIM115
    file = os.fdopen(descriptor, "w+b")
    file.write(content)
    file.flush()
    file.seek(0)
    return file


async def _exited(process: Process) -> None:
    if process.poll() is not None:
        return
    if sys.platform != "linux":
        await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        # No descriptor is left for that; a thread can wait as well.
        await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------ programs


@dataclass(frozen=True, slots=True)
class SupervisedStart:
    """Starts programs under reapers. Without a `supervisor`, each has one of its own.

    With `groups`, each has a control group, too, by which the kernel holds it to its limits at once. A
    `listener` receives the system calls of the one program that is started.
    """

    supervisor: Supervisor | None = None
    limits: Limits = field(default_factory=Limits)
    groups: Groups | None = None
    listener: Listener | None = None

    async def __call__(self, start: Start) -> SupervisedProcess:
        """Start a program.

        Raises:
            PermanentFailure: it could not be started.
        """
        return await self.start(start, listener=self.listener)

    async def start(
        self,
        start: Start,
        given: Sequence[int] = (),
        overlay: Overlay | None = None,
        listener: Listener | None = None,
        network: OwnNetwork | None = None,
    ) -> SupervisedProcess:
        """Start a program, with further descriptors from number `FIRST_DESCRIPTOR` on.

        With an overlay it finds that at the folder's own path, with a network it has no other.

        A `listener` receives its system calls.

        Raises:
            PermanentFailure: it could not be started.
        """
        words = (*start.argv, start.cwd, *start.env, *start.env.values())
        if any("\0" in word for word in words):
            raise PermanentFailure("the program could not be started: embedded null byte")
        supervisor = self.supervisor or await Supervisor.started()
        try:
            group, pipes = self._group_and_pipes()
        except PermanentFailure:
            if self.supervisor is None:
                await supervisor.aclose()
            raise
        (parent_pipe, hold), (status, tell) = pipes
        stream = trio.lowlevel.FdStream(status)
        child = SupervisedProcess(
            supervisor, hold, stream, self.supervisor is None, limits=self.limits, group=group
        )
        if overlay is not None and overlay.place:
            child.disk = DiskUsage(overlay.place, overlay.size, overlay.inodes)
        _begin_work()
        try:
            entrance = () if group is None else (group.entrance,)
            channels = [one.channel for one in (overlay, network, listener) if one is not None]
            into = () if start.into is None else (start.into,)
            handed = (start.out, start.err, parent_pipe, tell, *into, *entrance, *channels, *given)
            asked = {"overlay": overlay, "network": network, "listener": listener}
            supervisor.hand_over(self._job(start, group, asked), handed)
        except OSError as error:
            await child.end()
            raise PermanentFailure(unstartable(error.errno or 0)) from error
        finally:
            os.close(parent_pipe)
            os.close(tell)
        with trio.CancelScope(shield=True):
            await child.begin()
        return child

    def _group_and_pipes(self) -> tuple[Group | None, list[tuple[int, int]]]:
        """Make what a program needs to be kept: the group comes last, for it is not removed at once."""
        pipes = two_pipes()
        try:
            with starting():
                return None if self.groups is None else self.groups.make(self.limits), pipes
        except PermanentFailure:
            for end in (end for pipe in pipes for end in pipe):
                os.close(end)
            raise

    def _job(
        self,
        start: Start,
        group: Group | None,
        asked: Mapping[str, Overlay | OwnNetwork | Listener | None],
    ) -> bytes:
        limits = [(which, soft, hard) for which, (soft, hard) in self.limits.items()]
        program = {"argv": list(start.argv), "cwd": start.cwd, "env": dict(start.env), "limits": limits}
        bounds = {"memory": self.limits.memory, "tasks": self.limits.tasks, "in_group": group is not None}
        bounds["has_input"] = start.into is not None
        special = {name: None if one is None else one.wanted() for name, one in asked.items()}
        return json.dumps({**program, **bounds, **special, "niceness": self.limits.niceness}).encode()


@dataclass(slots=True)
class SupervisedProcess:
    """A program under its reaper, which waits until `hold` is closed; `reports` is its output.

    `disk` is held against what it may write there.
    """

    supervisor: Supervisor
    hold: int
    status: trio.lowlevel.FdStream
    owns_supervisor: bool = False
    reports: bytes = b""
    pid: int = 0
    limits: Limits = field(default_factory=Limits)
    group: Group | None = None
    disk: DiskUsage | None = None
    _killed_for: Resource | None = None

    @property
    def exceeded(self) -> Exceeded | None:
        """The bound it was killed at, known for good once it was ended."""
        word = self._reported(b"limit")
        what = Resource(word.decode()) if word else self._killed_for
        if what is Resource.DISK and self.disk is not None:
            return Exceeded(what, self.disk.size)
        return None if what is None else Exceeded(what, self.limits.bound(what))

    def _reported(self, word: bytes) -> bytes:
        return reported_behind(word, self.reports)

    async def begin(self) -> None:
        """Wait until it is known who the reaper is; a supervisor that a program stopped goes on."""
        while True:
            with trio.move_on_after(_LOOK) as scope:
                await self._listen(b"reaper")
            if not scope.cancelled_caught:
                break
            if is_stopped(self.supervisor.process.pid):
                send([self.supervisor.process.pid], signal.SIGCONT)
        self.pid = int(self._reported(b"reaper") or 0)
        self.supervisor.reapers.add(self.pid)

    async def _listen(self, *words: bytes) -> None:
        """Take in the reaper's reports until one of these has come, or nothing more comes."""
        while not any(map(self._reported, words)):
            chunk = await self.status.receive_some()
            if not chunk:
                return
            self.reports += bytes(chunk)

    async def ended(self) -> int:
        """Wait for the program's end and return its code, negative for a signal.

        Raises:
            PermanentFailure: it could not be started.
        """
        await self._listen_watchfully(b"ended", b"failed")
        if not self.pid:
            raise PermanentFailure("the program could not be started: its supervisor has ended")
        if number := self._reported(b"failed"):
            raise PermanentFailure(unstartable(int(number)))
        return os.waitstatus_to_exitcode(int(self._reported(b"ended") or signal.SIGKILL))

    async def _listen_watchfully(self, *words: bytes) -> None:
        """Listen, and end a reaper that was stopped: what it keeps would be bounded by nobody.

        What fills a disk is ended, too.
        """
        while True:
            with trio.move_on_after(_LOOK) as scope:
                await self._listen(*words)
            if not scope.cancelled_caught:
                return
            if is_stopped(self.pid):
                send([self.pid], signal.SIGKILL)
            if self.disk is not None and await trio.to_thread.run_sync(self.disk.is_over):
                self._killed_for = Resource.DISK
                self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to everything below the reaper."""
        if self._is_kept:
            send(descendants(self.pid, MOST_ASKED), number)
            if sys.platform != "linux":
                # Nothing tells who is whose child there; the program leads their group.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(int(self._reported(b"program")), number)

    @property
    def _is_kept(self) -> bool:
        """Whether the reaper is there: only then is its number its own."""
        with suppress(BlockingIOError):
            while chunk := os.read(self.status.fileno(), 64):
                self.reports += chunk
            return False
        return self.pid > 0

    async def end(self) -> bool:
        """End everything below the reaper, and it; return whether nothing is left."""
        try:
            is_gone = await trio.to_thread.run_sync(self._end_all)
        except RuntimeError:
            # What is to be ended has left no room on the machine for a thread.
            is_gone = self._end_all()
        with trio.move_on_after(_REAP):
            await self._listen()
        if self.group is not None:
            self._killed_for = self._killed_for or self.group.exceeded()
            self.group.kill()
            await self.group.remove()
        await self.status.aclose()
        os.close(self.hold)
        self.supervisor.reapers.discard(self.pid)
        if self.owns_supervisor:
            await self.supervisor.aclose()
        _end_work()
        return is_gone

    def _end_all(self) -> bool:
        """End the tree, wherever its root has come to; this waits for it."""
        if self._is_kept:
            # The reaper goes on: if this process dies now, there is nobody else to end the rest.
            stop_group(self.pid, int(self._reported(b"program") or 0))
            is_gone = end_all(self.pid)
            self.signal(signal.SIGKILL)
            send([self.pid], signal.SIGKILL)
            return is_gone
        # Somebody killed the reaper, so that what it kept is the supervisor's now, or ours.
        if self.supervisor.is_alive:
            return end_all(self.supervisor.process.pid, self.supervisor.reapers - {self.pid})
        return not _Ours.is_owned or _end_strays()


def reported_behind(word: bytes, data: bytes) -> bytes:
    """Return what a reaper reported behind a word in whole lines, nothing where it has not yet."""
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return next((line.partition(b" ")[2] for line in lines if line.startswith(word + b" ")), b"")


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes, as far as they are there and ours."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _end_strays() -> bool:
    """End what came to this process because reaper and supervisor had been killed."""
    strays = [pid for pid in children(os.getpid()) if pid not in _Ours.supervisors]
    is_gone = end_all(os.getpid(), _Ours.supervisors)
    for pid in strays:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return is_gone
