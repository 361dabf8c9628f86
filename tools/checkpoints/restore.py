"""Restore paths of the workspace to an earlier version, under the rules of every tool that changes files.

Each path is reached beneath directory handles and no link is followed; protected and secret paths are left
alone. Folders are created before their contents and removed after them. A file takes its name in one step,
and only if what has its name by then is still the version that was looked at: what somebody wrote in the very
instant gets its name back. Everything here blocks.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError

from ..files import DirHandle, Guard, open_folder
from ..linux import exchange_names, rename_to_new
from .snapshot import Stamp, stamp_of

if TYPE_CHECKING:
    from leeward.memory.checkpoints import Version

__all__ = ["PARTIAL", "Content", "RestoreTarget", "restore"]

PARTIAL = ".part"
"""A further suffix of a temporary name while its content is not complete."""

Content: TypeAlias = Callable[[str], BinaryIO | None]
"""Opens the content of a digest; None if it is stored no longer."""

_PIECE = 1024 * 1024
_ACCESS_LIST = "system.posix_acl_access"

_SOMEBODY = "it was changed by something else meanwhile"
_NOT_KEPT = "its previous content was not saved"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Left(Exception):
    """A path stays as it is; the message says why."""


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """The wanted state of a path of the workspace (None: nothing), and the stamp of its state now.

    `is_kept`: the current content could be restored. `is_mode_only`: it already has the content
    already. With `with_time` a file gets the time that its version knows. What replaces or is replaced is
    called `temporary` for an instant, in the same folder, so that clean-up after a kill recognises it.
    """

    path: str
    version: Version | None
    stamp: Stamp | None
    is_kept: bool = True
    is_mode_only: bool = False
    with_time: bool = False
    temporary: str | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the path is to be a folder."""
        return self.version is not None and self.version.kind == "folder"

    @property
    def is_going(self) -> bool:
        """Whether the current entry has to go before anything else can be there."""
        if self.stamp is None or self.version is None:
            return self.version is None
        return stat.S_ISDIR(self.stamp[0]) != self.is_folder

    @property
    def is_locked(self) -> bool:
        """Whether it is now a folder that its owner may not change."""
        mode = 0 if self.stamp is None else self.stamp[0]
        return stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU


_Act: TypeAlias = Callable[[DirHandle, str, RestoreTarget], None]


def restore(
    root: str,
    wanted: Sequence[RestoreTarget],
    guard: Guard,
    content: Content,
    *,
    top: DirHandle | None = None,
    removals_last: bool = False,
) -> Iterator[tuple[str, str]]:
    """Put paths back, and yield each that stays as it is with the reason.

    Args:
        root: the workspace, absolute and resolved.
        wanted: the wanted state of each path.
        guard: says which paths are left alone.
        content: opens a digest's content, None if it is stored no longer.
        top: a handle on the workspace, where one is held already.
        removals_last: remove when all that comes is there, and not before; what is in the way goes first
            in any case.
    """
    with nullcontext(top) if top is not None else open_folder(root) as opened:
        work = _Work(root, opened, guard, content, {})
        going = sorted((one for one in wanted if one.is_going), key=lambda one: one.path, reverse=True)
        coming = sorted((one for one in wanted if one.version is not None), key=lambda one: one.path)
        folders = [one for one in coming if one.is_folder]
        in_the_way = {one.path for one in wanted if one.version is not None and one.is_going}
        waiting = [one for one in going if removals_last and not _is_below(one.path, in_the_way)]
        later = {one.path for one in waiting}
        locked = sorted((one for one in wanted if one.is_locked), key=lambda one: one.path)
        work.all(locked, _unlocked)
        work.all((one for one in going if one.path not in later), _removed)
        work.all(folders, _made)
        work.all((one for one in coming if not one.is_folder), work.written)
        work.all(waiting, _removed)
        # A folder that may not be written to gets its mode when all that lies in it is there.
        work.all(reversed(folders), _closed)
        for one in (one for one in reversed(locked) if one.path in work.left):
            work.lock_again(one)
    yield from work.left.items()


def _is_below(path: str, folders: set[str]) -> bool:
    """Whether a path is one of these, or lies below one."""
    return path in folders or any(path[:at] in folders for at, c in enumerate(path) if c == "/")


@dataclass(frozen=True, slots=True)
class _Work:
    """One restoring: the workspace by handle, and what stays as it is."""

    root: str
    top: DirHandle
    guard: Guard
    content: Content
    left: dict[str, str]

    def all(self, wanted: Iterable[RestoreTarget], act: _Act) -> None:
        """Do one thing to paths; of a path that stays no more is tried."""
        for one in (one for one in wanted if one.path not in self.left):
            self._tried(one, act)

    def _tried(self, one: RestoreTarget, act: _Act) -> None:
        path = f"{self.root}/{one.path}"
        why = self.guard.secret(path) or self.guard.protected(path)
        above, _, name = one.path.rpartition("/")
        try:
            if why is not None:
                raise _Left(why)
            with closing(self.top.descend(above)) as folder:
                act(folder, name, one)
        except OSError as error:
            self.left[one.path] = error.strerror or str(error)
        except (ToolError, _Left) as error:
            self.left[one.path] = str(error)

    def lock_again(self, one: RestoreTarget) -> None:
        """Give a folder that stays as it is its mode back."""
        above, _, name = one.path.rpartition("/")
        with suppress(OSError, ToolError), closing(self.top.descend(above)) as folder:
            assert one.stamp is not None
            folder.set_mode(name, stat.S_IMODE(one.stamp[0]))

    def written(self, folder: DirHandle, name: str, one: RestoreTarget) -> None:
        """Give a name to a file or a link."""
        version = one.version
        assert version is not None
        if one.is_mode_only:
            _must_be(folder.stat(name), one)
            folder.set_mode(name, _mode(one))
            return
        temporary = one.temporary or f".leeward-{secrets.token_hex(8)}.tmp"
        try:
            if version.kind == "link":
                os.symlink(os.fsdecode(version.target or b""), temporary, dir_fd=folder.handle)
            else:
                self._fill(folder, name, temporary, one)
        except BaseException:
            _unlinked(folder, temporary + PARTIAL)
            raise
        _take_name(folder, temporary, name, one)

    def _fill(self, folder: DirHandle, name: str, temporary: str, one: RestoreTarget) -> None:
        """Write a whole file; it has the temporary name only when all of it is on the disk."""
        version = one.version
        assert version is not None
        data = self.content(version.digest) if version.digest is not None else None
        if data is None:
            raise _Left(_NOT_KEPT)
        partial = temporary + PARTIAL
        mode = stat.S_IRUSR | stat.S_IWUSR
        with data, os.fdopen(os.open(partial, _NEW, mode, dir_fd=folder.handle), "wb") as file:
            shutil.copyfileobj(data, file, _PIECE)
            file.flush()
            _carry_attributes(folder, name, file.fileno())
            os.fchmod(file.fileno(), _mode(one))
            if one.with_time and version.mtime is not None:
                os.utime(file.fileno(), ns=(version.mtime, version.mtime))
            os.fsync(file.fileno())
        os.rename(partial, temporary, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)


