"""Run a program on trial: it sees the workspace, but what it writes goes to the upper layer of an overlay.

The overlay (`process/overlay.py`) is mounted over the workspace, at the same path, in a namespace of the
program alone, which runs in bubblewrap. The real workspace is not changed, so nothing has to be undone. An
upper layer in memory has no name: only an open handle leads to it. When the handle is closed, or the process
that holds it dies, the kernel frees the layer and the changes are discarded.
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

# Linux stamps files with the time of its last tick: every 1 to 10 ms, by CONFIG_HZ. Where the clock of a file
# system does not move within ten times that, it cannot tell the files a short run changed from older ones.
_TICK_TIMEOUT = 0.1
_TICK_POLL = 0.0005


class TrialUnavailable(PolicyBlocked):
    """Programs cannot be run on trial here; the message says why."""


@dataclass(slots=True)
class Upper:
    """The upper layer that a trial run left; closing it discards the changes.

    `handle` is open on the upper layer's root folder, which no program uses any more. `lower` is the root of
    the real workspace, opened before the run. `began` is a time in nanoseconds, by the clock of the
    workspace's file system: a file with an earlier ctime was not changed since the run began.
    """

    handle: int
    began: int
    lower: DirHandle

    def close(self) -> None:
        """Discard what was written; a second call has no effect."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def bound_reached(self, bounds: UpperBounds) -> str:
        """Return a sentence about the bound that was reached, or "" if there is room left."""
        room = os.fstatvfs(self.handle)
        if bounds.folder:
            return "" if room.f_bavail else "the disk that it wrote to is full"
        if not room.f_bfree:
            size = f"{size_text(bounds.size)} in memory; [tools.shell] trial_bytes"
            return f"it wrote as much as a trial run can hold ({size})"
        if not room.f_ffree:
            return f"it made as many files and folders as a trial run can hold ({bounds.inodes})"
        return ""


@dataclass(frozen=True, slots=True)
class TrialReach:
    """What a trial run can reach: no folder of `closed`, and no network but what `serve` answers."""

    closed: Sequence[str] = ()
    serve: Serve | None = None


@dataclass(frozen=True, slots=True)
class TrialRan:
    """The result of a trial run: how the program ended, and the upper layer that holds its changes.

    If the changes were discarded, `upper` is None and `discarded` says why. `is_full` is set if they reached
    the bound of a run in memory; such a run may be repeated with its upper layer on a disk.
    """

    ran: Ran
    upper: Upper | None
    discarded: str = ""
    is_full: bool = False
    _trial: Trial | None = None

    def hold(self) -> Callable[[], None]:
        """Keep the changes when the run ends; return a function that discards them."""
        return (lambda: None) if self._trial is None else self._trial.hold()


