"""Give each command a control group of its own (cgroup v2), in which the kernel enforces its limits.

That needs a group that is ours to divide: one with the controllers `memory` and `pids` handed on, in which
groups can be made. Whether there is one is found out by making one. Without, the reaper's own count is what
bounds a command (`reaper.py`); that comes later than the kernel, and does not see the kernel's own memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from itertools import count
from pathlib import Path

import trio

from leeward.security.lazy import dataclass

from .environment import Limits, Resource
from .reaper import mounts

__all__ = ["Group", "Groups", "find_groups"]

_NEEDED = frozenset(("memory", "pids"))
_PREFIX = "leeward-"

# The reaper kills at the number of tasks and says why; the kernel only refuses to start more, so it is there
# for what outruns the reaper.
_TASKS_OF_KERNEL = 2

# Next to others that want the processor, a command gets half of what they get.
_CPU_WEIGHT = "50"
# A group can be removed only when the kernel has taken the last killed process out of it, a little later.
_TRIES, _PAUSE = 100, 0.005


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of one command; a process that writes "0" to the descriptor `entrance` joins it."""

    folder: Path
    entrance: int

    def exceeded(self) -> Resource | None:
        """Return what the kernel has killed it for, None if it has not."""
        with suppress(OSError, ValueError):
            for line in (self.folder / "memory.events").read_text("ascii").splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill" and int(number):
                    return Resource.MEMORY
        return None

    def kill(self) -> None:
        """Kill whatever is in it, at once."""
        with suppress(OSError):
            _write(self.folder, "cgroup.kill", "1")

    async def remove(self) -> None:
        """Remove it once the last process in it has gone; one that stays is removed at a later start."""
        os.close(self.entrance)
        for _ in range(_TRIES):
            with suppress(OSError):
                self.folder.rmdir()
            if not self.folder.exists():
                return
            await trio.sleep(_PAUSE)


@dataclass(frozen=True, slots=True)
class Groups:
    """Makes the groups of commands in a folder of the control groups' file system."""

    folder: Path
    _numbers: Iterator[int] = field(default_factory=count)

    def make(self, limits: Limits) -> Group:
        """Make one that holds what joins it to the limits.

        Raises:
            OSError: the system refuses.
        """
        folder = self.folder / f"{_PREFIX}{os.getpid()}-{next(self._numbers)}"
        folder.mkdir()
        try:
            _write(folder, "memory.max", str(limits.memory))
            _write(folder, "pids.max", str(limits.tasks * _TASKS_OF_KERNEL))
            # Killed one by one, the rest of a command would go on as if nothing were.
            _write(folder, "memory.oom.group", "1")
            with suppress(FileNotFoundError):
                # A kernel without swap has no such file.
                _write(folder, "memory.swap.max", "0")
            with suppress(OSError):
                _write(folder, "cpu.weight", _CPU_WEIGHT)
            return Group(folder, os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
        except BaseException:
            folder.rmdir()
            raise

    def sweep(self) -> None:
        """Remove the empty groups of runtimes that are gone."""
        for folder in self.folder.glob(f"{_PREFIX}*-*"):
            owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if not Path("/proc", owner).exists():
                with suppress(OSError):
                    folder.rmdir()


def find_groups(proc: Path = Path("/proc/self")) -> Groups | str:
    """Return where groups can be made, or why they cannot. `proc` is what the kernel tells of this process.

    Groups are made in the one this process is in, or beside it: a group that holds processes cannot hand
    controllers on, so a terminal of a desktop has those of its commands beside its own.
    """
    own = _own_folder(proc)
    if own is None:
        return "no cgroup v2 is mounted"
    reasons = []
    for folder in (own, own.parent):
        try:
            _try(folder)
        except (OSError, ValueError) as error:
            reasons.append(f"{folder}: {error}")
            continue
        groups = Groups(folder)
        groups.sweep()
        return groups
    return "; ".join(reasons)


def _own_folder(proc: Path) -> Path | None:
    """Return the folder of the control group this process is in, None where there is no cgroup v2."""
    try:
        groups = (proc / "cgroup").read_text("utf-8").splitlines()
        mounted = list(mounts(str(proc / "mountinfo")))
    except (OSError, UnicodeDecodeError):
        return None
    paths = [line.removeprefix("0::") for line in groups if line.startswith("0::/")]
    for _, folder, place, kind in mounted:
        if kind == "cgroup2" and paths:
            # If only a part of the tree is mounted, paths are still given from the root of the whole tree.
            inside = os.path.relpath(paths[0], folder)
            return None if inside.startswith("..") else Path(place, inside)
    return None


def _try(folder: Path) -> None:
    """Make a group and remove it.

    Raises:
        OSError: the system refuses.
        ValueError: the controllers cannot be had there.
    """
    if missing := _NEEDED - _words(folder, "cgroup.controllers"):
        raise ValueError(f"the controllers {', '.join(sorted(missing))} are not handed on to it")
    if _NEEDED - _words(folder, "cgroup.subtree_control"):
        _write(folder, "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(_NEEDED)))
    group = Groups(folder).make(Limits())
    os.close(group.entrance)
    group.folder.rmdir()


def _words(folder: Path, name: str) -> frozenset[str]:
    return frozenset((folder / name).read_text("ascii").split())


def _write(folder: Path, name: str, value: str) -> None:
    """Write to a file that is there; the kernel makes these, and none is made by writing."""
    handle = os.open(folder / name, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, value.encode("ascii"))
    finally:
        os.close(handle)
