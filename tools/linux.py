"""Linux system calls that Python lacks (openat2, renameat2, prctl, inotify), called through libc.

`openat2` opens a path of several parts beneath a handle in one step; the kernel follows no link on the way
and reaches nothing outside. Where a kernel, or what confines this process, lacks them, callers do without
(`files/handles.py`). prctl acts on the calling thread or process; the code that starts one decides when.
inotify reports changes by inode, by any process and through any mount or namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator
from enum import IntFlag
from functools import lru_cache
from typing import Any, NamedTuple

__all__ = [
    "FolderEvent",
    "Notice",
    "drop_capabilities",
    "exchange_names",
    "forbid_new_privileges",
    "has_openat2",
    "keep_from_debuggers",
    "load_filter",
    "open_beneath",
    "open_notices",
    "pending_notices",
    "rename_to_new",
    "set_subreaper",
    "system_call",
    "unwatch",
    "watch_folder",
]


# The same on every architecture that Python runs on but alpha, where they are simply not found.
_OPENAT2, _RENAMEAT2 = 437, {"x86_64": 316, "aarch64": 276, "riscv64": 276}.get(os.uname().machine)
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_NOREPLACE, _EXCHANGE = 1, 2
_ABSENT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG})


class _How(ctypes.Structure):
    """`struct open_how` of the kernel."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@lru_cache(maxsize=1)
def _syscall() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library.syscall


def open_beneath(handle: int, path: str, flags: int) -> int:
    """Open what lies beneath a folder's handle, following no link, and return the descriptor.

    Raises:
        OSError: the system refused; ELOOP means a link on the way.
    """
    how = _How(flags, 0, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    name = _name(path)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    opened = _syscall()(ctypes.c_long(_OPENAT2), ctypes.c_int(handle), name, ctypes.byref(how), size)
    if opened < 0:
        raise _error(path)
    return int(opened)


@lru_cache(maxsize=1)
def has_openat2() -> bool:
    """Whether the kernel has `openat2` and lets this process use it."""
    if not sys.platform.startswith("linux"):
        return False
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_beneath(root, ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def rename_to_new(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """Rename something to a name that nothing has.

    Raises:
        FileExistsError: something has the name.
        OSError: the system refused.
    """
    if _renamed((folder, name), (new_folder, new_name), _NOREPLACE):
        return
    # Not every kernel and file system can promise it; then it is looked at first.
    if _exists(new_folder, new_name):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)
    os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)


def exchange_names(folder: int, name: str, other: str) -> bool:
    """Exchange two names in a folder, in one step; False where that cannot be had here.

    Raises:
        OSError: the system refused.
    """
    return _renamed((folder, name), (folder, other), _EXCHANGE)


def _renamed(old: tuple[int, str], new: tuple[int, str], flag: int) -> bool:
    """Rename in a way that plain renaming does not know; False where kernel or file system lack it."""
    if not sys.platform.startswith("linux") or _RENAMEAT2 is None:
        return False
    (folder, name), (new_folder, new_name) = old, new
    number, names = ctypes.c_long(_RENAMEAT2), (_name(name), _name(new_name))
    handles = ctypes.c_int(folder), ctypes.c_int(new_folder)
    if not _syscall()(number, handles[0], names[0], handles[1], names[1], ctypes.c_uint(flag)):
        return True
    error = _error(new_name)
    if error.errno not in _ABSENT:
        raise error
    return False


def _name(path: str) -> ctypes.c_char_p:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        # The C library would read it as far as that, and open something else.
        raise ValueError("embedded null byte")
    return ctypes.c_char_p(encoded)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _error(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)


# The options of prctl(2), from `linux/prctl.h`.
_SET_DUMPABLE = 4
_SET_SECCOMP = 22
_CAPBSET_READ = 23
_CAPBSET_DROP = 24
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVS = 38
_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_FILTER = 2
_HIGHEST_CAPABILITY = 63


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: object, third: object = ctypes.c_ulong(0)) -> int:
    done = int(_library().prctl(option, value, third, ctypes.c_ulong(0), ctypes.c_ulong(0)))
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


def system_call(number: int, *arguments: object) -> int:
    """Make a system call by its number.

    Raises:
        OSError: the kernel refused it.
    """
    done = int(_library().syscall(ctypes.c_long(number), *arguments))
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return done


