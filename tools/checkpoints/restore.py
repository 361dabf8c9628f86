"""Restore paths of the workspace to an earlier version, under the rules of every tool that changes files.

Each path is reached beneath directory handles and no link is followed; protected and secret paths are left
alone. Folders are created before their contents and removed after them. A file takes its name in one step,
and only if what has its name by then is still the version that was looked at. Everything here blocks.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from leeward.memory.checkpoints import Version
from leeward.security.outcome import ToolError

from ..files import DirHandle, Guard, opened_parent
from .snapshot import Stamp, stamp_of

__all__ = ["RestoreTarget", "restore"]

_SOMEBODY = "somebody else changed it meanwhile"
_NOT_KEPT = "what it held was not kept"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Left(Exception):
    """A path stays as it is; the message says why."""


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """What is to stand at a path of the workspace (None: nothing), and the stamp of what stands there now.

    `is_kept` tells that what stands there now could be had back.
    """

    path: str
    version: Version | None
    stamp: Stamp | None
    is_kept: bool = True


def restore(
    root: str, wanted: Sequence[RestoreTarget], guard: Guard, content: Callable[[str], bytes | None]
) -> Iterator[tuple[str, str]]:
    """Put paths back, and yield each that stays as it is with the reason.

    `content` returns what a digest stands for, None where that is kept no longer.
    """
    going = [one for one in wanted if one.version is None or _is_other_kind(one)]
    left: dict[str, str] = {}
    for one in sorted(going, key=lambda one: one.path, reverse=True):
        _tried(root, one, guard, left, _removed)
    coming = sorted((one for one in wanted if one.version is not None), key=lambda one: one.path)
    folders = [one for one in coming if one.version is not None and one.version.kind == "folder"]
    for one in (one for one in folders if one.path not in left):
        _tried(root, one, guard, left, _made)
    for one in (one for one in coming if one not in folders and one.path not in left):
        _tried(root, one, guard, left, lambda folder, name, one: _written(folder, name, one, content))
    # A folder that may not be written to gets its mode when all that lies in it is there.
    for one in (one for one in reversed(folders) if one.path not in left):
        _tried(root, one, guard, left, _closed)
    yield from left.items()


def _is_other_kind(one: RestoreTarget) -> bool:
    if one.stamp is None or one.version is None:
        return False
    is_folder = stat.S_ISDIR(one.stamp[0])
    return is_folder != (one.version.kind == "folder")


def _tried(
    root: str,
    one: RestoreTarget,
    guard: Guard,
    left: dict[str, str],
    act: Callable[[DirHandle, str, RestoreTarget], None],
) -> None:
    path = f"{root}/{one.path}"
    why = guard.secret(path) or guard.protected(path)
    try:
        if why is not None:
            raise _Left(why)
        with opened_parent(path) as (folder, name):
            act(folder, name, one)
    except OSError as error:
        left[one.path] = error.strerror or str(error)
    except (ToolError, _Left) as error:
        left[one.path] = str(error)


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
        raise _Left("what it holds is not kept, so it is not deleted")
    os.unlink(name, dir_fd=folder.handle)


def _made(folder: DirHandle, name: str, one: RestoreTarget) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, stat.S_IRWXU, dir_fd=folder.handle)
    found = folder.stat(name)
    if found is None or not stat.S_ISDIR(found.st_mode):
        raise _Left(_SOMEBODY)
    _set_mode(folder, name, _mode(one) | stat.S_IRWXU)


def _closed(folder: DirHandle, name: str, one: RestoreTarget) -> None:
    _set_mode(folder, name, _mode(one))


def _set_mode(folder: DirHandle, name: str, mode: int) -> None:
    """Set the mode of a folder itself: by its handle, for a link may have taken its name."""
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.handle)
    try:
        if stat.S_IMODE(os.fstat(handle).st_mode) != mode:
            os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _written(
    folder: DirHandle, name: str, one: RestoreTarget, content: Callable[[str], bytes | None]
) -> None:
    version = one.version
    assert version is not None
    data = content(version.digest) if version.digest is not None else None
    if data is None and version.kind == "file":
        raise _Left(_NOT_KEPT)
    temporary = f".leeward-{secrets.token_hex(8)}.tmp"
    try:
        if data is None:
            os.symlink(os.fsdecode(version.target or b""), temporary, dir_fd=folder.handle)
        else:
            _write(folder, temporary, data, _mode(one))
        found = folder.stat(name)
        if found is not None:
            _must_be(found, one)
        os.rename(temporary, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder.handle)
        raise


def _write(folder: DirHandle, name: str, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(name, _NEW, stat.S_IRUSR | stat.S_IWUSR, dir_fd=folder.handle), "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _must_be(found: os.stat_result, one: RestoreTarget) -> None:
    """Refuse where something else has the name than what was looked at."""
    # Not by its time of change: another name of the same file may just have been put back.
    if one.stamp is None or _lasting(stamp_of(found)) != _lasting(one.stamp):
        raise _Left(_SOMEBODY)


def _lasting(stamp: Stamp) -> tuple[int, ...]:
    return (*stamp[:3], *stamp[4:])


def _mode(one: RestoreTarget) -> int:
    """Return the permissions; nothing that is put back runs as somebody else."""
    if one.version is None:
        return 0
    return one.version.mode & (0o3777 if one.version.kind == "folder" else 0o777)
