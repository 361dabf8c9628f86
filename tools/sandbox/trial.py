"""Run a program on the workspace without changing it: what it writes goes to an upper of its own.

Over the workspace, at its own path, lies an overlay (`process/overlay.py`), and the program runs there in
bubblewrap. The upper is held by a handle alone, in memory: whoever closes the handle, or dies with it, has
discarded what was written. Nothing of a trial touches the real workspace, so nothing has to be undone.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field

import trio

from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.paths import is_inside

from ..files import DirHandle, open_folder
from ..process import Overlay, ProcessExit, mounts, size_text
from .result import Ran

__all__ = ["Trial", "TrialRan", "TrialUnavailable", "Upper", "UpperBounds", "open_trial"]

_SMALLEST = 256 << 20

# The clock of a file system goes on in ticks of 10 ms at most; a coarser one tells nothing of a short run.
_LONGEST_TICK = 0.1
_PAUSE = 0.0005


class TrialUnavailable(PolicyBlocked):
    """Programs cannot be run on trial here; the message says why."""


def _quarter_of_memory() -> int:
    try:
        return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4, _SMALLEST)
    except (OSError, ValueError):
        return _SMALLEST


@dataclass(frozen=True, slots=True)
class UpperBounds:
    """How much a trial run may write: bytes, and files and folders."""

    size: int = field(default_factory=_quarter_of_memory)
    inodes: int = 500_000


@dataclass(slots=True)
class Upper:
    """What a trial run wrote, held by a handle alone; closing it discards that.

    `handle` is that of the overlay's upper folder, in which nothing runs any more. `began` is a time on the
    clock of the workspace's own file system, in nanoseconds: whatever was changed before the run began has
    an earlier one. `lower` is the workspace's root, opened before.
    """

    handle: int
    began: int
    lower: DirHandle

    def close(self) -> None:
        """Discard what was written; once is enough."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def full(self, bounds: UpperBounds) -> str:
        """Say which of its bounds it is at, nothing where there is room left."""
        left = os.fstatvfs(self.handle)
        if not left.f_bfree:
            return f"it wrote as much as a trial run can hold ({size_text(bounds.size)} in memory)"
        if not left.f_ffree:
            return f"it made as many files and folders as a trial run can hold ({bounds.inodes})"
        return ""


@dataclass(frozen=True, slots=True)
class TrialRan:
    """A program that ran on trial. Without an `upper`, its changes were `discarded` for that reason."""

    ran: Ran
    upper: Upper | None
    discarded: str = ""
    _trial: Trial | None = None

    def hold(self) -> Callable[[], None]:
        """Keep what it wrote beyond the end of its run, and return what discards it."""
        return (lambda: None) if self._trial is None else self._trial.hold()


@dataclass(slots=True)
class Trial:
    """One run, from before its start to when what it wrote is discarded. `overlay` is what it is given."""

    overlay: Overlay
    bounds: UpperBounds
    _lower: DirHandle
    _clock: int
    _opened: int
    _held: ExitStack

    @classmethod
    def opened(cls, workspace: str, bounds: UpperBounds) -> Trial:
        """Prepare a run; this waits for the disk, and the caller closes what it gets.

        Raises:
            TrialUnavailable: it cannot be had for this workspace.
        """
        path = os.path.realpath(workspace)
        with ExitStack() as held:
            try:
                lower = held.enter_context(open_folder(path))
                root = os.fstat(lower.handle)
                _refuse(path, root)
                clock = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=lower.handle)
                held.callback(os.close, clock)
                overlay = Overlay(path, (root.st_dev, root.st_ino), bounds.size, bounds.inodes)
                held.callback(overlay.close)
            except OSError as error:
                raise TrialUnavailable(_unopened(error)) from error
            return cls(overlay, bounds, lower, clock, os.fstat(clock).st_ctime_ns, held.pop_all())

    def began(self) -> int:
        """Return a time later than that of anything that was changed before this run was opened.

        A time is good to a tick only, so the next one is waited for. Where a file system keeps a finer time
        for what was looked at since (Linux 6.13), there is nothing to wait for.

        Raises:
            TrialUnavailable: the clock of the workspace's file system does not go on.
        """
        last = time.monotonic() + _LONGEST_TICK
        while True:
            os.fchmod(self._clock, 0o600)
            now = os.fstat(self._clock).st_ctime_ns
            if now > self._opened:
                return now
            if time.monotonic() > last:
                raise TrialUnavailable("the times of files are too coarse on the workspace's file system")
            time.sleep(_PAUSE)

    async def followed(self, run: Callable[[], Awaitable[Ran]]) -> TrialRan:
        """Run the program to its end, and return it with what it wrote.

        Raises:
            TrialUnavailable: there was no overlay to run it on.
            PermanentFailure: it could not be started.
        """
        began = await trio.to_thread.run_sync(self.began)
        try:
            ran = await run()
        except PermanentFailure as error:
            self._received(began)
            if self.overlay.problem:
                raise TrialUnavailable(self.overlay.problem) from error
            raise
        upper = self._received(began)
        if upper is None:
            raise TrialUnavailable(self.overlay.problem or "nothing told what the command wrote")
        reason = _cut_short(ran.finished) or upper.full(self.bounds)
        if reason:
            upper.close()
        return TrialRan(ran, None if reason else upper, reason, self)

    def _received(self, began: int) -> Upper | None:
        handle = self.overlay.receive()
        if handle is None:
            return None
        upper = Upper(handle, began, self._lower)
        self._held.callback(upper.close)
        return upper

    def hold(self) -> Callable[[], None]:
        """Let nothing be discarded at the end of the run, and return what does so."""
        return self._held.pop_all().close

    def close(self) -> None:
        """Discard what was written, and all that was opened."""
        self._held.close()


@asynccontextmanager
async def open_trial(workspace: str, bounds: UpperBounds) -> AsyncIterator[Trial]:
    """Yield a run to be made on a workspace; what it wrote is discarded afterwards.

    Raises:
        TrialUnavailable: it cannot be had for this workspace.
    """
    trial = await trio.to_thread.run_sync(Trial.opened, workspace, bounds)
    try:
        yield trial
    finally:
        trial.close()


def _cut_short(finished: ProcessExit) -> str:
    """Say what ended a program but itself, which makes what it wrote a part of what it would have."""
    if finished.timed_out:
        return "it was stopped at its deadline"
    if finished.exceeded is not None:
        return str(finished.exceeded)
    return "something it started could not be ended" if finished.left else ""


# ------------------------------------------------------------------ what cannot be laid over


def _refuse(path: str, root: os.stat_result) -> None:
    """Raise for a workspace over which no overlay would show what a program finds there.

    Raises:
        TrialUnavailable: there is a reason.
    """
    if (root.st_uid, root.st_gid) != (os.geteuid(), os.getegid()):
        raise TrialUnavailable(
            f"the workspace belongs to another user or group ({root.st_uid}, {root.st_gid})"
        )
    for device, _, point, kind in mounts("/proc/self/mountinfo"):
        if point != path and is_inside(point, path):
            raise TrialUnavailable(f"another file system is mounted in the workspace, at {point}")
        if device == root.st_dev and kind.startswith("fuse"):
            # A program answers for what lies there, and may answer differently each time the kernel asks.
            raise TrialUnavailable(f"the workspace's file system ({kind}) is not kept by the kernel")


def _unopened(error: OSError) -> str:
    if error.errno in {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT}:
        return "the workspace's file system keeps no files without a name, by which its clock is read"
    return f"the workspace could not be opened: {os.strerror(error.errno or 0)}"