@dataclass(slots=True)
class Trial:
    """One trial run, from its preparation until its changes are discarded; the program gets the `overlay`.

    `_clock` is open on a file without a name, which is touched to read the clock of the workspace's file
    system. `_prepared` is what it showed first, in nanoseconds.
    """

    overlay: Overlay
    bounds: UpperBounds
    _lower: DirHandle
    _clock: int
    _prepared: int
    _resources: ExitStack

    @classmethod
    def prepare(cls, workspace: str, bounds: UpperBounds) -> Trial:
        """Prepare a run. Blocks on the disk; the caller closes the result.

        Raises:
            TrialUnavailable: no trial run is possible in this workspace.
        """
        path = os.path.realpath(workspace)
        with ExitStack() as resources:
            try:
                lower = resources.enter_context(open_folder(path))
                root = os.fstat(lower.handle)
                _require_overlay_possible(path, root)
                clock = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=lower.handle)
                resources.callback(os.close, clock)
                upper_folder = ""
                if bounds.folder:
                    disk = DiskUpper.made(bounds.folder)
                    resources.callback(disk.close)
                    upper_folder = disk.path
                identity = (root.st_dev, root.st_ino)
                overlay = Overlay(path, identity, bounds.size, bounds.inodes, upper_folder)
                resources.callback(overlay.close)
            except OSError as error:
                raise TrialUnavailable(_reason(error)) from error
            return cls(overlay, bounds, lower, clock, os.fstat(clock).st_ctime_ns, resources.pop_all())

    def next_tick(self) -> int:
        """Return a time later than the ctime of every file that was changed before the run was prepared.

        Two changes within one tick have the same ctime, so this waits for the next tick. Since Linux 6.13
        some file systems have finer times for files whose time was read, and the wait ends at once.

        Raises:
            TrialUnavailable: the clock of the workspace's file system is too coarse.
        """
        deadline = time.monotonic() + _TICK_TIMEOUT
        while True:
            # Any change of the inode sets its ctime; this one changes nothing else.
            os.fchmod(self._clock, 0o600)
            now = os.fstat(self._clock).st_ctime_ns
            if now > self._prepared:
                return now
            if time.monotonic() > deadline:
                raise TrialUnavailable("the workspace's file system records the times of files too coarsely")
            time.sleep(_TICK_POLL)

    async def run(self, start: Callable[[], Awaitable[Ran]]) -> TrialRan:
        """Run the program to its end; return its result with the upper layer that it wrote.

        Raises:
            TrialUnavailable: the overlay could not be mounted.
            PermanentFailure: the program could not be started.
        """
        began = await trio.to_thread.run_sync(self.next_tick)
        try:
            ran = await start()
        except PermanentFailure as error:
            # The reaper sends either the handle or the reason why there is none; receiving sets `problem`.
            self._receive_upper(began)
            if self.overlay.problem:
                raise TrialUnavailable(self.overlay.problem) from error
            raise
        upper = self._receive_upper(began)
        if upper is None:
            raise TrialUnavailable(self.overlay.problem or "no handle on what the command wrote arrived")
        interruption, bound = _interruption(ran.finished), upper.bound_reached(self.bounds)
        if reason := interruption or bound:
            upper.close()
        is_full = bool(bound) and not interruption and not self.bounds.folder
        return TrialRan(ran, None if reason else upper, reason, is_full, self)

    def _receive_upper(self, began: int) -> Upper | None:
        handle = self.overlay.receive()
        if handle is None:
            return None
        upper = Upper(handle, began, self._lower)
        self._resources.callback(upper.close)
        return upper

    def hold(self) -> Callable[[], None]:
        """Keep the changes when the run is closed; return a function that discards them."""
        return self._resources.pop_all().close

    def close(self) -> None:
        """Discard the changes, and release everything that was opened for the run."""
        self._resources.close()


@asynccontextmanager
async def open_trial(workspace: str, bounds: UpperBounds) -> AsyncIterator[Trial]:
    """Prepare a trial run and yield it; its changes are discarded when the block ends.

    Raises:
        TrialUnavailable: no trial run is possible in this workspace.
    """
    trial = await trio.to_thread.run_sync(Trial.prepare, workspace, bounds)
    try:
        yield trial
    finally:
        trial.close()


def _interruption(finished: ProcessExit) -> str:
    """Return what stopped a program before its own end, which makes its changes incomplete, or ""."""
    if finished.timed_out:
        return "it was stopped at its deadline"
    if finished.exceeded is not None:
        return str(finished.exceeded)
    return "something it started could not be ended" if finished.left else ""


# ------------------------------------------------------------------ where no overlay is possible


def _require_overlay_possible(path: str, root: os.stat_result) -> None:
    """Refuse a workspace that looks different through an overlay.

    Raises:
        TrialUnavailable: the workspace is such a one; the message says why.
    """
    # The user namespace of the program maps one user and one group; files of others appear as `nobody`'s.
    if (root.st_uid, root.st_gid) != (os.geteuid(), os.getegid()):
        raise TrialUnavailable(
            f"the workspace belongs to another user or group ({root.st_uid}, {root.st_gid})"
        )
    for device, _, point, kind in mounts("/proc/self/mountinfo"):
        if point != path and is_inside(point, path):
            raise TrialUnavailable(f"another file system is mounted in the workspace, at {point}")
        if device == root.st_dev and kind.startswith("fuse"):
            # A FUSE file system is a program: it may return other content each time the kernel asks.
            raise TrialUnavailable(
                f"the workspace's file system ({kind}) is a program, not part of the kernel"
            )


def _reason(error: OSError) -> str:
    # A file system without O_TMPFILE: it refuses the flag, or ignores it and opens the folder for writing.
    if error.errno in {errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT}:
        return "the workspace's file system has no unnamed files (O_TMPFILE), with which its clock is read"
    return f"the workspace could not be opened: {os.strerror(error.errno or 0)}"
