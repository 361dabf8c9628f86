"""Replace a file atomically: it holds all of the old content or all of the new, whatever fails.

The new content is written to a temporary file beside it, synced, and takes its name in one step. All names
are used beneath the handle of the judged folder (`handles.py`). A file that is not the one that was judged,
or that somebody changes meanwhile, is left alone. Everything here blocks.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.paths import FileState, ResolvedPath

from ..linux import rename_to_new
from .freshness import content_mark
from .guard import file_identity
from .handles import CHANGED, DirHandle, file_kind, opened_parent

__all__ = ["Change", "ReplaceTarget", "Replaced", "replace_file"]

_NEW_FILE_MODE = 0o666


@dataclass(frozen=True, slots=True)
class ReplaceTarget:
    """A file's state right before it is replaced; `content` is cut at the most that is read of it."""

    status: os.stat_result
    content: bytes

    @property
    def mark(self) -> str:
        """What the content is known by, "" where it was cut."""
        return content_mark(self.content) if len(self.content) == self.status.st_size else ""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The new content of a file, and what tells the file from others."""

    content: bytes
    identity: tuple[int, ...]


Change = Callable[[ReplaceTarget | None], bytes]
"""Makes the new content of a file out of what is found of it, None where there is none; it may refuse."""


def replace_file(place: ResolvedPath, change: Change, most: int, create_below: str | None = None) -> Replaced:
    """Give a file new content; `most` is how many bytes of the old one are read for that.

    Folders missing below `create_below` are made; without it, the file must be there.

    Raises:
        PolicyBlocked: it is not the file that was judged.
        PermanentFailure: it is no file, is read-only, or the system refused; the old content stays.
    """
    with opened_parent(place.real, create_below=create_below) as (folder, name):
        expected = folder.stat(name)
        if expected is None and create_below is None:
            folder.open_file(name)
        found = None if expected is None else _found(folder, name, expected, most)
        _must_be_as_judged(place.state, found)
        data = change(found)
        return Replaced(data, _replace(folder, name, data, None if found is None else found.status))


def _found(folder: DirHandle, name: str, expected: os.stat_result, most: int) -> ReplaceTarget:
    _must_be_writable(folder, name, expected)
    with os.fdopen(folder.open_file(name), "rb") as file:
        return ReplaceTarget(os.fstat(file.fileno()), file.read(most))


def _must_be_as_judged(state: FileState | None, found: ReplaceTarget | None) -> None:
    """Refuse where the verdict rests on another content than there is by now."""
    if state is None or (found is None and not state.kind):
        return
    if found is None or not state.kind:
        what = "is gone" if found is None else "has come to be there"
        raise PolicyBlocked(f"the file {what} since this call was judged; ask again")
    if state.identity != file_identity(found.status) and (not found.mark or state.mark != found.mark):
        raise PolicyBlocked("the file was changed since this call was judged; read it again")


def _replace(folder: DirHandle, name: str, data: bytes, expected: os.stat_result | None) -> tuple[int, ...]:
    """Put a file with this content in the place of the expected one (None: of nothing)."""
    temporary = f".leeward-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Another's content must not be readable for longer than it was, so a replacement starts closed.
    mode = _NEW_FILE_MODE if expected is None else stat.S_IRUSR | stat.S_IWUSR
    with os.fdopen(os.open(temporary, flags, mode, dir_fd=folder.handle), "wb") as file:
        try:
            if expected is not None:
                _adopt(file.fileno(), expected)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            _take_name(folder, temporary, name, expected)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder.handle)
            raise
        identity = file_identity(os.fstat(file.fileno()))
    _sync(folder)
    return identity


def _take_name(folder: DirHandle, temporary: str, name: str, expected: os.stat_result | None) -> None:
    if expected is None:
        try:
            rename_to_new(folder.handle, temporary, folder.handle, name)
        except FileExistsError:
            _must_be_unchanged(folder.stat(name), None)
            raise
        return
    _must_be_unchanged(folder.stat(name), expected)
    os.rename(temporary, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)


def _must_be_writable(folder: DirHandle, name: str, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PolicyBlocked(CHANGED)
    if not stat.S_ISREG(found.st_mode):
        raise PermanentFailure(f"the path is {file_kind(found)}, not a file")
    if not os.access(name, os.W_OK, dir_fd=folder.handle):
        raise PermanentFailure("the file is read-only")


def _adopt(descriptor: int, expected: os.stat_result) -> None:
    """Take over owner and permissions; not what would let the new content run as somebody else."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (expected.st_uid, expected.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, expected.st_uid, expected.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(expected.st_mode) & 0o777)


def _must_be_unchanged(now: os.stat_result | None, expected: os.stat_result | None) -> None:
    """Refuse where somebody else changed the file since it was looked at."""
    if now is not None and stat.S_ISLNK(now.st_mode):
        raise PolicyBlocked(CHANGED)
    if (now and file_identity(now)) != (expected and file_identity(expected)):
        raise PermanentFailure("the file was changed by somebody else meanwhile; read it again")


def _sync(folder: DirHandle) -> None:
    """Make the new name last; where the folder cannot be opened for that, the content is safe at least."""
    with suppress(OSError):
        handle = folder.listing()
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
