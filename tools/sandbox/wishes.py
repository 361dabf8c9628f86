"""Record what a read-only program tries to write, from the system calls it makes.

Neither its output nor its exit code shows that. So the kernel reports every call that may change a file
before it executes it (`process/listener.py`); the paths are looked up here, and the kernel continues the
call. It is a mount or Landlock that prevents the change, never this record. A program that changes the
arguments of a call meanwhile only hides from the person what it could not do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import posixpath
import select
import stat
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from enum import Enum, auto

from leeward.security.lazy import dataclass, regex
from leeward.security.paths import is_inside

from ..process import Listener
from .seccomp import MACHINES, noticing_program

__all__ = ["NOTICED", "Wishes"]


class _Needs(Enum):
    """What has to be there, or not to be, for a call to get as far as writing."""

    SOMETHING = auto()
    NOTHING = auto()
    EITHER = auto()


_HERE, _EMPTY = -100, ""
# From `os`, since the numbers differ between machines: O_NOFOLLOW is another bit on ARM than on x86. The last
# two are only on Linux, as is all of this.
_CREATES, _EXCLUSIVE, _NO_LINK = os.O_CREAT, os.O_EXCL, os.O_NOFOLLOW
_PATH_ALONE = getattr(os, "O_PATH", 0o10000000)
_NAMELESS = getattr(os, "O_TMPFILE", 0o20000000) & ~os.O_DIRECTORY

# The positions of (folder, path) in a call's arguments, None for none, and what has to be at that path.
_Place = tuple[int | None, int | None, _Needs]
_THERE, _NEW = _Needs.SOMETHING, _Needs.NOTHING
_ALONE: _Place = (None, 0, _THERE)
_AT: _Place = (0, 1, _THERE)
_OPENED: _Place = (0, None, _THERE)

_PLACES: Mapping[str, tuple[_Place, ...]] = {
    **dict.fromkeys(("rmdir", "unlink", "truncate", "chmod", "chown", "lchown", "access"), (_ALONE,)),
    **dict.fromkeys(("setxattr", "lsetxattr", "removexattr", "lremovexattr", "utime", "utimes"), (_ALONE,)),
    **dict.fromkeys(("unlinkat", "fchmodat", "fchmodat2", "fchownat", "utimensat", "futimesat"), (_AT,)),
    **dict.fromkeys(("faccessat", "faccessat2", "setxattrat", "removexattrat", "file_setattr"), (_AT,)),
    **dict.fromkeys(("fchmod", "fchown", "fsetxattr", "fremovexattr", "ioctl"), (_OPENED,)),
    **dict.fromkeys(("mkdir", "mknod"), ((None, 0, _NEW),)),
    **dict.fromkeys(("mkdirat", "mknodat"), ((0, 1, _NEW),)),
    "symlink": ((None, 1, _NEW),),
    "symlinkat": ((1, 2, _NEW),),
    "link": ((None, 1, _NEW),),
    "linkat": ((2, 3, _NEW),),
    "rename": (_ALONE, (None, 1, _Needs.EITHER)),
    "renameat": (_AT, (2, 3, _Needs.EITHER)),
    "renameat2": (_AT, (2, 3, _Needs.EITHER)),
    "creat": ((None, 0, _Needs.EITHER),),
    "open": ((None, 0, _Needs.EITHER),),
    "openat": ((0, 1, _Needs.EITHER),),
}
_FLAGS = {"open": 1, "openat": 2}

NOTICED = (*_PLACES, "bind")
"""The calls that are reported."""

# SECCOMP_IOCTL_NOTIF_RECV, _SEND and _ID_VALID (`linux/seccomp.h`). Each number encodes the size of its
# structure, so the layouts below cannot change without a new number.
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_TOLD, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_GO_ON = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_LONGEST_PATH = 4096  # PATH_MAX, with the zero at its end
_MOST_LINKS = 40  # MAXSYMLINKS: the kernel fails with ELOOP behind more
_MOST_WISHES = 500
_MOST_CALLS = 200_000  # looked up for one program; every one of them waits for it
_OWN_HANDLE = regex(r"/(?:proc/(?:self|thread-self)|dev)/fd/(\d+)")
_LOCAL = 1


@dataclass(slots=True)
class Wishes:
    """The paths that one program wishes to change in a workspace (absolute, resolved), as far as reported.

    `paths` are those it tried, in that order. `is_cut` tells that there may be more.
    """

    workspace: str
    listener: Listener
    launcher: str = ""
    paths: dict[str, None] = field(default_factory=dict)
    is_cut: bool = False
    _ends: tuple[int, int] = field(default_factory=os.pipe)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _is_open: bool = True
    _is_listening: bool = False
    _calls: int = 0

    @classmethod
    def of(cls, workspace: str, launcher: str = "") -> Wishes | None:
        """Return what notices wishes; calls of the program `launcher` are none. None on unknown machines."""
        program = noticing_program(NOTICED)
        return None if program is None else cls(workspace, Listener(program), launcher)

    def listen(self) -> None:
        """Answer every call until all that could make one is gone, or `close` is called; this waits.

        What it waits at is its own until it returns: a file system that does not answer may hold it up.
        """
        with self._turn:
            if not self._is_open:
                return
            self._is_listening = True
        opened = None
        try:
            opened = self._arrived()
            if opened is None:
                return
            poll = select.poll()
            poll.register(opened, select.POLLIN)
            poll.register(self._ends[0], select.POLLIN)
            while self._ends[0] not in (ready := dict(poll.poll())):
                if not ready[opened] & select.POLLIN:
                    return
                self._answer(opened)
        finally:
            if opened is not None:
                os.close(opened)
            self._give_back()

    def _arrived(self) -> int | None:
        """Wait for the listener, and return it; None where there is none."""
        poll = select.poll()
        for one in (self.listener.arrival, self._ends[0]):
            poll.register(one, select.POLLIN)
        ready = dict(poll.poll())
        return self.listener.receive() if self.listener.arrival in ready else None

    def close(self) -> None:
        """Have `listen` return, if it was called; once is enough."""
        with self._turn:
            if not self._is_open:
                return
            self._is_open = False
            os.close(self._ends[1])
            if not self._is_listening:
                self._give_back()

    def _give_back(self) -> None:
        self.listener.close()
        os.close(self._ends[0])

    def _answer(self, opened: int) -> None:
        """Take in one call, and let the kernel continue it."""
        received = bytearray(_TOLD.size)
        try:
            fcntl.ioctl(opened, _RECEIVE, received)
        except OSError:
            # It ended before it was asked after; or a signal came between.
            return
        ident, pid, _, number, _, _, *arguments = _TOLD.unpack(received)
        self._calls += 1
        try:
            if self._calls > _MOST_CALLS or len(self.paths) >= _MOST_WISHES:
                self.is_cut = True
            else:
                found = list(_Call(pid, number, arguments, self.launcher).wished())
                # By now the number could be another process's: then the call is over.
                fcntl.ioctl(opened, _IS_VALID, struct.pack("=Q", ident))
                self.paths.update(dict.fromkeys(path for path in found if is_inside(path, self.workspace)))
        except (OSError, ValueError, OverflowError) as error:
            # It keeps others from looking at it; all else is a call that fails anyway, or is over.
            self.is_cut |= isinstance(error, PermissionError)
        finally:
            with suppress(OSError):
                fcntl.ioctl(opened, _SEND, _ANSWER.pack(ident, 0, 0, _GO_ON))


# ------------------------------------------------------------------ what a call is about


_NAMES = {
    machine: {number: name for name, number in calls.items()} for machine, (_, calls) in MACHINES.items()
}.get(os.uname().machine, {})


@dataclass(frozen=True, slots=True)
class _Call:
    """A system call that waits for its answer; what it names is read in the process that makes it."""

    pid: int
    number: int
    arguments: list[int]
    launcher: str

    def wished(self) -> Iterator[str]:
        """Yield what it would change, with no links left in the path.

        Raises:
            OSError: the process is gone, or what it names cannot be looked at.
        """
        if self.launcher and os.readlink(f"/proc/{self.pid}/exe") == self.launcher:  # noqa: PTH115 — a text
            return
        name = _NAMES[self.number]
        if name == "bind":
            yield from self._bound()
            return
        flags = self.arguments[_FLAGS[name]] if name in _FLAGS else 0
        if flags & _PATH_ALONE:
            return
        for folder, path, needs in _PLACES[name]:
            found = self._at(folder, path, follows=not flags & _NO_LINK and name not in _OF_LINKS)
            if found is None:
                return
            mode = self._mode(found)
            if name in _FLAGS and not _is_to_be_written(flags, mode):
                return
            if (needs is _THERE and mode is None) or (needs is _NEW and mode is not None):
                return
            if mode is None and self._mode(posixpath.dirname(found)) is None:
                return
            yield found

    def _bound(self) -> Iterator[str]:
        """Yield the path of a local socket that would be made."""
        address = self._memory(self.arguments[1], min(self.arguments[2] & 0xFFFFFFFF, 128))
        if len(address) > 2 and int.from_bytes(address[:2], "little") == _LOCAL and address[2]:
            yield self._resolved(
                self._whole(_HERE, os.fsdecode(address[2:].partition(b"\0")[0])), follows=False
            )

    def _at(self, folder: int | None, path: int | None, *, follows: bool) -> str | None:
        """Return what a call names, resolved; None for what is no path."""
        base = _HERE if folder is None else _signed(self.arguments[folder])
        text = _EMPTY
        if path is not None and self.arguments[path]:
            text = os.fsdecode(self._memory(self.arguments[path], _LONGEST_PATH).partition(b"\0")[0])
        if text == _EMPTY and base == _HERE:
            return None
        whole = self._whole(base, text)
        return self._resolved(whole, follows=follows) if whole.startswith("/") else None

    def _whole(self, base: int, text: str) -> str:
        if text.startswith("/"):
            return text
        where = "cwd" if base == _HERE else f"fd/{base}"
        return posixpath.join(os.readlink(f"/proc/{self.pid}/{where}"), text).rstrip("/")  # noqa: PTH115

    def _memory(self, address: int, size: int) -> bytes:
        handle = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(handle, size, address)
        finally:
            os.close(handle)

    def _mode(self, path: str) -> int | None:
        """Return the kind and rights of what is at a path in the process's own tree, None for nothing."""
        try:
            return os.lstat(f"/proc/{self.pid}/root{path}").st_mode
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR}:
                return None
            raise

    def _resolved(self, path: str, *, follows: bool) -> str:
        """Follow links as the process itself would; what is not there keeps its name."""
        if handle := _OWN_HANDLE.fullmatch(path):
            return os.readlink(f"/proc/{self.pid}/fd/{handle[1]}")  # noqa: PTH115 — a text
        left, done, links = _parts(path), "", 0
        while left:
            name = left.pop()
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            there = f"{done}/{name}"
            if not (left or follows) or not stat.S_ISLNK(self._mode(there) or 0):
                done = there
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, "too many links")
            target = os.readlink(f"/proc/{self.pid}/root{there}")  # noqa: PTH115 — a text
            left += _parts(target)
            done = "" if target.startswith("/") else done
        return done or "/"


_OF_LINKS = frozenset(
    "rmdir unlink unlinkat rename renameat renameat2 mkdir mkdirat mknod mknodat symlink symlinkat link "
    "linkat lchown lsetxattr lremovexattr".split()
)


def _parts(path: str) -> list[str]:
    """Return the names in a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def _is_to_be_written(flags: int, mode: int | None) -> bool:
    """Whether a file that is opened so would be written or made: of special files nothing on the disk is."""
    if mode is None:
        return bool(flags & _CREATES)
    if stat.S_ISDIR(mode):
        return flags & _NAMELESS == _NAMELESS
    return stat.S_ISREG(mode) and not (flags & _CREATES and flags & _EXCLUSIVE)


def _signed(value: int) -> int:
    """Return a descriptor as the kernel takes it: of an argument the lower half."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
