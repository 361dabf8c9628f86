"""The environment and the limits of every program we start.

The environment is made here, never the parent's, which holds its secrets: of the parent only language, time
zone, user, the width of the terminal and who commits are taken over. Where programs lie is found by
`programs.py`. Nothing in it waits for a terminal.
"""

from __future__ import annotations

import math
import os
import re
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType

from leeward.security.lazy import dataclass, regex

from .programs import SEARCH_PATH

__all__ = ["Exceeded", "Limits", "Resource", "UpperBounds", "environment", "quiet_environment", "size_text"]


_FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "EDITOR": "false",
    "GIT_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "CI": "1",
    "NO_COLOR": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
    "PIP_NO_INPUT": "1",
}
# The committer comes from variables where settings do not name one; all of it is part of every commit.
_INHERITED = regex(r"LANG|LANGUAGE|LC_[A-Z]+|TZ|USER|LOGNAME|EMAIL|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL)")
_PLAIN = regex(r"[^\x00-\x1f\x7f-\x9f]{1,512}")
_WIDEST = 1000


def environment(home: str, parent: Mapping[str, str]) -> dict[str, str]:
    """Return what programs get: fixed values, and only what tells nothing secret of `parent`."""
    inherited = {
        name: value
        for name, value in parent.items()
        if _INHERITED.fullmatch(name) and _PLAIN.fullmatch(value)
    }
    return {
        "LANG": "C.UTF-8", **inherited, **_width(parent), **_FIXED, "PATH": SEARCH_PATH, "HOME": home,
    }  # fmt: skip


def _width(parent: Mapping[str, str]) -> dict[str, str]:
    """Return how wide the person's terminal is, where there is one and it says so."""
    columns = parent.get("COLUMNS", "")
    width = int(columns) if re.fullmatch("[0-9]{1,4}", columns) else _of_terminal()
    return {"COLUMNS": str(width)} if 0 < width <= _WIDEST else {}


def _of_terminal() -> int:
    for descriptor in (2, 1, 0):
        with suppress(OSError):
            return os.get_terminal_size(descriptor).columns
    return 0


# What programs leave in a workspace beside what they were run for goes where it ends with them.
_QUIET = MappingProxyType(
    {
        "GIT_OPTIONAL_LOCKS": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
)
_CACHES = {f"{name.upper()}_CACHE_DIR": name for name in ("ruff", "mypy", "black")}
_TEMPORARY = "/tmp"  # noqa: S108 — a private one is mounted there


def quiet_environment(env: Mapping[str, str], temporary: str = _TEMPORARY) -> dict[str, str]:
    """Return an environment in which programs that only read leave nothing in the workspace."""
    caches = {variable: f"{temporary}/.cache/{name}" for variable, name in _CACHES.items()}
    options = f"{env.get('PYTEST_ADDOPTS', '')} -p no:cacheprovider".strip()
    return {**env, **_QUIET, **caches, "PYTEST_ADDOPTS": options}


# Soft and hard. No core files, which would hold what a program had in memory; the rest is far above what
# builds and tests need, and far below what would take the machine down.
_VALUES = MappingProxyType(
    {
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (4096, 16_384),
        "RLIMIT_FSIZE": (16 << 30, 16 << 30),
        "RLIMIT_NPROC": (8192, 8192),
    }
)


_MOST_MEMORY = 4 << 30
_LEAST_TASKS, _TASKS_PER_PROCESSOR, _MOST_TASKS = 1024, 128, 8192


class Resource(StrEnum):
    """What a command as a whole may use up."""

    MEMORY = "memory"
    PROCESSES = "processes"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A bound a command was killed at: `bound` bytes of memory or disk, or so many processes and threads."""

    resource: Resource
    bound: int

    def __str__(self) -> str:
        if self.resource is Resource.DISK:
            return f"killed: it wrote more than a run on disk can hold ({size_text(self.bound)})"
        if self.resource is Resource.MEMORY:
            text = f"the command used more than {size_text(self.bound)} of memory"
            limit = "[tools.shell] memory; it counts all its processes and its files in memory, such as /tmp"
            advice = "do the work in smaller parts or with fewer processes at once"
        else:
            text = f"the command ran more than {self.bound} processes and threads at once"
            limit = "[tools.shell] processes"
            advice = "run fewer of them at once"
        return f"killed: {text} ({limit}); {advice}"


def size_text(count: int) -> str:
    """Say a number of bytes in the largest unit that it fills."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} bytes"


def _default_memory() -> int:
    """Return half of the machine's memory, at most 4 GiB."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _MOST_MEMORY
    return min(whole // 2, _MOST_MEMORY) if whole > 0 else _MOST_MEMORY


def _default_tasks() -> int:
    """Return enough for a build that uses every processor, and few enough to be counted in time."""
    return min(_LEAST_TASKS + _TASKS_PER_PROCESSOR * (os.cpu_count() or 1), _MOST_TASKS)


@dataclass(frozen=True, slots=True)
class Limits:
    """What every command is held to.

    `values` are soft and hard limits of each process, by their names in `resource`. `memory` is how many
    bytes, `tasks` how many processes and threads all of them may have together.
    """

    niceness: int = 5
    values: Mapping[str, tuple[int, int]] = field(default_factory=lambda: _VALUES)
    memory: int = field(default_factory=_default_memory)
    tasks: int = field(default_factory=_default_tasks)

    @classmethod
    def of(cls, memory: int = 0, tasks: int = 0) -> Limits:
        """Return the limits with so many bytes of memory, processes and threads, 0 for the default."""
        return cls(memory=memory or _default_memory(), tasks=tasks or _default_tasks())

    def bound(self, resource: Resource) -> int:
        """Return how much there may be of something."""
        return self.memory if resource is Resource.MEMORY else self.tasks

    def items(self) -> list[tuple[int, tuple[int, int]]]:
        """Return the limits this system knows, none above what this process has itself."""
        known = ((getattr(resource, name, None), both) for name, both in self.values.items())
        return [(which, _within(which, both)) for which, both in known if which is not None]


_LEAST_UPPER = 256 << 20


def _quarter_of_memory() -> int:
    try:
        return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4, _LEAST_UPPER)
    except (OSError, ValueError):
        return _LEAST_UPPER


@dataclass(frozen=True, slots=True)
class UpperBounds:
    """How much a trial run may write: bytes, and files and folders.

    With a `folder` what it writes lies there, on a disk, else in memory.
    """

    size: int = field(default_factory=_quarter_of_memory)
    inodes: int = 500_000
    folder: str = ""

    @classmethod
    def of(cls, size: int) -> UpperBounds:
        """Return the bounds with so many bytes, 0 for the default."""
        return cls(size or _quarter_of_memory())


def _within(which: int, both: tuple[int, int]) -> tuple[int, int]:
    _, most = resource.getrlimit(which)
    highest = math.inf if most == resource.RLIM_INFINITY else most
    return int(min(both[0], highest)), int(min(both[1], highest))
