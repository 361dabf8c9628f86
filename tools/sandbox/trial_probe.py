"""Test by a real run whether trial runs work on a workspace's file system.

A kernel may mount an overlay and still lose what a program does in it. Without user xattrs in tmpfs, for
example, a folder that was deleted and made again shows its old contents. So a program appends, deletes and
replaces files in a folder of ours, and the changes are read in the way in which those of a trial run are
read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import field
from functools import partial
from itertools import islice
from pathlib import Path

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.paths import is_inside

from ..process import SEARCH_PATH, mounts
from .trial import TrialRan, TrialUnavailable, UpperBounds, open_trial

__all__ = ["KnownTrials", "Try", "probe_grounds", "probe_trial"]

Try = Callable[[str, str], AbstractAsyncContextManager[TrialRan]]
"""Runs a line of sh on trial, with a folder as the workspace."""

_SCRIPT = "set -e; echo more >>kept; rm gone; rm -r tree; mkdir tree; echo new >tree/new"
_OLD, _BOTH = b"old\n", b"old\nmore\n"
_MOST_LOOKED_AT = 20_000
_SETTINGS = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)


@dataclass(slots=True)
class KnownTrials:
    """What is known of whether programs can be run on trial: found once, or remembered from before.

    `problem` says why nothing can be, as far as that was looked into, and is empty where it can.
    """

    problem: str = ""
    _is_known: bool = False
    _forget: Callable[[], None] = lambda: None
    _probing: trio.Lock = field(default_factory=trio.Lock)

    async def problem_by(self, probe: Callable[[], Awaitable[str]]) -> str:
        """Return why nothing can be run on trial, nothing where it can; `probe` is asked once."""
        async with self._probing:
            if not self._is_known:
                self.problem, self._is_known = await probe(), True
            return self.problem

    def assume(self, forget: Callable[[], None]) -> None:
        """Assume that programs can run on trial, as was found before; `forget` is called if not."""
        self._is_known, self._forget = True, forget

    def forget(self) -> None:
        """Tell that a program could not be run on trial."""
        self._forget()


async def probe_trial(workspace: str, tried: Try) -> str:
    """Return why no program can be run on trial on a workspace, nothing where one can."""
    folder = ""
    try:
        async with open_trial(workspace, UpperBounds()):
            await trio.to_thread.run_sync(_refuse_foreign, workspace)
        folder = await trio.to_thread.run_sync(_made, workspace)
        async with tried(folder, _SCRIPT) as ran:
            return await trio.to_thread.run_sync(_problem, folder, ran)
    except (PermanentFailure, PolicyBlocked, OSError) as error:
        return str(error)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


def probe_grounds(workspace: str, level: str) -> str:
    """Return what the outcome of a probe rests on, as a digest (hex): where it is another, probe again.

    That is the kernel and its settings, the user, bubblewrap, the level that is asked for, and the file
    system, owner and mounts of the workspace.
    """
    path = os.path.realpath(workspace)
    found: list[object] = [os.uname(), os.geteuid(), os.getegid(), os.getgroups(), level, path]
    for name in _SETTINGS:
        with suppress(OSError):
            found += [name, Path(name).read_bytes()]
    program = shutil.which("bwrap", path=SEARCH_PATH) or ""
    for name in ("/proc/self/ns/user", path, program):
        with suppress(OSError):
            status = os.stat(name)  # noqa: PTH116 — a text
            found += [name, status.st_dev, status.st_ino, status.st_uid, status.st_gid]
            # The times of a namespace are those at which it was looked at.
            found += [status.st_size, status.st_mtime_ns] if name == program else []
    with suppress(OSError):  # other systems have no such list, and no trials either
        found += [mount for mount in mounts("/proc/self/mountinfo") if is_inside(mount[2], path)]
    return hashlib.sha256(repr(found).encode("utf-8", "surrogatepass")).hexdigest()


def _made(workspace: str) -> str:
    """Make a folder on the workspace's file system: beside other temporary ones, if they lie on it."""
    beside = tempfile.gettempdir()
    parent = beside if Path(beside).stat().st_dev == Path(workspace).stat().st_dev else workspace
    folder = os.path.realpath(tempfile.mkdtemp(prefix=".leeward-probe-", dir=parent))
    try:
        Path(folder, "tree").mkdir()
        for name in ("kept", "gone", "tree/old"):
            Path(folder, name).write_bytes(_OLD)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _problem(folder: str, ran: TrialRan) -> str:
    """Say what is wrong with what the program did, or with what can be read of it."""
    finished, upper = ran.ran.finished, ran.upper
    if upper is None:
        return f"the smallest of trial runs was discarded: {ran.discarded}"
    if finished.exit_code != 0:
        return finished.stderr.strip() or "the smallest of trial runs failed"
    if any(Path(folder, name).read_bytes() != _OLD for name in ("kept", "gone", "tree/old")):
        return "a trial run changed what it was to leave alone"
    is_read = (
        _contents(upper.handle, "kept") == _BOTH
        and _is_whiteout(upper.handle, "gone")
        and _is_opaque(upper.handle, "tree")
        and _contents(upper.handle, "tree/new") == b"new\n"
    )
    return "" if is_read else "what a trial run changed cannot be read: the kernel may be older than 6.6"


def _contents(handle: int, name: str) -> bytes:
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle), "rb") as file:
        return file.read()


def _is_whiteout(handle: int, name: str) -> bool:
    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _is_opaque(handle: int, name: str) -> bool:
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
    try:
        return os.getxattr(folder, "user.overlay.opaque") == b"y"
    finally:
        os.close(folder)


def _refuse_foreign(workspace: str) -> None:
    """Raise where something in the workspace could be changed for real, but not in an overlay (EOVERFLOW).

    Raises:
        TrialUnavailable: it belongs to another user or group, whom the namespace of a trial run lacks.
    """
    user, group = os.geteuid(), os.getegid()
    groups = {group, *os.getgroups()}
    for path in islice(_below(workspace), _MOST_LOOKED_AT):
        with suppress(OSError):
            found = os.lstat(path)
            if (found.st_uid, found.st_gid) != (user, group) and _may_write(found, user, groups):
                name = os.path.relpath(path, workspace)
                owner = f"another user or group ({found.st_uid}, {found.st_gid})"
                raise TrialUnavailable(f"{name} belongs to {owner}: a trial run could not change it")


def _may_write(found: os.stat_result, user: int, groups: set[int]) -> bool:
    """Whether a program without capabilities may change a file or a folder, by its mode."""
    if stat.S_ISLNK(found.st_mode):
        return False
    shift = 6 if found.st_uid == user else 3 if found.st_gid in groups else 0
    return bool(found.st_mode >> shift & 0o2)


def _below(folder: str) -> Iterator[str]:
    """Yield what lies in a folder and below, what is less deep first."""
    waiting = [folder]
    for one in waiting:
        with suppress(OSError), os.scandir(one) as entries:
            for entry in entries:
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
