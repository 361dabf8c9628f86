"""Prepare the forked process that becomes a program: its overlay, network and listener.

Part of the script `reaper.py`: only the standard library is imported, and little of that. What each step
sends through its channel, a handle or why there is none, `receive_handle` takes out at the other end.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from typing import Any

__all__ = ["lay_over", "leave_network", "receive_handle", "report_calls"]

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK = 0x10000000, 0x00020000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
_BACKLOG = 128
_LONGEST, _HANDLE = 100, 4
_PLAIN, _DETACH = ctypes.c_ulong(0x2 | 0x4), 2  # no set-id bits, no devices; once unused
_BIND = ctypes.c_ulong(0x1000)
_SPOT = b"/dev"
_SET_NO_NEW_PRIVS, _BY_FILTER, _TO_LISTENER, _UNTIL_KILLED = 38, 1, 8, 32


def lay_over(wanted: dict[str, Any], channel: socket.socket) -> None:
    """Lay an overlay over a folder, at its own path, for this process and what it starts.

    Only the channel gets a handle on what will be written, or the step that failed with its error's number.
    """
    step = "namespaces"
    try:
        _isolate(_NEW_MOUNTS)
        step = "folder"
        lower = os.open(wanted["folder"], os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        if [os.fstat(lower).st_dev, os.fstat(lower).st_ino] != wanted["identity"]:
            raise OSError(errno.ESTALE, "it is another folder by now")
        os.fchdir(lower)
        place, options = os.fsencode(wanted["place"]), f"size={wanted['size']},nr_inodes={wanted['inodes']}"
        step = "disk" if place else "memory"
        tmpfs = b"tmpfs", _PLAIN, f"{options},mode=700".encode()
        _call("mount", place or b"tmpfs", _SPOT, *((None, _BIND, None) if place else tmpfs))
        upper, work = (_folder(name, os.fstat(lower).st_mode & 0o7777) for name in (b"/upper", b"/work"))
        step = "overlay"
        # By descriptors instead of paths, nothing has to be escaped, and nothing can be swapped.
        layers = f"lowerdir=/proc/self/fd/{lower},upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{work}"
        _call("mount", b"none", b".", b"overlay", _PLAIN, f"{layers},userxattr,index=off,xino=off".encode())
        # From here on no name leads to what is written: only the overlay and the channel hold it.
        _call("umount2", _SPOT, _DETACH)
    except OSError as error:
        channel.send(f"{step} {error.errno}".encode())
        raise
    socket.send_fds(channel, [b"upper"], [upper])


def leave_network(port: int, channel: socket.socket, *, is_isolated: bool) -> None:
    """Enter a network in which nothing is but a loopback, and send out a socket that listens there.

    An error ends the start: what asked for a network of its own never runs in the machine's.
    """
    if is_isolated:
        _call("unshare", _NEW_NETWORK)
    else:
        _isolate(_NEW_NETWORK)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        loopback = bytearray(struct.pack("16sH22x", b"lo", 0))
        fcntl.ioctl(listening, _GET_FLAGS, loopback)
        flags = struct.unpack_from("H", loopback, 16)[0]
        fcntl.ioctl(listening, _SET_FLAGS, struct.pack("16sH22x", b"lo", flags | _UP))
        listening.bind(("127.0.0.1", port))
        listening.listen(_BACKLOG)
        socket.send_fds(channel, [b"listening"], [listening.fileno()])


def report_calls(wanted: dict[str, Any], channel: socket.socket) -> None:
    """Have system calls of this process, and of what it starts, reported to the other end of the channel.

    The channel gets the listener, or the error's number. From then on a call waits for its answer, and is
    interrupted by nothing but a death (Linux 5.19): else it would be made, and reported, again.
    """
    steps = bytes.fromhex(wanted["filter"])
    content = ctypes.create_string_buffer(steps, len(steps))
    program = struct.pack("=H6xQ", len(steps) // 8, ctypes.addressof(content))
    flags = ctypes.c_ulong(_TO_LISTENER | _UNTIL_KILLED)
    try:
        _call("prctl", _SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        opened = _call("syscall", ctypes.c_long(wanted["number"]), ctypes.c_ulong(_BY_FILTER), flags, program)
    except OSError as error:
        channel.send(str(error.errno).encode())
        raise
    socket.send_fds(channel, [b"listener"], [opened])
    os.close(opened)


def receive_handle(channel: socket.socket) -> tuple[bytes, int | None]:
    """Return what was sent through a channel, and the handle beside it, None where there was none.

    `socket.recv_fds` leaves its flags out (Python 3.11): it would wait, and the handle be inherited.

    Raises:
        BlockingIOError: nothing was sent yet.
    """
    flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    word, sent, _, _ = channel.recvmsg(_LONGEST, socket.CMSG_SPACE(_HANDLE), flags)
    return word, int.from_bytes(sent[0][2][:_HANDLE], sys.byteorder) if sent else None


def _isolate(kinds: int) -> None:
    """Enter namespaces that this process may change; the kernel keeps what it does there from all others."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW_USER | kinds)
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 — the same
            file.write(text)


def _folder(name: bytes, mode: int) -> int:
    os.mkdir(_SPOT + name)  # noqa: PTH102 — the same
    os.chmod(_SPOT + name, mode)  # noqa: PTH101 — the same
    return os.open(_SPOT + name, os.O_RDONLY | os.O_DIRECTORY)


def _call(name: str, *arguments: object) -> int:
    done = int(getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments))
    if done < 0:
        raise OSError(ctypes.get_errno(), name)
    return done
