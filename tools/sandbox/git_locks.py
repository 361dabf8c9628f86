"""Remove the lock files that an interrupted git left in repositories.

A lock counts as left behind if it appeared while a command ran whose processes are all dead by now, and if no
other git is running in the workspace (or anywhere, if other working trees are linked to the repository).
Files are reached through handles, and no symlink is followed.
"""

from __future__ import annotations

import os
import posixpath
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.outcome import ToolError
from leeward.security.paths import is_inside

from ..files import DirHandle, open_folder, shown_name

if TYPE_CHECKING:
    from ..process import ProcessExit

__all__ = ["file_clock", "locks_removed"]

_LOCK, _LINKED = ".lock", "worktrees"
# Elsewhere git takes no locks; in `objects` only for maintenance and its graph of commits.
_DEEP, _SHALLOW = ("refs", _LINKED, "modules", "reftable"), ("", "objects", "objects/info")
_MOST = 20_000
_PROCESSES = Path("/proc")
# One tick of the clock by which file systems stamp.
_TICK = 10_000_000


def file_clock() -> int:
    """Return a time in nanoseconds that no file has which is made later."""
    return time.time_ns() - _TICK


def locks_removed(
    workspace: str, repositories: Iterable[str], began: int, finished: ProcessExit | None
) -> tuple[str, ...]:
    """Remove locks that are no older than `began`, and return what to tell; this waits for the disk.

    `finished` is how the command ended (None: it was cancelled); one that ended by itself keeps its locks.
    """
    if finished is not None and not finished.is_cut_short:
        return ()
    notes: list[str] = []
    for repository in repositories:
        if not is_inside(repository, workspace):
            continue
        with suppress(OSError, ToolError), open_folder(workspace) as top:
            relative = posixpath.relpath(repository, workspace)
            found = [one for one in _locks(top, relative) if _came_since(top, one, began)]
            # The tree of a submodule lies beside its repository, and a linked one may lie anywhere.
            if found and _is_at_work("/" if _has_linked_trees(top, relative) else workspace):
                notes.append(f"{shown_name(found[0])} is left: another git process is running there")
                continue
            notes += [f"removed {shown_name(one)}, which it had left" for one in found if _removed(top, one)]
    return tuple(notes)


def _locks(top: DirHandle, repository: str) -> Iterator[str]:
    left = _MOST
    waiting = [(posixpath.join(repository, name).rstrip("/"), False) for name in _SHALLOW]
    waiting += [(posixpath.join(repository, name), True) for name in _DEEP]
    while waiting and left > 0:
        folder, is_deep = waiting.pop()
        with (
            suppress(OSError, ToolError),
            closing(top.descend(folder)) as opened,
            opened.entries() as entries,
        ):
            for entry in entries:
                left -= 1
                path = f"{folder}/{entry.name}"
                if entry.name.endswith(_LOCK) and entry.is_file(follow_symlinks=False):
                    yield path
                elif is_deep and entry.is_dir(follow_symlinks=False):
                    waiting.append((path, True))


def _came_since(top: DirHandle, path: str, began: int) -> bool:
    folder, _, name = path.rpartition("/")
    with suppress(OSError, ToolError), closing(top.descend(folder)) as opened:
        status = opened.stat(name)
        return status is not None and stat.S_ISREG(status.st_mode) and status.st_ctime_ns >= began
    return False


def _removed(top: DirHandle, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    with suppress(OSError, ToolError), closing(top.descend(folder)) as opened:
        os.unlink(name, dir_fd=opened.handle)
        return True
    return False


def _has_linked_trees(top: DirHandle, repository: str) -> bool:
    """Whether there are trees elsewhere that take their locks in a repository, or it is that of one."""
    if posixpath.basename(posixpath.dirname(repository)) == _LINKED:
        return True
    with (
        suppress(OSError, ToolError),
        closing(top.descend(f"{repository}/{_LINKED}")) as opened,
        opened.entries() as entries,
    ):
        return any(True for _ in entries)
    return False


def _is_at_work(tree: str) -> bool:
    """Whether a git runs whose folder lies in a tree, or is unknown."""
    with suppress(OSError):
        for process in _PROCESSES.iterdir():
            if process.name.isdecimal() and _name_of(process).startswith("git"):
                try:
                    here = os.readlink(process / "cwd")  # noqa: PTH115 — a text, as it is compared
                except FileNotFoundError:
                    continue
                except OSError:
                    return True
                if is_inside(here, tree):
                    return True
    return False


def _name_of(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text(errors="replace").strip()
    return ""
