"""Build the seccomp filter that makes chosen system calls fail. Pure: returns bytes.

Refused are the ways around all other confinement: tracing, mounting, new namespaces, io_uring (which reaches
refused system calls by another route) and the kernel's keyring. At levels below bubblewrap the filter also
refuses sockets, since Landlock covers only files and TCP. `landlock.py` and bubblewrap load it.

For read-only runs there are two more. Below bubblewrap `reading_program` lets nothing through but calls that
are known to change nothing else. `noticing_program` refuses nothing: it reports the calls by which a program
wishes to change a file (`wishes.py`), whatever then keeps it from that.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from leeward.security.lazy import dataclass

from .system_calls import CHANGES_ATTRIBUTES, HARMLESS, MACHINES, SIGNALS

__all__ = ["Sockets", "filter_program", "noticing_program", "reading_program"]

_REFUSED = (
    "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp mount umount2 pivot_root fsopen "
    "fsconfig fsmount fspick move_mount open_tree open_tree_attr mount_setattr setns unshare chroot "
    "add_key request_key keyctl bpf perf_event_open userfaultfd kexec_load kexec_file_load "
    "init_module finit_module delete_module reboot swapon swapoff acct settimeofday clock_settime "
    "adjtimex clock_adjtime iopl ioperm modify_ldt open_by_handle_at quotactl quotactl_fd syslog "
    "sethostname setdomainname lookup_dcookie nfsservctl uselib _sysctl fanotify_init"
).split()
# A program that finds these missing falls back on calls that can be looked into.
_ABSENT = "clone3 openat2 io_uring_setup io_uring_enter io_uring_register".split()

_NEW_NAMESPACE = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_SET_ID = 0o6000
_CREATES = 0x00400040  # O_CREAT, or what makes O_TMPFILE more than O_DIRECTORY
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
_INJECTING = (0x5412, 0x541C)  # TIOCSTI types at a terminal, TIOCLINUX does so on a console
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _PACKETS, _TYPE = 1, 5, 0xF  # kinds of sockets, and the bits that tell the kind
_ACCESS, _CUTS = 0o3, 0o1000  # how a file is opened, and that it is cut short
_TO_WRITE = 0o3 | 0o100 | _CUTS  # to be written, made or cut short
_MAY_WRITE = 2  # the question of `access` whether something may be written
_SET_FLAGS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
# What a terminal is like, what there is to read, and whether a descriptor survives the start of a program.
_QUESTIONS = (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)

# Opcodes of classic BPF (`linux/bpf_common.h`), what a filter may return (`linux/seccomp.h`), and the offsets
# in the `seccomp_data` that it reads: of the call's number, the architecture and the first argument.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _FAIL, _TELL = 0x7FFF0000, 0x00050000, 0x7FC00000
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


def filter_program(
    sockets: Sockets, machine: str | None = None, *, keeps_length: bool = False
) -> bytes | None:
    """Return the filter for a machine (by default this one), None where its calls are not known here.

    With `keeps_length` no program can truncate a file that it may not write: for a Landlock that allows it.
    """
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    number, calls = known
    also = ("truncate",) if keeps_length else ()
    steps = [*_of_machine(number), *_by_number(calls, also), *_by_argument(calls, sockets)]
    steps += _keeping_length(calls) if keeps_length else ()
    return _packed([*steps, (_RETURN, 0, 0, _ALLOW)])


def reading_program(landlock: int, machine: str | None = None) -> bytes | None:
    """Return the filter for a program that reads only, kept in by this version of Landlock.

    What is known to change modes, times and attributes, and to reach other processes, fails; so does every
    call that is not known to be harmless. Before version 6 Landlock does not keep signals in, so there are
    none but to the own group.
    """
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    number, calls = known
    steps = [*_of_machine(number), *_by_number(calls, CHANGES_ATTRIBUTES)]
    steps += _by_argument(calls, Sockets.shared(network=False))
    steps += _keeping_length(calls) if landlock < _CUTS_SINCE else ()
    for name, argument in (("sched_setaffinity", 0), ("setpriority", 1)):
        steps += _when(calls[name], argument, [(_EQUAL, 1, 0, 0), _failing(errno.EPERM)])
    last = len(_QUESTIONS)
    asking = [(_EQUAL, last - index, 0, request) for index, request in enumerate(_QUESTIONS)]
    steps += _when(calls["ioctl"], 1, [*asking, _failing(errno.ENOTTY)])
    harmless = [*HARMLESS, *(["truncate"] if landlock >= _CUTS_SINCE else [])]
    if landlock >= _SIGNALS_SINCE:
        harmless += SIGNALS
    else:
        steps += _when(calls["kill"], 0, [(_EQUAL, 1, 0, 0), _failing(errno.EPERM)])
        harmless.append("kill")
    for name in harmless:
        if name in calls:
            steps += ((_EQUAL, 0, 1, calls[name]), (_RETURN, 0, 0, _ALLOW))
    return _packed([*steps, _failing(errno.ENOSYS)])


def noticing_program(names: Sequence[str], machine: str | None = None) -> bytes | None:
    """Return a filter that reports calls before they are made, as far as they may change a file."""
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    number, calls = known
    tell = (_RETURN, 0, 0, _TELL)
    steps = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, number), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _NUMBER)]
    for name in names:
        if name not in calls:
            continue
        if name in _FLAGGED:
            argument, mask = _FLAGGED[name]
            steps += _when(calls[name], argument, [(_ANY_BIT, 0, 1, mask), tell])
        elif name == "ioctl":
            setting = [step for request in _SET_FLAGS for step in ((_EQUAL, 0, 1, request), tell)]
            steps += _when(calls[name], 1, setting)
        else:
            steps += ((_EQUAL, 0, 1, calls[name]), tell)
    return _packed([*steps, (_RETURN, 0, 0, _ALLOW)])


_FLAGGED = {
    "open": (1, _TO_WRITE),
    "openat": (2, _TO_WRITE),
    "access": (1, _MAY_WRITE),
    "faccessat": (2, _MAY_WRITE),
    "faccessat2": (2, _MAY_WRITE),
}
_CUTS_SINCE, _SIGNALS_SINCE = 3, 6


def _packed(steps: Iterable[_Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _keeping_length(calls: Mapping[str, int]) -> Iterator[_Step]:
    """Yield the steps against cutting a file short that is opened for reading: no right to write is asked."""
    for name, position in (("open", 1), ("openat", 2)):
        if name in calls:
            # With both bits of the access set a file is opened for neither, and cut short all the same.
            cut = [(_AND, 0, 0, _ACCESS | _CUTS), (_EQUAL, 1, 0, _CUTS), (_EQUAL, 0, 1, _CUTS | _ACCESS)]
            cut.append(_failing(errno.EACCES))
            yield from _when(calls[name], position, cut)


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
    if _UNIX not in sockets.families:
        # One of a pair of datagram sockets can send to any address; of these each knows but the other one.
        yield from _when(calls["socketpair"], 1, [(_AND, 0, 0, _TYPE), *_only((_STREAM, _PACKETS))])
    yield from _when(calls["socket"], 0, _only(sockets.families))


def _when(number: int, argument: int, steps: Sequence[_Step]) -> Iterator[_Step]:
    """Yield steps that look at the low half of an argument of one call; the number is loaded again after."""
    yield _EQUAL, 0, len(steps) + 2, number
    yield _LOAD, 0, 0, _ARGUMENTS + 8 * argument
    yield from steps
    yield _LOAD, 0, 0, _NUMBER


def _bits(mask: int, error: int) -> list[_Step]:
    return [(_ANY_BIT, 0, 1, mask), _failing(error)]


def _only(values: Sequence[int]) -> list[_Step]:
    """Return steps that refuse every value but some: each of these jumps over the refusal."""
    last = len(values)
    return [*((_EQUAL, last - index, 0, value) for index, value in enumerate(values)), _failing(errno.EACCES)]


def _failing(error: int) -> _Step:
    return _RETURN, 0, 0, _FAIL | error
