"""Walk a folder tree beneath handles, in order, without following links.

Blocking; in one of trio's threads it stops between two folders once its task is cancelled. What is done with
an entry is decided in `tools.py`; `gitignore.py` reads what a project ignores.
"""

from __future__ import annotations

import stat
from collections.abc import Generator, Iterator
from dataclasses import field

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError

from ..files import DirHandle, open_folder, opened_parent
from .gitignore import IGNORE_FILE, Ignored, ignore_files_above

__all__ = ["SKIPPED_FOLDERS", "Listing", "Tree", "WalkEntry"]

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__"})
"""Folders of tools, not of people: named in the result, but walked only where the path itself names one."""


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """A name in a folder."""

    name: str
    is_folder: bool
    is_file: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder and what is in it; the handle is open until the walk goes on.

    `relative` and `path` are where it lies from the root of the walk and absolutely; both are "" or end
    in a slash, so that a name may follow.
    """

    folder: DirHandle
    relative: str
    path: str
    entries: tuple[WalkEntry, ...]


@dataclass(slots=True)
class Tree:
    """A walk below `root` (absolute, judged); it counts names seen, ignored, and folders it could not open.

    With `ignoring`, what `.gitignore` files up to that folder say is left out.
    """

    root: str
    ignoring: str | None = None
    seen: int = 0
    ignored: int = 0
    unread: int = 0
    _prefix: str = field(default="", init=False)

    def listings(self) -> Generator[Listing]:
        """Yield every folder from the root on, above before below; of a file, its folder with it alone.

        Raises:
            PolicyBlocked, PermanentFailure, OSError: the root could not be opened.
        """
        above, root = self.root.rstrip("/").rpartition("/")[0] + "/", self.root.rstrip("/") + "/"
        if self.root != "/":
            with opened_parent(self.root) as (folder, name):
                found = folder.stat(name)
                if found is not None and not stat.S_ISDIR(found.st_mode):
                    self.seen += 1
                    yield Listing(folder, "", above, (WalkEntry(name, False, stat.S_ISREG(found.st_mode)),))
                    return
        with open_folder(self.root) as top:
            pending = [("", self._ignored_above())]
            while pending:
                relative, ignored = pending.pop()
                below: list[tuple[str, Ignored]] = []
                for listing, holds in self._in_folder(top, relative, root, ignored):
                    yield listing
                    folders = (entry.name for entry in listing.entries if _goes_on(entry))
                    below += [(f"{relative}{name}/", holds) for name in folders]
                pending.extend(reversed(below))

    def _ignored_above(self) -> Ignored:
        if self.ignoring is None:
            return Ignored()
        self._prefix, ignored = ignore_files_above(self.root, self.ignoring)
        return ignored

    def _in_folder(
        self, top: DirHandle, relative: str, root: str, ignored: Ignored
    ) -> Iterator[tuple[Listing, Ignored]]:
        """Yield the one listing of a folder and what is ignored in it; a folder that is shut is counted."""
        trio.from_thread.check_cancelled()
        try:
            folder = top.descend(relative)
        except (OSError, ToolError):
            self.unread += 1
            return
        try:
            entries = self._entries(folder)
            self.seen += len(entries)
            if self.ignoring is not None and any(entry.name == IGNORE_FILE for entry in entries):
                ignored = ignored.below(folder, f"{self._prefix}{relative}".rstrip("/"))
            yield Listing(folder, relative, root + relative, self._kept(entries, relative, ignored)), ignored
        finally:
            folder.close()

    def _kept(self, entries: list[WalkEntry], relative: str, ignored: Ignored) -> tuple[WalkEntry, ...]:
        if not ignored.files:
            return tuple(entries)
        place = self._prefix + relative
        kept = tuple(
            entry for entry in entries if not ignored.covers(place + entry.name, is_folder=entry.is_folder)
        )
        self.ignored += len(entries) - len(kept)
        return kept

    def _entries(self, folder: DirHandle) -> list[WalkEntry]:
        try:
            with folder.entries() as entries:
                found = [
                    WalkEntry(e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False))
                    for e in entries
                ]
        except OSError:
            self.unread += 1
            return []
        return sorted(found, key=_name)


def _goes_on(entry: WalkEntry) -> bool:
    return entry.is_folder and entry.name not in SKIPPED_FOLDERS


def _name(entry: WalkEntry) -> str:
    return entry.name
