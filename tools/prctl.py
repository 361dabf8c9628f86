"""What does a process ask of the kernel about itself? The few calls that Python has no function for (Linux).

Every one takes effect on the calling thread or the process; whoever starts processes decides when.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import lru_cache

__all__ = [
    "drop_capabilities",
    "forbid_new_privileges",
    "keep_from_debuggers",
    "load_filter",
    "set_subreaper",
    "system_call",
]

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
    """Put this thread, and all that it starts, under a filter of system calls (`seccomp.py`)."""

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