def forbid_new_privileges() -> None:
    """See that nothing this thread starts ever has more rights than it, whatever file it runs."""
    _prctl(_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))


def drop_capabilities() -> None:
    """See that nothing this thread starts has a capability of the superuser's, should it run as one."""
    _prctl(_CAP_AMBIENT, ctypes.c_ulong(_CLEAR_ALL), ctypes.c_ulong(0))
    for capability in range(_HIGHEST_CAPABILITY + 1):
        try:
            if _prctl(_CAPBSET_READ, ctypes.c_ulong(capability)):
                _prctl(_CAPBSET_DROP, ctypes.c_ulong(capability))
        except OSError as error:
            # EINVAL: beyond the last one this kernel has. EPERM: an ordinary user has none to hand on.
            if error.errno not in {errno.EINVAL, errno.EPERM}:
                raise


def load_filter(program: bytes) -> None:
    """Put this thread, and all that it starts, under a filter of system calls (`sandbox/seccomp`)."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    steps = ctypes.create_string_buffer(program, len(program))
    wanted = Program(len(program) // 8, ctypes.cast(steps, ctypes.c_void_p))
    _prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(wanted))


def set_subreaper(wanted: bool) -> None:
    """See that what is left of this process's children when their parents end becomes its own child."""
    if sys.platform == "linux":
        _prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(wanted))


def keep_from_debuggers() -> None:
    """See that other processes of the same user cannot trace this one or read its memory and environment."""
    if sys.platform == "linux":
        _prctl(_SET_DUMPABLE, ctypes.c_ulong(0))


# ------------------------------------------------------------------ inotify

_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_ONLYDIR, _DONT_FOLLOW = 0x01000000, 0x02000000
_EVENT = struct.Struct("iIII")
# A read fails with EINVAL if the next event does not fit; one takes at most 16 + NAME_MAX + 1 bytes.
_BUFFER = 1 << 16


class Notice(IntFlag):
    """What the kernel tells of a watched folder, of what lies in it, or of the queue (`inotify(7)`)."""

    ATTRIB = 0x4
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800
    UNMOUNT = 0x2000
    OVERFLOW = 0x4000
    IGNORED = 0x8000
    IS_FOLDER = 0x40000000


# All that changes which names a folder holds, what they mean, or who gets into it.
_NAMES = (
    Notice.ATTRIB
    | Notice.MOVED_FROM
    | Notice.MOVED_TO
    | Notice.CREATE
    | Notice.DELETE
    | Notice.DELETE_SELF
    | Notice.MOVE_SELF
)


class FolderEvent(NamedTuple):
    """A notice: the watch it belongs to (-1 for none), what it tells, and the name in the folder or ""."""

    watch: int
    notice: int
    name: str


def open_notices() -> int:
    """Return the descriptor of a queue of notices, which never waits and is not handed on.

    Raises:
        OSError: this system has none, or this user has too many.
    """
    opened = -1 if sys.platform != "linux" else _library().inotify_init1(ctypes.c_int(_NONBLOCK | _CLOEXEC))
    if opened < 0:
        number = ctypes.get_errno() or errno.ENOSYS
        raise OSError(number, os.strerror(number))
    return int(opened)


def watch_folder(queue: int, path: str) -> int:
    """Have all changes of names in a folder reported from now on, and return the number of the watch.

    A folder that is watched already, by whichever path, keeps its number.

    Raises:
        OSError: it is no folder that may be listed, or this user has too many watches (ENOSPC).
    """
    mask = ctypes.c_uint32(_NAMES | _ONLYDIR | _DONT_FOLLOW)
    watch = int(_library().inotify_add_watch(ctypes.c_int(queue), _name(path), mask))
    if watch < 0:
        raise _error(path)
    return watch


def unwatch(queue: int, watch: int) -> None:
    """End a watch; one that ended by itself is none to end."""
    _library().inotify_rm_watch(ctypes.c_int(queue), ctypes.c_int(watch))


def pending_notices(queue: int) -> Iterator[FolderEvent]:
    """Yield all that was reported up to now, without waiting."""
    while True:
        try:
            data = os.read(queue, _BUFFER)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, notice, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            yield FolderEvent(watch, notice, os.fsdecode(data[at - length : at].rstrip(b"\0")))
