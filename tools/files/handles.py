"""Open judged paths beneath directory handles, so that a path swapped after judging is never opened.

A judged path has no links in it, so none is followed when it is opened: by `openat2` where the kernel has it,
else component by component. A link found on the way means that the path is not what was judged, and is
refused. Everything here blocks and belongs in a thread. Which path may be opened is not checked here.
"""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from leeward.security.outcome import PermanentFailure, PolicyBlocked, ToolError

from ..linux import has_openat2, open_beneath

__all__ = ["CHANGED", "DirHandle", "failure", "file_kind", "open_folder", "opened_parent", "shown_name"]

_SEARCH = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_LIST = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_RDONLY
# Not blocking, in case it became a FIFO just now; a regular file knows no difference.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NAMED = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_BY_HANDLE = "/proc/self/fd/" if hasattr(os, "O_PATH") else ""
_NAMES_COMPARED = 2_000

_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

CHANGED = "a link appeared where there was none when the path was judged"
"""The reason for a path that leads elsewhere by now."""


class DirHandle:
    """An open handle on a folder; names in it are opened beneath it and never followed."""

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle: int = handle

    def stat(self, name: str) -> os.stat_result | None:
        """Return what the name is, itself and not what it may point to; None where there is nothing."""
        try:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self, name: str) -> int:
        """Open a regular file for reading and return its descriptor.

        Raises:
            PolicyBlocked: it is a link.
            PermanentFailure: it is not a file, or does not exist; the message has the nearest name.
            OSError: the system refused.
        """
        found = self.stat(name)
        if found is None:
            raise PermanentFailure(f"there is no {shown_name(name)} in this folder{self.nearest(name)}")
        # Looked at before it is opened, too: opening a device can be all that it takes.
        _must_be_file(found)
        return self.open_known_file(name)

    def open_known_file(self, name: str) -> int:
        """Open what a listing of this folder called a regular file; one look less than `open_file`.

        Raises:
            PolicyBlocked, PermanentFailure, OSError: it is something else by now, or the system refused.
        """
        with _no_links():
            descriptor = os.open(name, _READ, dir_fd=self.handle)
        return _checked(descriptor)

    def set_mode(self, name: str, mode: int) -> None:
        """Set the mode of a file or folder itself, whatever it is now; a link has none and is refused.

        Raises:
            PolicyBlocked: it is a link.
            OSError: the system refused.
        """
        if not _BY_HANDLE:
            os.chmod(name, mode, dir_fd=self.handle, follow_symlinks=False)
            return
        handle = os.open(name, _NAMED, dir_fd=self.handle)
        try:
            if stat.S_ISLNK(os.fstat(handle).st_mode):
                raise PolicyBlocked(CHANGED)
            # The handle only names the file, which needs no right to it; the way through /proc can change it.
            os.chmod(f"{_BY_HANDLE}{handle}", mode)  # noqa: PTH101 — a handle, not a path
        finally:
            os.close(handle)

    def listing(self) -> int:
        """Return a second handle on this folder that can be listed; the caller closes it."""
        return os.open(".", _LIST, dir_fd=self.handle)

    def descend(self, relative: str) -> DirHandle:
        """Open a folder below this one, component by component; the caller closes it.

        Raises:
            PolicyBlocked, PermanentFailure, OSError: as `opened_parent`.
        """
        return DirHandle(_descend(os.dup(self.handle), relative))

    @contextmanager
    def entries(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        """Yield the entries of this folder, in no order.

        Raises:
            OSError: it may not be listed.
        """
        handle = self.listing()
        try:
            with os.scandir(handle) as entries:
                yield entries
        finally:
            os.close(handle)

    def close(self) -> None:
        """Give the handle back."""
        os.close(self.handle)

    def nearest(self, name: str) -> str:
        """Return "; did you mean …?" with the name in this folder most like another, or nothing."""
        names: list[str] = []
        with suppress(OSError), self.entries() as entries:
            names.extend(entry.name for entry in islice(entries, _NAMES_COMPARED))
        near = difflib.get_close_matches(name, names, n=1)
        return f"; did you mean {shown_name(near[0])}?" if near else ""


@contextmanager
def opened_parent(path: str, *, create_below: str | None = None) -> Iterator[tuple[DirHandle, str]]:
    """Open the folder a judged path lies in; yields it and the path's last component.

    Args:
        path: absolute, without links.
        create_below: folders missing below this one are made.

    Raises:
        PolicyBlocked: a component is a link.
        PermanentFailure: a component is missing or no folder, or the path is the root itself.
        OSError: the system refused.
    """
    *folders, name = path.strip("/").split("/")
    if not name:
        raise PermanentFailure("the root folder is no file")
    handle = _descend(os.open("/", _SEARCH), "/".join(folders), create_below)
    try:
        yield DirHandle(handle), name
    finally:
        os.close(handle)


@contextmanager
def open_folder(path: str) -> Iterator[DirHandle]:
    """Open a judged path that is a folder.

    Raises:
        PolicyBlocked, PermanentFailure, OSError: as `opened_parent`.
    """
    handle = _descend(os.open("/", _SEARCH), path)
    try:
        yield DirHandle(handle)
    finally:
        os.close(handle)


def _checked(descriptor: int) -> int:
    """Return a descriptor if it is that of a regular file, and close it otherwise."""
    try:
        _must_be_file(os.fstat(descriptor))
    except ToolError:
        os.close(descriptor)
        raise
    return descriptor


def _descend(handle: int, path: str, create_below: str | None = None) -> int:
    """Open a folder beneath a handle, which is used up."""
    if path and has_openat2():
        # What it refuses is gone through step by step: that makes what is missing, or says what is wrong.
        with suppress(OSError, ValueError):
            below = open_beneath(handle, path, _SEARCH)
            os.close(handle)
            return below
    return _walk(handle, path, create_below)


def _walk(handle: int, path: str, create_below: str | None) -> int:
    """Open a folder component by component beneath a handle, which is used up."""
    walked = ""
    try:
        for name in filter(None, path.split("/")):
            may_create = create_below is not None and f"{walked}/".startswith(create_below.rstrip("/") + "/")
            walked = f"{walked}/{name}"
            below = _step(handle, name, walked, may_create=may_create)
            os.close(handle)
            handle = below
    except BaseException:
        os.close(handle)
        raise
    return handle


def _step(handle: int, name: str, walked: str, *, may_create: bool) -> int:
    if may_create:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=handle)
    try:
        with _no_links():
            return os.open(name, _SEARCH, dir_fd=handle)
    except NotADirectoryError:
        # A link to a folder is also "not a directory" where links are not followed.
        found = DirHandle(handle).stat(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise PolicyBlocked(CHANGED) from None
        raise PermanentFailure(f"{shown_name(walked)} is not a folder") from None
    except FileNotFoundError:
        near = DirHandle(handle).nearest(name)
        raise PermanentFailure(f"there is no folder {shown_name(walked)}{near}") from None


@contextmanager
def _no_links() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PolicyBlocked(CHANGED) from error
        raise


def _must_be_file(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PolicyBlocked(CHANGED)
    if not stat.S_ISREG(found.st_mode):
        hint = "; list_directory shows what is in it" if stat.S_ISDIR(found.st_mode) else ""
        raise PermanentFailure(f"the path is {file_kind(found)}, not a file{hint}")


def file_kind(found: os.stat_result) -> str:
    """Return what an entry is, in words."""
    return _KINDS.get(stat.S_IFMT(found.st_mode), "something else")


def shown_name(name: str) -> str:
    """Return a name as text that can be shown: what is not printable becomes an escape."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def failure(doing: str) -> Iterator[None]:
    """Tell what the system refused as the failure of the tool.

    Raises:
        PermanentFailure: an OSError came up, or a name that no disk can hold.
    """
    try:
        yield
    except OSError as error:
        raise PermanentFailure(f"{doing} failed: {error.strerror or error}") from error
    except ValueError as error:
        raise PermanentFailure(f"{doing} failed: {error}") from error
