"""Find the repositories that a trial run changed, and read their files before and after.

A repository is what git takes for one: whatever is called `.git`, or may be on some file system, and any
folder that holds what a bare one does. What is read is bounded, beneath handles, and follows no link.
"""

from __future__ import annotations

import os
import stat
from contextlib import closing, suppress
from dataclasses import field
from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError
from leeward.security.sandbox import REPOSITORY_PARTS, is_like_git

if TYPE_CHECKING:
    from ..files import DirHandle
    from ..sandbox import Change, Changes, UpperTree

__all__ = ["GitView", "Repository", "TooMuch", "repositories_in"]

_WHOLE = frozenset({"head", "objects", "refs"})
_PART = frozenset({"head", "commondir"})
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


class TooMuch(Exception):
    """There is more than is looked at; the message says of what."""


@dataclass(slots=True)
class GitView:
    """A workspace as it is, and as a run left it; so many bytes are still read, and entries looked at."""

    tree: UpperTree
    lower: DirHandle
    by_path: dict[str, Change]
    unread: int
    entries: int
    _names: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: UpperTree, lower: DirHandle, changes: Changes, most: tuple[int, int]) -> GitView:
        """Return the view of what a run changed, with bounds on bytes and entries."""
        view = cls(tree, lower, {change.path: change for change in changes.changes}, *most)
        for path in view.by_path:
            folder, _, name = path.rpartition("/")
            view._names.setdefault(folder, set()).add(name)
        return view

    def kind_before(self, path: str) -> str | None:
        """Return the entry at a path of the workspace, None for nothing."""
        change = self.by_path.get(path)
        if change is not None:
            return None if change.before is None else change.before.kind
        folder, _, name = path.rpartition("/")
        with suppress(OSError, ToolError), closing(self.lower.descend(folder)) as held:
            found = held.stat(name)
            return None if found is None else _KINDS.get(stat.S_IFMT(found.st_mode), "other")
        return None

    def kind_after(self, path: str) -> str | None:
        """Return what the run left at a path, None for nothing."""
        change = self.by_path.get(path)
        if change is not None:
            return None if change.after is None else change.after.kind
        return self.kind_before(path)

    def names_before(self, folder: str) -> set[str]:
        """Return what a folder of the workspace holds, nothing where there is none."""
        found = set()
        with (
            suppress(OSError, ToolError),
            closing(self.lower.descend(folder)) as held,
            held.entries() as entries,
        ):
            for entry in entries:
                self.count()
                found.add(entry.name)
        return found

    def names_after(self, folder: str) -> set[str]:
        """Return what a folder holds that the run left."""
        names = self.names_before(folder) | self._names.get(folder, set())
        return {name for name in names if self._is_left(f"{folder}/{name}" if folder else name)}

    def _is_left(self, path: str) -> bool:
        change = self.by_path.get(path)
        return change is None or change.after is not None

    def before(self, path: str, most: int) -> bytes | None:
        """Return the content of a file of the workspace, None where there is none.

        Raises:
            TooMuch: it is longer, or all that is read is.
        """
        folder, _, name = path.rpartition("/")
        try:
            with closing(self.lower.descend(folder)) as held:
                if held.stat(name) is None:
                    return None
                return self._whole(held.open_file(name), most)
        except (OSError, ToolError):
            return None

    def after(self, path: str, most: int) -> bytes | None:
        """Return the content of a file as the run left it, None where there is none.

        Raises:
            TooMuch: it is longer, or all that is read is.
        """
        change = self.by_path.get(path)
        if change is None:
            return self.before(path, most)
        if change.after is None or change.after.kind != "file":
            return None
        if change.is_mode_only:
            return self.before(path, most)
        folder, _, name = path.rpartition("/")
        with self.tree.folder(folder) as held:
            return self._whole(self.tree.open_file(held, name), most)

    def link_after(self, path: str) -> bytes | None:
        """Return where a link leads that the run left, None where there is none."""
        change = self.by_path.get(path)
        if change is not None:
            return None if change.after is None else change.after.target
        folder, _, name = path.rpartition("/")
        with suppress(OSError, ToolError), closing(self.lower.descend(folder)) as held:
            return os.fsencode(os.readlink(name, dir_fd=held.handle))
        return None

    def _whole(self, descriptor: int, most: int) -> bytes:
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(min(most, self.unread) + 1)
        if len(content) > min(most, self.unread):
            raise TooMuch("a file of it is too long to be looked at")
        self.unread -= len(content)
        return content

    def count(self) -> None:
        """Count one entry.

        Raises:
            TooMuch: it is one too many.
        """
        self.entries -= 1
        if self.entries < 0:
            raise TooMuch("it holds more than is looked at")


@dataclass(slots=True)
class Repository:
    """A folder that git takes for a repository, and what changed in it by the path in there ("" for itself).

    `is_new` tells that git did not before.
    """

    root: str
    is_bare: bool
    is_new: bool
    changes: dict[str, Change] = field(default_factory=dict)

    def path(self, rest: str) -> str:
        """Return a path in it as one of the workspace."""
        return f"{self.root}/{rest}".strip("/") if rest else self.root

    @property
    def top(self) -> str:
        """Where its working tree is."""
        return self.root if self.is_bare else self.root.rpartition("/")[0]


def repositories_in(view: GitView) -> tuple[list[Repository], list[tuple[str, str]]]:
    """Return the repositories that hold changed paths, and which of those paths are refused outright.

    Raises:
        TooMuch: there is more than is looked at.
    """
    found: dict[str, Repository] = {}
    refused: list[tuple[str, str]] = []
    known: dict[str, bool] = {}
    for path, change in view.by_path.items():
        parts = path.split("/")
        at = next((at for at, part in enumerate(parts) if is_like_git(part)), None)
        if at is not None and parts[at] != ".git":
            refused.append((path, "some file systems take its name for .git"))
            continue
        root = "/".join(parts[: at + 1]) if at is not None else _bare_above(view, parts, known)
        if root is None:
            continue
        if root not in found:
            is_new = not _is_repository(view.names_before(root))
            found[root] = Repository(root, at is None, is_new)
            if root in view.by_path:
                found[root].changes[""] = view.by_path[root]
        found[root].changes[path[len(root) :].strip("/")] = change
    return list(found.values()), refused


def _bare_above(view: GitView, parts: list[str], known: dict[str, bool]) -> str | None:
    """Return the outermost folder above a path that git takes for a repository."""
    for at, part in enumerate(parts):
        if part.lower() in REPOSITORY_PARTS:
            folder = "/".join(parts[:at])
            if folder not in known:
                known[folder] = _is_repository(view.names_after(folder)) or _is_repository(
                    view.names_before(folder)
                )
            if known[folder]:
                return folder
    return None


def _is_repository(names: set[str]) -> bool:
    plain = {name.casefold() for name in names}
    return plain >= _WHOLE or plain >= _PART
