"""Start `leeward` as its own process without the cost of importing it each time.

One process per test session has imported everything and forks: what it forks gets the command line, folder,
environment and standard streams it is asked for, and ends as an interpreter ends. What only a new interpreter
shows (how it starts, what it imports, streams that bash closed) is tested with the real console script.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

SCRIPT = str(Path(sys.executable).with_name("leeward"))
NUMBER = struct.Struct("!q")
# What an interpreter is told by its environment when it starts, and no later.
_START = {"LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}


class Preloaded:
    """The process that forks, and what is needed to ask it."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self._lock = threading.Lock()
        with theirs:
            around = {"PATH": os.environ["PATH"], **_START}
            argv = [sys.executable, __file__, str(theirs.fileno())]
            self._server = subprocess.Popen(
                argv,
                env=around,
                pass_fds=[theirs.fileno()],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def close(self) -> None:
        self._ours.close()
        self._server.wait()

    def start(self, words: Sequence[str], **options: Any) -> Started:
        """Start `leeward` with the options of `subprocess.Popen`, `closed` streams, `terminal` for a pty."""
        return Started([SCRIPT, *words], self._fork, **options)

    def run(
        self,
        words: Sequence[str],
        *,
        input: Any = None,  # noqa: A002 - the name it has in `subprocess`
        timeout: float = 60,
        **options: Any,
    ) -> subprocess.CompletedProcess[Any]:
        """Run `leeward` to its end, as `subprocess.run(capture_output=True)` does."""
        given = subprocess.DEVNULL if input is None else subprocess.PIPE
        pipes = {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.start(words, **(pipes | options)) as process:
            try:
                out, err = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def _fork(self, asked: dict[str, Any], streams: Sequence[int]) -> tuple[int, socket.socket]:
        """Return the number of a new process, and the socket that tells how it ended."""
        status, theirs = socket.socketpair()
        data = json.dumps(asked).encode()
        with theirs, self._lock:
            socket.send_fds(self._ours, [NUMBER.pack(len(data))], [theirs.fileno(), *streams])
            self._ours.sendall(data)
        return NUMBER.unpack(_received(status, NUMBER.size))[0], status


class Started(subprocess.Popen[Any]):
    """A process that was forked, with the interface of one that was started."""

    def __init__(
        self,
        argv: Sequence[str],
        fork: Callable[..., tuple[int, socket.socket]],
        *,
        closed: Sequence[int] = (),
        terminal: bool = False,
        **options: Any,
    ) -> None:
        self._fork, self._closed, self._terminal = fork, closed, terminal
        self._status: socket.socket | None = None
        super().__init__(argv, **options)

    def _execute_child(
        self, args: Any, _1: Any, _2: Any, _3: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        """Fork instead: what `subprocess` calls with all it was told, the six ends of the pipes among it."""
        assert not pass_fds, "only the standard streams are handed on"
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[3:9]
        streams = dict(enumerate((p2cread, c2pwrite, errwrite)))
        streams = {number: number if handle == -1 else handle for number, handle in streams.items()}
        given = [number for number in streams if number not in self._closed]
        asked = {
            "argv": args,
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "streams": given,
            "session": bool(rest[14]) or self._terminal,
            "terminal": self._terminal,
        }
        self.pid, self._status = self._fork(asked, [streams[number] for number in given])
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _internal_poll(self, _deadstate: Any = None, **_: Any) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._status is not None and _readable(self._status, timeout):
            with self._status as status:
                self.returncode = os.waitstatus_to_exitcode(NUMBER.unpack(_received(status, NUMBER.size))[0])
        return self.returncode


def _readable(handle: socket.socket, timeout: float | None) -> bool:
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    return bool(waiting.poll(None if timeout is None else timeout * 1000))


def _received(handle: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = handle.recv(size - len(data))
        if not more:
            raise EOFError("the process that forks has ended, or its client has")
        data += more
    return data


def _import_everything() -> None:
    # It stops the collector first, as it does at each start.
    importlib.import_module("leeward.__main__")
    for found in pkgutil.walk_packages(importlib.import_module("leeward").__path__, "leeward."):
        if found.name not in {"leeward.__main__", "leeward.testing"}:
            importlib.import_module(found.name)
    _find_out_once()
    # Shared with whatever is forked, and not looked through at its end.
    gc.freeze()


def _find_out_once() -> None:
    """Read the built-in tools, and look through the toolchains of this machine, for all that is forked."""
    policy = importlib.import_module("leeward.security.policy").Policy("/nonexistent/ws", "/nonexistent")
    builtin = importlib.import_module("leeward.tools.builtin")
    builtin.builtin_tools(builtin.BuiltinSettings(policy.workspace, policy.home, None, None, None, policy))
    sys.path.append(str(Path(__file__).with_name("support")))
    importlib.import_module("toolchains").look_once_at_toolchains(now=True)
    del sys.path[-1]


def _serve(control: socket.socket) -> Callable[[], Any] | None:
    """Fork for whoever asks, until nobody can; return in each forked process what it is there for."""
    ended: list[int] = []
    while True:
        try:
            head, handles, _, _ = socket.recv_fds(control, NUMBER.size, 4)
            if not head:
                raise EOFError
            head += _received(control, NUMBER.size - len(head))
            asked = json.loads(_received(control, NUMBER.unpack(head)[0]))
        except EOFError:
            return None
        ended = [pid for pid in ended if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        if (watcher := os.fork()) == 0:
            return _watched(asked, handles)
        ended.append(watcher)
        for handle in handles:
            os.close(handle)


def _watched(asked: dict[str, Any], handles: list[int]) -> Callable[[], Any]:
    """Fork once more; the parent tells who it is and how it ended, and nothing else."""
    pid = os.fork()
    if pid == 0:
        os.close(handles[0])
        return partial(_become, asked, handles[1:])
    for handle in handles[1:]:
        os.close(handle)
    status = socket.socket(fileno=handles[0])
    # Whoever asked may be gone by now: then there is nobody to tell.
    try:
        status.sendall(NUMBER.pack(pid))
        status.sendall(NUMBER.pack(os.waitpid(pid, 0)[1]))
    finally:
        os._exit(0)


def _become(asked: Mapping[str, Any], handles: list[int]) -> int:
    """Be the console script, started as it was asked for."""
    if asked["session"]:
        os.setsid()
    # Out of the way of the numbers they are to have.
    high = [os.dup(handle) if handle < 3 else handle for handle in handles]
    held = dict(zip(asked["streams"], high, strict=True))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        kind = getattr(sys, name)
        if number in held:
            os.dup2(held[number], number)
            mode = "w" if number else "r"
            stream = open(number, mode, encoding=kind.encoding, errors=kind.errors, closefd=False)
            if number == 2:
                stream.reconfigure(line_buffering=True)
        else:
            os.close(number)
            stream = None
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for handle in {*handles, *high} - {0, 1, 2}:
        os.close(handle)
    if asked["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.argv = asked["argv"]
    return importlib.import_module("leeward.__main__").main()


if __name__ == "__main__":
    # The folder of this file is nobody's to import from.
    del sys.path[0]
    _import_everything()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with socket.socket(fileno=int(sys.argv[1])) as control:
        there_for = _serve(control)
    if there_for is not None:
        sys.exit(there_for())
