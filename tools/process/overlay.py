"""Ask for an overlay over the folder of one program, and receive a handle on what the program wrote.

The reaper (`reaper.py`) mounts it in the forked process that becomes the program: in namespaces of its own,
at the folder's own path, with what is written in memory. The handle is all that leads there. It waits in a
socket until it is received, so what was written is gone when it, the program and the socket are: however the
program or this process ends, nothing is left behind.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from dataclasses import dataclass, field

__all__ = ["Overlay"]

_LONGEST, _HANDLE = 100, 4

_STEPS = {
    "namespaces": "this system lets no user namespace be made for it",
    "folder": "the workspace could not be opened",
    "memory": "no file system in memory could be mounted for it",
    "overlay": "the kernel lays no overlay over the workspace",
}
_ADVICE = {
    ("namespaces", errno.ENOSPC): "sysctl user.max_user_namespaces says how many there may be",
    ("namespaces", errno.EPERM): "a container or kernel.apparmor_restrict_unprivileged_userns may forbid it",
    ("memory", errno.EPERM): "kernel.apparmor_restrict_unprivileged_userns may forbid it",
    ("memory", errno.EACCES): "kernel.apparmor_restrict_unprivileged_userns may forbid it",
    ("overlay", errno.ENODEV): "the kernel has no overlay file system",
    (
        "overlay",
        errno.EINVAL,
    ): "it lies on overlays already, something is mounted in it, or the kernel is too old",
}


@dataclass(slots=True)
class Overlay:
    """An overlay over a folder, for one program.

    `folder` is absolute and resolved, and `identity` its device and inode: another one in its place is
    refused. What is written takes `size` bytes and `inodes` files and folders at most. `problem` says why
    there is none, once that was received.
    """

    folder: str
    identity: tuple[int, int]
    size: int
    inodes: int
    problem: str = ""
    _ends: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    @property
    def channel(self) -> int:
        """The descriptor that the handle is sent through."""
        return self._ends[1].fileno()

    def wanted(self) -> dict[str, object]:
        """Return what the reaper needs to know."""
        return {
            "folder": self.folder,
            "identity": list(self.identity),
            "size": self.size,
            "inodes": self.inodes,
        }

    def receive(self) -> int | None:
        """Return the handle on what was written, which the caller closes; None where none was sent."""
        # `socket.recv_fds` leaves its flags out (Python 3.11): it would wait, and the handle be inherited.
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            told, sent, _, _ = self._ends[0].recvmsg(_LONGEST, socket.CMSG_SPACE(_HANDLE), flags)
        except BlockingIOError:
            return None
        if sent:
            return int.from_bytes(sent[0][2][:_HANDLE], sys.byteorder)
        self.problem = _problem(*told.decode().split())
        return None

    def close(self) -> None:
        """Give up what was not received."""
        for end in self._ends:
            end.close()


def _problem(step: str, number: str) -> str:
    """Say why there is no overlay, by the step that failed and the number of the error."""
    error = int(number)
    advice = _ADVICE.get((step, error))
    return f"{_STEPS[step]}: {os.strerror(error)}" + (f" ({advice})" if advice else "")
