"""Build the seccomp filter for confined programs: which system calls fail. Pure: only bytes are made here.

Refused are the ways around all other confinement: tracing, mounting, new namespaces, io_uring (which reaches
refused system calls by another route) and the kernel's keyring. At levels below bubblewrap the filter also
refuses sockets, since Landlock covers only files and TCP. `landlock.py` and bubblewrap load it.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["MACHINES", "Sockets", "filter_program"]

# The name of the machine, its number in the audit's terms, and the numbers of its system calls.
_X86_64 = {
    "open": 2, "ioctl": 16, "socket": 41, "socketpair": 53, "clone": 56, "truncate": 76, "creat": 85,
    "chmod": 90, "fchmod": 91, "ptrace": 101, "mknod": 133, "syslog": 103, "uselib": 134, "modify_ldt": 154,
    "pivot_root": 155, "_sysctl": 156, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164,
    "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212, "clock_settime": 227, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "openat": 257, "mknodat": 259, "fchmodat": 268,
    "unshare": 272, "perf_event_open": 298, "fanotify_init": 300, "prlimit64": 302, "open_by_handle_at": 304,
    "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "lookup_dcookie": 18, "ioctl": 29, "mknodat": 33, "umount2": 39, "mount": 40, "pivot_root": 41,
    "nfsservctl": 42, "truncate": 45, "chroot": 51, "fchmod": 52, "fchmodat": 53, "openat": 56,
    "quotactl": 60, "acct": 89, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161,
    "setdomainname": 162, "settimeofday": 170, "adjtimex": 171, "socket": 198, "socketpair": 199,
    "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225,
    "perf_event_open": 241, "prlimit64": 261,
    "fanotify_init": 262, "open_by_handle_at": 265, "clock_adjtime": 266,
    "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
    "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
# From here on the numbers are the same everywhere.
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435,
    "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442, "quotactl_fd": 443, "fchmodat2": 452,
    "open_tree_attr": 467,
}  # fmt: skip

MACHINES: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "x86_64": (0xC000003E, {**_X86_64, **_EVERYWHERE}),
    "aarch64": (0xC00000B7, {**_AARCH64, **_EVERYWHERE}),
}
"""The machines a filter can be made for: the number by which the kernel names each, and its calls."""

_REFUSED = (
    "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp mount umount2 pivot_root fsopen "
    "fsconfig fsmount fspick move_mount open_tree open_tree_attr mount_setattr setns unshare chroot "
    "add_key request_key keyctl bpf perf_event_open userfaultfd kexec_load kexec_file_load "
    "init_module finit_module delete_module reboot swapon swapoff acct settimeofday clock_settime "
    "adjtimex clock_adjtime iopl ioperm modify_ldt open_by_handle_at quotactl quotactl_fd syslog "
    "sethostname setdomainname lookup_dcookie nfsservctl uselib _sysctl fanotify_init"
).split()
# Whoever is told that these do not exist falls back on calls that can be looked into.
_ABSENT = "clone3 openat2 io_uring_setup io_uring_enter io_uring_register".split()

_NEW_NAMESPACE = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_SET_ID = 0o6000
_CREATES = 0x00400040  # O_CREAT, or what makes O_TMPFILE more than O_DIRECTORY
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
_INJECTING = (0x5412, 0x541C)  # TIOCSTI types at a terminal, TIOCLINUX does so on a console
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000

_Step = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Sockets:
    """Which kinds of sockets a program may make: the numbers of address families."""

    families: Sequence[int]

    @classmethod
    def isolated(cls) -> Sockets:
        """Return what is harmless in a network namespace of its own: nothing in there leads outside."""
        return cls((_UNIX, _INET, _INET6, _NETLINK))

    @classmethod
    def shared(cls, *, network: bool) -> Sockets:
        """Return what may be had without one: no local sockets, for the host's services listen on them."""
        return cls((_INET, _INET6, _NETLINK) if network else ())


def filter_program(sockets: Sockets, also: Sequence[str] = (), machine: str | None = None) -> bytes | None:
    """Return the filter for a machine (by default this one), None where its calls are not known here.

    `also` names further calls to refuse.
    """
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    number, calls = known
    steps = [*_of_machine(number), *_by_number(calls, also), *_by_argument(calls, sockets)]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _of_machine(number: int) -> Iterator[_Step]:
    """Yield the steps that refuse calls by another machine's numbers: they would mean something else."""
    yield _LOAD, 0, 0, _MACHINE
    yield _EQUAL, 1, 0, number
    yield _failing(errno.ENOSYS)
    yield _LOAD, 0, 0, _NUMBER
    yield _AT_LEAST, 0, 1, _X32
    yield _failing(errno.ENOSYS)


def _by_number(calls: Mapping[str, int], also: Sequence[str]) -> Iterator[_Step]:
    for names, error in (((*_REFUSED, *also), errno.EPERM), (_ABSENT, errno.ENOSYS)):
        for name in names:
            if name in calls:
                yield _EQUAL, 0, 1, calls[name]
                yield _failing(error)


def _by_argument(calls: Mapping[str, int], sockets: Sockets) -> Iterator[_Step]:
    """Yield the steps for calls whose arguments decide."""
    yield from _when(calls["clone"], 0, _bits(_NEW_NAMESPACE, errno.EPERM))
    # A file that hands on its owner's rights would go on doing so once the program has ended.
    for name, position in _MODES.items():
        if name in calls:
            yield from _when(calls[name], position, _bits(_SET_ID, errno.EPERM))
    for name, position in (("open", 1), ("openat", 2)):
        if name in calls:
            made = [(_LOAD, 0, 0, _ARGUMENTS + 8 * (position + 1)), *_bits(_SET_ID, errno.EPERM)]
            yield from _when(calls[name], position, [(_ANY_BIT, 0, len(made), _CREATES), *made])
    injecting = [step for request in _INJECTING for step in ((_EQUAL, 0, 1, request), _failing(errno.EPERM))]
    yield from _when(calls["ioctl"], 1, injecting)
    # Of its own limits a program may change all it likes; it has no business with those of others.
    yield from _when(calls["prlimit64"], 0, [(_EQUAL, 1, 0, 0), _failing(errno.EPERM)])
    yield from _when(calls["socketpair"], 0, _only((_UNIX,)))
    yield from _when(calls["socket"], 0, _only(sockets.families))


def _when(number: int, argument: int, steps: Sequence[_Step]) -> Iterator[_Step]:
    """Yield steps that look at the low half of an argument of one call; the number is loaded again after."""
    yield _EQUAL, 0, len(steps) + 2, number
    yield _LOAD, 0, 0, _ARGUMENTS + 8 * argument
    yield from steps
    yield _LOAD, 0, 0, _NUMBER


def _bits(mask: int, error: int) -> list[_Step]:
    return [(_ANY_BIT, 0, 1, mask), _failing(error)]


def _only(families: Sequence[int]) -> list[_Step]:
    """Return steps that refuse every family but some: each of these jumps over the refusal."""
    last = len(families)
    return [
        *((_EQUAL, last - index, 0, family) for index, family in enumerate(families)),
        _failing(errno.EACCES),
    ]


def _failing(error: int) -> _Step:
    return _RETURN, 0, 0, _FAIL | error
