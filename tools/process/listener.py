"""Request notification of chosen system calls of one program, and receive the listener.

The reaper (`reaper.py`) loads the filter in the forked process that becomes the program, and sends the
listener's descriptor through a socket. Its holder answers each call; once nobody holds it, the kernel lets
these calls fail (ENOSYS), so a program that nobody listens to any more changes nothing.
"""

from __future__ import annotations

import os
import socket
from dataclasses import field

from leeward.security.lazy import dataclass

from .preparation import receive_handle

__all__ = ["Listener"]

_NUMBERS = {"x86_64": 317, "aarch64": 277}


@dataclass(slots=True)
class Listener:
    """What tells of calls of one program, by a `filter` (`sandbox/seccomp/filter.py`).

    `problem` says why there is none, once that was received.
    """

    filter: bytes
    problem: str = ""
    _ends: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    @property
    def channel(self) -> int:
        """The descriptor that the listener is sent through."""
        return self._ends[1].fileno()

    @property
    def arrival(self) -> int:
        """The descriptor that becomes readable once there is something to receive."""
        return self._ends[0].fileno()

    def wanted(self) -> dict[str, object]:
        """Return what the reaper needs to know."""
        return {"filter": self.filter.hex(), "number": _NUMBERS.get(os.uname().machine, -1)}

    def receive(self) -> int | None:
        """Return the listener, which the caller closes; None where none was sent."""
        try:
            word, handle = receive_handle(self._ends[0])
        except BlockingIOError:
            return None
        if handle is None and word:
            self.problem = f"the kernel does not report system calls: {os.strerror(int(word))}"
        return handle

    def close(self) -> None:
        """Give up what was not received."""
        for end in self._ends:
            end.close()
