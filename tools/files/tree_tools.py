"""The tools `create_directory`, `copy_path`, `move_path` and `delete_path`.

Both paths of a call were judged. The contents of a folder were not, so they are walked before anything is
touched: nothing secret is copied or moved to where it could be read, nothing protected is moved or deleted,
and a file that something runs later does not reach its place inside a folder that is copied or moved there.
Copying and deleting is done by `transfer.py`. Nothing is ever overwritten.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import trio

from leeward.security.call import Cleared, ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure, PolicyBlocked, ToolError
from leeward.security.paths import ResolvedPath, is_inside, runs_later_reason
from leeward.security.policy import Policy
from leeward.security.trust import Origin

from ..declare import SourcePath, WorkspacePath, tool
from ..linux import rename_to_new
from .guard import Guard, HardLinks
from .handles import DirHandle, failure, opened_parent, shown_name
from .transfer import copy_entry, delete_entry, entries_of

__all__ = ["Trees"]

_MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class _Source:
    """What a call is about to copy, move or delete: the entry itself, a link not followed."""

    folder: DirHandle
    name: str
    path: str
    found: os.stat_result


@dataclass(frozen=True, slots=True)
class Trees:
    """What may be touched, and how many files and folders one call may touch."""

    guard: Guard
    most: int = _MOST_ENTRIES

    def tools(self) -> list[ToolExecutor]:
        """Return the four tools."""
        both = Effect.READ | Effect.WRITE
        return [
            tool(effects=Effect.WRITE, idempotent=True)(self.create_directory),
            tool(effects=both)(self.copy_path),
            tool(effects=both)(self.move_path),
            tool(effects=Effect.WRITE)(self.delete_path),
        ]

    async def create_directory(self, path: WorkspacePath) -> Output:
        """Create a folder in the workspace, with the folders missing above it."""
        is_new = await trio.to_thread.run_sync(self._create, path)
        done = "created" if is_new else "already there:"
        return Output(f"{done} {shown_name(path.text)}", Origin.TOOL)

    async def copy_path(self, source: SourcePath, destination: WorkspacePath, cleared: Cleared) -> Output:
        """Copy a file, or a folder with all that is in it, to a path where nothing is yet.

        `destination` is the new path itself, not a folder to put it into. Links are copied as links.
        """
        tool = cleared.action.call.tool
        await trio.to_thread.run_sync(
            partial(self._transfer, source, destination, tool, self._copy, stays=True)
        )
        return Output(f"copied {shown_name(source.text)} to {shown_name(destination.text)}", Origin.TOOL)

    async def move_path(self, source: WorkspacePath, destination: WorkspacePath, cleared: Cleared) -> Output:
        """Move or rename a file or folder, to a path where nothing is yet.

        `destination` is the new path itself, not a folder to put it into.
        """
        tool = cleared.action.call.tool
        await trio.to_thread.run_sync(
            partial(self._transfer, source, destination, tool, self._move, stays=False)
        )
        return Output(f"moved {shown_name(source.text)} to {shown_name(destination.text)}", Origin.TOOL)

    async def delete_path(self, path: WorkspacePath, cleared: Cleared) -> Output:
        """Delete a file or link of the workspace, or a folder with all that is in it, for good."""
        count = await trio.to_thread.run_sync(self._delete, path, cleared.action.call.tool)
        more = f" and the {count - 1} entries in it" if count > 1 else ""
        return Output(f"deleted {shown_name(path.text)}{more}", Origin.TOOL)

    def _create(self, place: ResolvedPath) -> bool:
        _must_be_within(self.guard.policy, place.real)
        with (
            failure("creating the folder"),
            opened_parent(place.real, create_below=_root(self.guard.policy, place.real)) as (folder, name),
        ):
            try:
                os.mkdir(name, dir_fd=folder.handle)
            except FileExistsError:
                with closing(folder.descend(name)):
                    return False
            return True

    def _transfer(
        self,
        place: ResolvedPath,
        target: ResolvedPath,
        tool: str,
        transfer: Callable[[_Source, DirHandle, str], None],
        *,
        stays: bool,
    ) -> None:
        _must_be_within(self.guard.policy, target.real)
        with failure(f"{tool} failed; nothing was changed"), self._opened(place) as source:
            if is_inside(target.real, source.path):
                raise PermanentFailure("a folder cannot be put into itself")
            self._must_be_free(source, place, tool, target, stays=stays)
            below = _root(self.guard.policy, target.real)
            with opened_parent(target.real, create_below=below) as (folder, name):
                try:
                    transfer(source, folder, name)
                except FileExistsError:
                    raise PermanentFailure(_taken(folder, name, source.name)) from None

    def _copy(self, source: _Source, folder: DirHandle, name: str) -> None:
        copy_entry(source.folder, source.name, folder, name, HardLinks(self.guard))

    def _move(self, source: _Source, folder: DirHandle, name: str) -> None:
        _must_be_within(self.guard.policy, source.path)
        try:
            rename_to_new(source.folder.handle, source.name, folder.handle, name)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            where = "the destination lies on another file system"
            raise PermanentFailure(f"{where}; copy it there, then delete it here") from None

    def _delete(self, place: ResolvedPath, tool: str) -> int:
        with failure("deleting failed"), self._opened(place) as source:
            _must_be_within(self.guard.policy, source.path)
            count = self._must_be_free(source, place, tool)
            delete_entry(source.folder, source.name)
            return count

    @contextmanager
    def _opened(self, place: ResolvedPath) -> Iterator[_Source]:
        """Open the folder of what is to be touched: a link itself, where the path names one."""
        path = place.real if place.text == place.real or not _is_link(place.text) else place.text
        with opened_parent(path) as (folder, name):
            found = folder.stat(name)
            if found is None:
                raise PermanentFailure(f"there is no {shown_name(name)} in this folder{folder.nearest(name)}")
            yield _Source(folder, name, path, found)

    def _must_be_free(
        self,
        source: _Source,
        place: ResolvedPath,
        tool: str,
        target: ResolvedPath | None = None,
        *,
        stays: bool = False,
    ) -> int:
        """Go through all that would be touched, refuse what may not be, and return how much it is.

        What `stays` where it is need not be what may be changed.
        """
        count = 0
        for entry in entries_of(source.folder, source.name, self.most):
            count += 1
            path = f"{source.path}/{entry.relative}".rstrip("/")
            text = f"{place.text}/{entry.relative}".rstrip("/")
            new = f"{target.real}/{entry.relative}".rstrip("/") if target is not None else ""
            # A copy of a repository would be one, too, and no longer be protected by its name.
            is_held = not stays or (stat.S_ISDIR(entry.found.st_mode) and _root(self.guard.policy, path))
            why = self.guard.protected(path) if is_held else None
            why = why or _objection(self.guard, path, new, target)
            if why is None and self.guard.is_held_back(tool, place, ResolvedPath(text, path)):
                why = "a permission rule speaks of it"
            if why is not None:
                raise PolicyBlocked(f"nothing was touched, for {shown_name(path)} would be: {why}")
        return count


def _root(policy: Policy, path: str) -> str | None:
    """Return the folder one may work in that a path belongs to, or None for none."""
    return next((root for root in (policy.workspace, *policy.allowed_paths) if is_inside(path, root)), None)


def _must_be_within(policy: Policy, path: str) -> None:
    root = _root(policy, path)
    if root is None or path == root:
        what = "is the workspace itself" if path == root else "lies outside of the workspace"
        raise PolicyBlocked(f"the path {what}, which this tool leaves as it is")


def _objection(guard: Guard, path: str, new: str, target: ResolvedPath | None) -> str | None:
    """Say why something may not be copied, moved or deleted along with the folder it is in, or None."""
    why = guard.secret(path)
    if why is not None or target is None:
        return why
    why = guard.secret(new) or guard.protected(new)
    if why is None and runs_later_reason(target.real) is None and runs_later_reason(path) is None:
        later = runs_later_reason(new)
        return later and f"at its new place {later}; move it by itself, which will be asked about"
    return why


def _is_link(path: str) -> bool:
    """Whether a path is a link while no folder above it is one."""
    try:
        with opened_parent(path) as (folder, name):
            found = folder.stat(name)
    except (ToolError, OSError, ValueError):
        return False
    return found is not None and stat.S_ISLNK(found.st_mode)


def _taken(folder: DirHandle, name: str, source: str) -> str:
    found = folder.stat(name)
    if found is not None and stat.S_ISDIR(found.st_mode):
        inside = shown_name(f"{name}/{source}")
        return f"there is a folder {shown_name(name)} already; to put it inside, say {inside}"
    return f"there is {shown_name(name)} already; delete it first, or choose another name"
