"""What lies below a folder? Walked beneath handles, in order, without following a link.

Blocking; in a thread of trio's it stops between two folders when its task was cancelled. What is done
with an entry is `search.py`'s.
"""

from __future__ import annotations

import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import trio

from leeward.security import ToolError

from .beneath import Folder, open_folder, opened_parent

__all__ = ["SKIPPED_FOLDERS", "Entry", "Tree"]

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__"})
"""Folders of tools, not of people: named in the result, but walked only where the path itself names one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name below the root, whose absolute path is `path`; `folder` is open until the walk goes on."""

    folder: Folder
    name: str
    relative: str
    path: str
    is_folder: bool
    is_file: bool


@dataclass(slots=True)
class Tree:
    """A walk below `root` (absolute, judged); it counts the names seen and the folders it could not open."""

    root: str
    seen: int = 0
    unread: int = 0

    def entries(self) -> Generator[Entry]:
        """Yield everything below the root, folders before what is in them; of a file, itself.

        Raises:
            PolicyBlocked, PermanentFailure, OSError: the root could not be opened.
        """
        if self.root != "/":
            with opened_parent(self.root) as (folder, name):
                found = folder.stat(name)
                if found is not None and not stat.S_ISDIR(found.st_mode):
                    self.seen += 1
                    yield Entry(folder, name, name, self.root, False, stat.S_ISREG(found.st_mode))
                    return
        with open_folder(self.root) as top:
            pending = [""]
            while pending:
                relative = pending.pop()
                below: list[str] = []
                for entry in self._in_folder(top, relative):
                    yield entry
                    if entry.is_folder and entry.name not in SKIPPED_FOLDERS:
                        below.append(entry.relative)
                pending.extend(reversed(below))

    def _in_folder(self, top: Folder, relative: str) -> Iterator[Entry]:
        """Yield the entries of one folder by name; one that cannot be opened is counted."""
        trio.from_thread.check_cancelled()
        try:
            folder = top.descend(relative)
        except (OSError, ToolError):
            self.unread += 1
            return
        try:
            for name, is_folder, is_file in self._names(folder):
                self.seen += 1
                below = f"{relative}/{name}" if relative else name
                yield Entry(folder, name, below, f"{self.root.rstrip('/')}/{below}", is_folder, is_file)
        finally:
            folder.close()

    def _names(self, folder: Folder) -> list[tuple[str, bool, bool]]:
        try:
            with folder.entries() as entries:
                return sorted(
                    (e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False))
                    for e in entries
                )
        except OSError:
            self.unread += 1
            return []
