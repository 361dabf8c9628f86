"""How is a file changed so that it holds all of the old or all of the new, whatever goes wrong?

The new content goes to a file beside it, reaches the disk, and takes the name in one step. All names
are used beneath the handle of the judged folder (`beneath.py`). Everything here blocks.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

import trio

from leeward.security import PermanentFailure, PolicyBlocked

from .beneath import Folder, failure, file_kind, opened_parent

__all__ = ["edit_file", "write_file"]

_NEW_FILE_MODE = 0o666


def write_file(path: str, data: bytes, create_below: str) -> None:
    """Give a file new content; folders missing below `create_below` are made.

    Raises:
        PolicyBlocked: a link stands where none was when the path was judged.
        PermanentFailure: it is no file, is read-only, or the system refused; the old content stays.
    """
    with failure("writing the file"), opened_parent(path, create_below=create_below) as (folder, name):
        _replace(folder, name, data, folder.stat(name))


def edit_file(path: str, old: bytes, new: bytes, max_bytes: int) -> int:
    """Replace the one occurrence of `old` and return its line, counted from 1.

    Where a file ends its lines with CR LF and the passage is only found so, the new one gets them too.

    Raises:
        PolicyBlocked: a link stands where none was when the path was judged.
        PermanentFailure: the passage does not occur exactly once, the file is not text, is larger than
            `max_bytes` or changed meanwhile, or the system refused; the old content stays.
    """
    with failure("editing the file"), opened_parent(path) as (folder, name):
        with os.fdopen(folder.open_file(name), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size > max_bytes:
                raise PermanentFailure(f"the file has {found.st_size} bytes; edit takes up to {max_bytes}")
            content = file.read(max_bytes + 1)
        if b"\0" in content:
            raise PermanentFailure("the file is binary, which edit does not change")
        if old not in content and b"\r\n" in content:
            old, new = (text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for text in (old, new))
        at = _only(content, old)
        _replace(folder, name, content[:at] + new + content[at + len(old) :], found)
        return content.count(b"\n", 0, at) + 1


def _only(content: bytes, passage: bytes) -> int:
    """Return where the passage stands; occurrences that overlap count each."""
    first = content.find(passage)
    if first < 0:
        raise PermanentFailure("old_string does not occur in the file; white space must match too")
    count, at = 1, first
    while (at := content.find(passage, at + 1)) >= 0:
        trio.from_thread.check_cancelled()
        count += 1
    if count > 1:
        raise PermanentFailure(f"old_string occurs {count} times in the file; add lines around it")
    return first


def _replace(folder: Folder, name: str, data: bytes, expected: os.stat_result | None) -> None:
    """Put a file with this content in the place of the expected one (None: of nothing)."""
    if expected is not None:
        _must_be_writable(folder, name, expected)
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
            _must_be_unchanged(folder.stat(name), expected)
            os.rename(temporary, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder.handle)
            raise
    _sync(folder)


def _must_be_writable(folder: Folder, name: str, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PolicyBlocked("a link stands where there was none when the path was judged")
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
        raise PolicyBlocked("a link stands where there was none when the path was judged")
    if _identity(now) != _identity(expected):
        raise PermanentFailure("the file was changed by somebody else meanwhile; read it again")


def _identity(found: os.stat_result | None) -> tuple[int, ...] | None:
    return found and (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _sync(folder: Folder) -> None:
    """Make the new name last; where the folder cannot be opened for that, the content is safe at least."""
    with suppress(OSError):
        handle = folder.listing()
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
