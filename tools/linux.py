"""Which calls of Linux does Python not have? `openat2` and `renameat2`, made through the C library.

`openat2` opens a path of several parts beneath a handle in one step, and the kernel sees to it that no
link on the way is followed and nothing is reached that does not lie below. Where a kernel, or what
confines this process, does not have them, callers do without (`beneath.py`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import lru_cache
from typing import Any

__all__ = ["has_openat2", "open_beneath", "rename_to_new"]

# The same on every architecture that Python runs on but alpha, where they are simply not found.
_OPENAT2, _RENAMEAT2 = 437, {"x86_64": 316, "aarch64": 276, "riscv64": 276}.get(os.uname().machine)
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_NOREPLACE = 1
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
        OSError: the system refused; ELOOP stands for a link on the way.
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
    if sys.platform.startswith("linux") and _RENAMEAT2 is not None:
        names = [_name(name), _name(new_name)]
        handles = [ctypes.c_int(one) for one in (folder, new_folder)]
        flags = ctypes.c_uint(_NOREPLACE)
        number = ctypes.c_long(_RENAMEAT2)
        if not _syscall()(number, handles[0], names[0], handles[1], names[1], flags):
            return
        error = _error(new_name)
        if error.errno not in _ABSENT:
            raise error
    # Not every kernel and file system can promise it; then it is looked at first.
    if _exists(new_folder, new_name):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)
    os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)


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
