"""Confine the calling thread to granted paths with Landlock (Linux 5.13 and newer).

`security/sandbox/confinement.py` decides which paths are granted; this file makes a Landlock ruleset of them.
A ruleset binds the calling thread and everything it starts from then on, and can never be taken off: call
this only on the thread that starts a supervisor. What the kernel's version of Landlock cannot restrict is
left to seccomp.
"""

from __future__ import annotations

import ctypes
import os
import posixpath
import stat
import struct
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from leeward.security.outcome import ToolError
from leeward.security.paths import is_inside
from leeward.security.sandbox import (
    Confinement,
    Masks,
    PathGrant,
    PathRight,
    folders_in_between,
    landlock_grants,
)

from ..files import opened_parent
from ..linux import drop_capabilities, forbid_new_privileges, load_filter, system_call
from .seccomp import Sockets, filter_program, reading_program

__all__ = [
    "confine_thread",
    "grants_around",
    "landlock_version",
    "made_scratch",
    "temporary_folder",
    "variables_of",
]

_HOME, _TEMPORARY = "home", "tmp"
"""What a folder for temporary files holds: a home, and where such files are put."""

# The numbers of the calls are the same on every architecture, as of all calls since Linux 5.1.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
# Removing and making of every kind, but for devices: REMOVE_DIR to MAKE_SYM without MAKE_CHAR, MAKE_BLOCK.
_CHANGE_ENTRIES = sum(1 << bit for bit in (4, 5, 7, 8, 9, 10, 12))
_ALL_OF_FIRST = (1 << 13) - 1

_RIGHTS = {
    PathRight.LIST: _READ_DIR,
    PathRight.READ: _READ_DIR | _READ_FILE | _EXECUTE,
    PathRight.WRITE: _READ_DIR | _READ_FILE | _EXECUTE | _WRITE_FILE | _TRUNCATE | _CHANGE_ENTRIES | _REFER,
    PathRight.DEVICE: _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE,
}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE

_CONNECT_AND_BIND = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


@lru_cache(maxsize=1)
def landlock_version() -> int:
    """Return which version of Landlock this kernel has, 0 where it has none."""
    if sys.platform != "linux":
        return 0
    try:
        return system_call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except OSError:
        return 0


def confine_thread(grants: Iterable[PathGrant], *, network: bool, reads_only: bool = False) -> None:
    """Confine the calling thread to what is granted; there is no way back.

    With `reads_only` it is kept from all that Landlock does not know, too, and has no network.

    Raises:
        OSError: the kernel refused, or a system call's number is not known for this machine.
    """
    version = landlock_version()
    if reads_only:
        program = reading_program(version)
    else:
        program = filter_program(Sockets.shared(network=network), keeps_length=version < 3)
    if program is None:
        raise OSError(0, "the system calls of this machine are not known here")
    ruleset = _ruleset(version, network=network)
    try:
        for grant in grants:
            _add(ruleset, grant, _handled(version))
        forbid_new_privileges()
        drop_capabilities()
        system_call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    load_filter(program)


def _handled(version: int) -> int:
    later = ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEVICE))
    return _ALL_OF_FIRST | sum(right for since, right in later if version >= since)


def _ruleset(version: int, *, network: bool) -> int:
    """Make a ruleset that refuses everything; each field is one that this version knows."""
    fields = [_handled(version)]
    if version >= 4:
        fields.append(0 if network else _CONNECT_AND_BIND)
    if version >= 6:
        fields.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    wanted = struct.pack(f"={len(fields)}Q", *fields)
    return system_call(_CREATE_RULESET, wanted, ctypes.c_size_t(len(wanted)), ctypes.c_uint32(0))


def _opened(path: str) -> int:
    """Open what is granted, through no link: it leads where a program that runs already may want it to."""
    if path == "/":
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    with opened_parent(path) as (folder, name):
        # A link itself grants nothing: what it leads to has a grant of its own, or none.
        return os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder.handle)


def _add(ruleset: int, grant: PathGrant, handled: int) -> None:
    try:
        opened = _opened(grant.path)
    except (ToolError, FileNotFoundError, PermissionError, NotADirectoryError):
        # What cannot even be looked at cannot be granted, and is refused by the kernel anyway.
        return
    try:
        mode = os.fstat(opened).st_mode
        if stat.S_ISLNK(mode):
            return
        rights = _RIGHTS[grant.right] & handled
        if not stat.S_ISDIR(mode):
            rights &= _OF_FILES
        if rights:
            rule = struct.pack("=Qi", rights, opened)
            system_call(
                _ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)
            )
    finally:
        os.close(opened)


# ------------------------------------------------------------------ what a program is granted


def grants_around(
    confinement: Confinement, masks: Masks, scratch: str, *, sees_processes: bool = True
) -> tuple[PathGrant, ...]:
    """Return what a thread may be confined to now; this waits for the disk."""
    tops = (*confinement.readable, *confinement.writable)
    shut = (spot.path for spot in (*masks.hidden, *masks.unwritable))
    listed = {folder: _names(folder) for folder in folders_in_between(tops, shut)}
    # What is granted is opened through no link, and these lead where the person had them lead.
    readable = tuple(map(os.path.realpath, confinement.readable))
    resolved = replace(confinement, readable=(*confinement.readable, *readable))
    return landlock_grants(resolved, masks, scratch, listed, sees_processes=sees_processes)


def _names(folder: str) -> tuple[str, ...]:
    """Return what lies in a folder but for links: what those lead to is granted for itself, or not."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries if not entry.is_symlink()))
    except OSError:
        return ()


def temporary_folder(within: str | None = None) -> str:
    """Make a folder that is nobody else's."""
    return os.path.realpath(tempfile.mkdtemp(prefix="leeward-", dir=within))


def made_scratch(confinement: Confinement, within: str | None = None) -> str:
    """Make a folder for temporary files, and a home that holds but what may be read of the real one."""
    folder = temporary_folder(within)
    for name in (_HOME, _TEMPORARY):
        Path(folder, name).mkdir()
    linked: list[str] = []
    for path in sorted(confinement.readable):
        is_there = is_inside(path, confinement.home) and not is_inside(path, *linked)
        if is_there and Path(path).exists():
            link = Path(folder, _HOME, posixpath.relpath(path, confinement.home))
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
            linked.append(path)
    return folder


def variables_of(scratch: str) -> dict[str, str]:
    """Return where a program finds a home of its own, if none can be put in the place of the real one."""
    return {"HOME": f"{scratch}/{_HOME}", "TMPDIR": f"{scratch}/{_TEMPORARY}"} if scratch else {}