def _carry_attributes(folder: DirHandle, name: str, new: int) -> None:
    """Give a file the attributes and the access list of the one whose place it takes."""
    if not hasattr(os, "listxattr"):
        return
    try:
        old = folder.open_known_file(name)
    except (OSError, ToolError):
        return
    try:
        for attribute in os.listxattr(old):
            if attribute.startswith("user.") or attribute == _ACCESS_LIST:
                os.setxattr(new, attribute, os.getxattr(old, attribute))
    finally:
        os.close(old)


def _take_name(folder: DirHandle, temporary: str, name: str, one: RestoreTarget) -> None:
    """Let what is complete take the name of what was looked at, and of nothing else.

    The two are exchanged, and what had the name is looked at once more before it is removed: what somebody
    wrote in that instant gets its name back.
    """
    found = folder.stat(name)
    handle = folder.handle
    try:
        if found is None:
            rename_to_new(handle, temporary, handle, name)
            return
        _must_be(found, one)
        if not exchange_names(handle, temporary, name):
            os.rename(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
            return
    except FileExistsError:
        _unlinked(folder, temporary)
        raise _Left(_SOMEBODY) from None
    except BaseException:
        _unlinked(folder, temporary)
        raise
    try:
        _must_be(folder.stat(temporary), one)
    except _Left:
        exchange_names(handle, temporary, name)
        _unlinked(folder, temporary)
        raise
    os.unlink(temporary, dir_fd=handle)


def _unlinked(folder: DirHandle, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder.handle)


def _removed(folder: DirHandle, name: str, one: RestoreTarget) -> None:
    found = folder.stat(name)
    if found is None:
        return
    if one.stamp is None or stat.S_IFMT(found.st_mode) != stat.S_IFMT(one.stamp[0]):
        raise _Left(_SOMEBODY)
    if stat.S_ISDIR(found.st_mode):
        # One that still holds something is not empty because of somebody else.
        os.rmdir(name, dir_fd=folder.handle)
        return
    _must_be(found, one)
    if not one.is_kept:
        # It may have come from where nobody looks, and nothing would bring it back.
        raise _Left("its content was not saved, so it is not deleted")
    if one.temporary is None:
        os.unlink(name, dir_fd=folder.handle)
        return
    rename_to_new(folder.handle, name, folder.handle, one.temporary)
    try:
        _must_be(folder.stat(one.temporary), one)
    except _Left:
        rename_to_new(folder.handle, one.temporary, folder.handle, name)
        raise
    os.unlink(one.temporary, dir_fd=folder.handle)


def _unlocked(folder: DirHandle, name: str, one: RestoreTarget) -> None:
    """Let the owner change the entries of an existing folder."""
    assert one.stamp is not None
    found = folder.stat(name)
    if found is None or not stat.S_ISDIR(found.st_mode):
        raise _Left(_SOMEBODY)
    folder.set_mode(name, stat.S_IMODE(found.st_mode) | stat.S_IRWXU)


def _made(folder: DirHandle, name: str, one: RestoreTarget) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, stat.S_IRWXU, dir_fd=folder.handle)
    _set_mode(folder, name, _mode(one) | stat.S_IRWXU)


def _closed(folder: DirHandle, name: str, one: RestoreTarget) -> None:
    _set_mode(folder, name, _mode(one))


def _set_mode(folder: DirHandle, name: str, mode: int) -> None:
    found = folder.stat(name)
    if found is None or not stat.S_ISDIR(found.st_mode):
        raise _Left(_SOMEBODY)
    if stat.S_IMODE(found.st_mode) != mode:
        folder.set_mode(name, mode)


def _must_be(found: os.stat_result | None, one: RestoreTarget) -> None:
    """Refuse where something else has the name than what was looked at."""
    # Not by its time of change: another name of the same file may just have been put back.
    if found is None or one.stamp is None or _lasting(stamp_of(found)) != _lasting(one.stamp):
        raise _Left(_SOMEBODY)


def _lasting(stamp: Stamp) -> tuple[int, ...]:
    return (*stamp[:3], *stamp[4:])


def _mode(one: RestoreTarget) -> int:
    """Return the permissions; nothing that is put back runs as somebody else."""
    if one.version is None:
        return 0
    return one.version.mode & (0o3777 if one.version.kind == "folder" else 0o777)
