"""Copy and delete files and folders beneath handles; a copy appears whole or not at all.

No link is followed: a link is copied as a link and deleted as one. What may be touched was checked before
(`tree_tools.py`). Everything here blocks.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, suppress

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure

from ..linux import rename_to_new
from .guard import HardLinks
from .handles import DirHandle, file_kind, shown_name
from .lines import blocks

__all__ = ["CopyEntry", "copy_entry", "delete_entry", "entries_of"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class CopyEntry:
    """Something in a folder; `relative` is "" for what was asked about itself."""

    relative: str
    found: os.stat_result


def entries_of(folder: DirHandle, name: str, most: int) -> Iterator[CopyEntry]:
    """Yield an entry of a folder and everything below it.

    Raises:
        PermanentFailure: there is more than may be touched at once.
        OSError: a folder could not be read.
    """
    found = os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
    yield CopyEntry("", found)
    seen, waiting = 1, [""] if stat.S_ISDIR(found.st_mode) else []
    while waiting:
        trio.from_thread.check_cancelled()
        relative = waiting.pop()
        with closing(folder.descend(f"{name}/{relative}".rstrip("/"))) as below, below.entries() as entries:
            for entry in entries:
                seen += 1
                if seen > most:
                    raise PermanentFailure(f"the folder holds more than {most} entries; do it part by part")
                inner = f"{relative}/{entry.name}".lstrip("/")
                yield CopyEntry(inner, entry.stat(follow_symlinks=False))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(inner)


def copy_entry(source: DirHandle, name: str, target: DirHandle, new_name: str, links: HardLinks) -> None:
    """Copy an entry to a name that nothing has; it appears there as a whole, or not at all.

    Raises:
        FileExistsError: something has the name.
        PolicyBlocked: a secret file would be copied by another of its names.
        PermanentFailure, OSError: something could not be read or written.
    """
    temporary = f".leeward-{secrets.token_hex(8)}.tmp"
    try:
        _copy(source, name, target, temporary, links)
        rename_to_new(target.handle, temporary, target.handle, new_name)
    except BaseException:
        with suppress(OSError):
            delete_entry(target, temporary)
        raise


def delete_entry(folder: DirHandle, name: str) -> None:
    """Delete an entry of a folder with everything below it.

    Raises:
        OSError: the system refused; some of what is below a folder may be gone by then.
    """
    if stat.S_ISDIR(os.stat(name, dir_fd=folder.handle, follow_symlinks=False).st_mode):
        # Where folders have handles it goes by these, so no link swapped in leads it elsewhere.
        shutil.rmtree(name, dir_fd=folder.handle)
    else:
        os.unlink(name, dir_fd=folder.handle)


def _copy(source: DirHandle, name: str, target: DirHandle, new_name: str, links: HardLinks) -> None:
    found = os.stat(name, dir_fd=source.handle, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(name, dir_fd=source.handle), new_name, dir_fd=target.handle)
    elif stat.S_ISREG(found.st_mode):
        _copy_file(source, name, target, new_name, links)
    elif stat.S_ISDIR(found.st_mode):
        _copy_folder(source, name, target, new_name, links)
    else:
        raise PermanentFailure(f"{shown_name(name)} is {file_kind(found)}, which is not copied")


def _copy_folder(source: DirHandle, name: str, target: DirHandle, new_name: str, links: HardLinks) -> None:
    os.mkdir(new_name, stat.S_IRWXU, dir_fd=target.handle)
    with closing(source.descend(name)) as inside, closing(target.descend(new_name)) as copy:
        with inside.entries() as entries:
            names = [entry.name for entry in entries]
        for below in names:
            _copy(inside, below, copy, below, links)
        # By its handle: with a link in place of the name, the target of that link would be changed.
        handle = copy.listing()
        try:
            os.fchmod(handle, stat.S_IMODE(os.fstat(inside.handle).st_mode) & 0o777)
        finally:
            os.close(handle)


def _copy_file(source: DirHandle, name: str, target: DirHandle, new_name: str, links: HardLinks) -> None:
    with os.fdopen(source.open_known_file(name), "rb", buffering=0) as original:
        found = os.fstat(original.fileno())
        links.must_be_none(found)
        # Nobody else reads it before it has the mode of the original.
        descriptor = os.open(new_name, _NEW, stat.S_IRUSR | stat.S_IWUSR, dir_fd=target.handle)
        with os.fdopen(descriptor, "wb") as copy:
            for block in blocks(original.fileno()):
                copy.write(block)
            copy.flush()
            os.fchmod(copy.fileno(), stat.S_IMODE(found.st_mode) & 0o777)
            os.fsync(copy.fileno())
        times = (found.st_atime_ns, found.st_mtime_ns)
        os.utime(new_name, ns=times, dir_fd=target.handle, follow_symlinks=False)
