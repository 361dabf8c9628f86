"""Run a program on the workspace without changing it: its writes go to the upper layer of an overlay.

Over the workspace, at its own path, lies an overlay (`process/overlay.py`), and the program runs there in
bubblewrap. The upper is held by a handle alone, in memory: closing the handle, or dying with it, discards
what was written. Nothing of a trial touches the real workspace, so nothing has to be undone.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.paths import is_inside

from ..files import DirHandle, open_folder
from ..process import DiskUpper, Overlay, ProcessExit, Serve, UpperBounds, mounts, size_text

if TYPE_CHECKING:
    from .result import Ran

__all__ = ["Trial", "TrialRan", "TrialReach", "TrialUnavailable", "Upper", "UpperBounds", "open_trial"]

# File systems count time in ticks of 10 ms at most; coarser ones could not date changes of a short run.
_LONGEST_TICK = 0.1
_PAUSE = 0.0005


class TrialUnavailable(PolicyBlocked):
    """Programs cannot be run on trial here; the message says why."""


@dataclass(slots=True)
class Upper:
    """What a trial run wrote, held by a handle alone; closing the handle discards it.

    `handle` is open on the overlay's upper folder; no program uses it any more. `began` is a time on the
    clock of the workspace's own file system, in nanoseconds: everything changed before the run is earlier.
    `lower` is the workspace's root, opened before the run.
    """

    handle: int
    began: int
    lower: DirHandle

    def close(self) -> None:
        """Discard what was written; a second call has no effect."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def full(self, bounds: UpperBounds) -> str:
        """Return which bound it has reached, or "" if there is room left."""
        left = os.fstatvfs(self.handle)
        if bounds.folder:
            return "" if left.f_bavail else "the disk that it wrote to is full"
        if not left.f_bfree:
            most = f"{size_text(bounds.size)} in memory; [tools.shell] trial_bytes"
            return f"it wrote as much as a trial run can hold ({most})"
        if not left.f_ffree:
            return f"it made as many files and folders as a trial run can hold ({bounds.inodes})"
        return ""


@dataclass(frozen=True, slots=True)
class TrialReach:
    """What a trial run reaches: nothing below `closed` folders, and by network what `serve` serves."""

    closed: Sequence[str] = ()
    serve: Serve | None = None


@dataclass(frozen=True, slots=True)
class TrialRan:
    """A program that ran on trial. Without an `upper`, its changes were `discarded` for that reason.

    `is_full`: it reached the bound of a run in memory.
    """

    ran: Ran
    upper: Upper | None
    discarded: str = ""
    is_full: bool = False
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
        """Prepare a run. Blocks on the disk; the caller closes the result.

        Raises:
            TrialUnavailable: this workspace cannot have one.
        """
        path = os.path.realpath(workspace)
        with ExitStack() as held:
            try:
                lower = held.enter_context(open_folder(path))
                root = os.fstat(lower.handle)
                _refuse(path, root)
                clock = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=lower.handle)
                held.callback(os.close, clock)
                place = ""
                if bounds.folder:
                    disk = DiskUpper.made(bounds.folder)
                    held.callback(disk.close)
                    place = disk.path
                overlay = Overlay(path, (root.st_dev, root.st_ino), bounds.size, bounds.inodes, place)
                held.callback(overlay.close)
            except OSError as error:
                raise TrialUnavailable(_unopened(error)) from error
            return cls(overlay, bounds, lower, clock, os.fstat(clock).st_ctime_ns, held.pop_all())

    def began(self) -> int:
        """Return a time later than that of anything that was changed before this run was opened.

        Times of files are exact to one tick of the clock, so this waits for the next tick. Since Linux 6.13
        some file systems give a finer time to files whose time was read; then there is nothing to wait for.

        Raises:
            TrialUnavailable: the clock of the workspace's file system is too coarse.
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
        """Run the program to its end, and return its result with the upper it wrote.

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
            raise TrialUnavailable(self.overlay.problem or "no handle on what the command wrote arrived")
        cut_short, full = _cut_short(ran.finished), upper.full(self.bounds)
        if reason := cut_short or full:
            upper.close()
        is_full = bool(full) and not cut_short and not self.bounds.folder
        return TrialRan(ran, None if reason else upper, reason, is_full, self)

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
        TrialUnavailable: this workspace cannot have one.
    """
    trial = await trio.to_thread.run_sync(Trial.opened, workspace, bounds)
    try:
        yield trial
    finally:
        trial.close()


def _cut_short(finished: ProcessExit) -> str:
    """Return what stopped a program from outside, or ""; if something did, its changes are incomplete."""
    if finished.timed_out:
        return "it was stopped at its deadline"
    if finished.exceeded is not None:
        return str(finished.exceeded)
    return "something it started could not be ended" if finished.left else ""


# ------------------------------------------------------------------ what cannot be laid over


def _refuse(path: str, root: os.stat_result) -> None:
    """Refuse a workspace whose content an overlay would not show unchanged.

    Raises:
        TrialUnavailable: with the reason.
    """
    if (root.st_uid, root.st_gid) != (os.geteuid(), os.getegid()):
        raise TrialUnavailable(
            f"the workspace belongs to another user or group ({root.st_uid}, {root.st_gid})"
        )
    for device, _, point, kind in mounts("/proc/self/mountinfo"):
        if point != path and is_inside(point, path):
            raise TrialUnavailable(f"another file system is mounted in the workspace, at {point}")
        if device == root.st_dev and kind.startswith("fuse"):
            # With FUSE a program answers for the files, and may answer differently each time the kernel asks.
            raise TrialUnavailable(f"the workspace's file system ({kind}) is not kept by the kernel")


def _unopened(error: OSError) -> str:
    if error.errno in {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT}:
        return "the workspace's file system keeps no files without a name, by which its clock is read"
    return f"the workspace could not be opened: {os.strerror(error.errno or 0)}"
