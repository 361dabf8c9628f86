"""Request an overlay over a program's folder, and receive a handle on what it wrote.

The reaper (`reaper.py`) mounts it in the forked process that becomes the program: in namespaces of its own,
at the folder's own path, with what is written in memory. The handle is all that leads there. It waits in a
socket until it is received, so what was written is gone when it, the program and the socket are: however the
program or this process ends, nothing is left behind. What is written to a `place` on a disk lies below that
folder, and its maker removes it.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import field

from leeward.security.lazy import dataclass

from .preparation import receive_handle

__all__ = ["Overlay"]


_STEPS = {
    "namespaces": "this system lets no user namespace be made for it",
    "folder": "the workspace could not be opened",
    "memory": "no file system in memory could be mounted for it",
    "disk": "no folder on the disk could be had for it",
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
    refused. What is written takes `size` bytes and `inodes` files and folders at most; `place` is the folder
    on a disk that it lies below, "" for memory. `problem` says why there is none, once that was received.
    """

    folder: str
    identity: tuple[int, int]
    size: int
    inodes: int
    place: str = ""
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
            "place": self.place,
        }

    def receive(self) -> int | None:
        """Return the handle on what was written, which the caller closes; None where none was sent."""
        try:
            word, handle = receive_handle(self._ends[0])
        except BlockingIOError:
            return None
        if handle is None:
            self.problem = _problem(*word.decode().split())
        return handle

    def close(self) -> None:
        """Give up what was not received."""
        for end in self._ends:
            end.close()


def _problem(step: str, number: str) -> str:
    """Say why there is no overlay, by the step that failed and the number of the error."""
    error = int(number)
    advice = _ADVICE.get((step, error))
    return f"{_STEPS[step]}: {os.strerror(error)}" + (f" ({advice})" if advice else "")
