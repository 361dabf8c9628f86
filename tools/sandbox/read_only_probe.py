"""Test by a real run whether programs can run read-only in a workspace.

A program of ours runs in a folder of ours on the workspace's file system, and tries everything that must
fail: to change contents, names, modes, times and attributes, and to reach other processes by sockets,
signals, shared memory and the kernel's keyring. What changed is checked from outside. Read-only runs are
unavailable if a single attempt succeeds, if one goes unnoticed, or if the test cannot be carried out.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.sandbox import Masks, SandboxLevel, read_only_confinement

from ..process import SEARCH_PATH
from .program import Program
from .read_only import ReadOnlyRan, confined

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["no_reading_because"]

_LONGEST = 20.0
_OLD = b"old\n"
_READ = "it was read"

# Run inside, with the standard library only: it prints what could be read, and what can be seen there alone.
_SCRIPT = """
import ctypes, fcntl, mmap, os, signal, socket, sys
folder, victim, space, ipc, machine, tcp, path = sys.argv[1:]
victim, tcp = int(victim), int(tcp)
libc = ctypes.CDLL(None, use_errno=True)
file, tree = folder + "/kept", folder + "/tree"

def attempt(name, function, sees=False):
    try: done = function()
    except Exception: return
    if sees and done is not False: print("OUT", name)

def call(*words):
    return libc.syscall(*(ctypes.c_long(word) if isinstance(word, int) else word for word in words)) >= 0

print(open(file).read().strip() == "old" and "READ")
handle, opened = os.open(file, os.O_RDONLY), os.open(tree, os.O_RDONLY)
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_TRUNC, 3 | os.O_TRUNC):
    attempt("open", lambda: os.write(os.open(file, flags), b"x"))
    attempt("open again", lambda: os.write(os.open(f"/proc/self/fd/{handle}", flags), b"x"))
attempt("truncate", lambda: os.truncate(file, 1))
attempt("ftruncate", lambda: os.ftruncate(handle, 1))
attempt("map", lambda: mmap.mmap(handle, 0, prot=3).write(b"x"))
attempt("make", lambda: open(folder + "/new", "w"))
attempt("nameless", lambda: os.open(folder, os.O_TMPFILE | os.O_RDWR), True)
attempt("mkdir", lambda: os.mkdir(folder + "/new folder"))
attempt("fifo", lambda: os.mkfifo(folder + "/fifo"))
attempt("link", lambda: os.link(file, folder + "/linked"))
attempt("symlink", lambda: os.symlink(file, folder + "/symbolic"))
attempt("rename", lambda: os.rename(file, folder + "/renamed"))
attempt("move", lambda: os.rename(file, tree + "/renamed"))
attempt("unlink", lambda: os.unlink(file))
attempt("rmdir", lambda: os.rmdir(tree))
for one in (file, tree, handle, opened):
    attempt("chmod", lambda: os.chmod(one, 0o777))
    attempt("chown", lambda: os.chown(one, -1, os.getgid()))
    attempt("utime", lambda: os.utime(one, (1, 1)))
    attempt("setxattr", lambda: os.setxattr(one, "user.leeward", b"x"))
    attempt("removexattr", lambda: os.removexattr(one, "user.kept"))
for name in ("chmod", "chown"):
    attempt("l" + name, lambda: getattr(libc, name)(file.encode(), 0o777))
attempt("fchmodat2", lambda: call(452, -100, file.encode(), 0o777, 0))
for number in (463, 466, 469):
    attempt("later", lambda: call(number, -100, file.encode(), 0, b"user.leeward", b"x" * 64, 64))
for one in (handle, opened):
    attempt("flags", lambda: fcntl.ioctl(one, 0x40086602, b"\\x40\\0\\0\\0\\0\\0\\0\\0"))
    attempt("terminal", lambda: fcntl.ioctl(one, 0x5412, b"x"), True)
attempt("socket file", lambda: socket.socket(socket.AF_UNIX).bind(folder + "/socket"))

def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as made:
        made.settimeout(2)
        made.connect(address)
        made.sendall(b"out")

attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", tcp)))
attempt("local", lambda: connect(socket.AF_UNIX, path + "/s"))
pair = lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]
attempt("datagram", lambda: pair().sendto(b"out", path + "/d"))
attempt("named", lambda: connect(socket.AF_UNIX, chr(0) + path))
if os.readlink("/proc/self/ns/pid") == space:
    attempt("kill", lambda: os.kill(victim, 0), True)
    attempt("queue", lambda: signal.pidfd_send_signal(os.pidfd_open(victim), 0), True)
    attempt("limits", lambda: call({"x86_64": 302, "aarch64": 261}[machine], victim, 7, None, None), True)
    attempt("priority", lambda: os.setpriority(0, victim, os.getpriority(0, victim)), True)
    attempt("arguments", lambda: open(f"/proc/{victim}/cmdline").read(), True)
    attempt("trace", lambda: libc.ptrace(16, victim, None, None) == 0, True)
numbers = {"x86_64": (29, 68, 64, 250), "aarch64": (194, 186, 190, 219)}[machine]
if os.readlink("/proc/self/ns/ipc") == ipc:
    attempt("shared memory", lambda: call(numbers[0], 0x1ee4, 4096, 0o1600), True)
    attempt("messages", lambda: call(numbers[1], 0x1ee4, 0o1600), True)
    attempt("semaphores", lambda: call(numbers[2], 0x1ee4, 1, 0o1600), True)
attempt("keyring", lambda: call(numbers[3], 0, -3, 0), True)
attempt("io_uring", lambda: call(425, 1, b"\\0" * 120), True)
for flags in (0x10000000, 0x20000, 0x10000000 | 0x20000):
    if not os.fork():
        attempt("namespace", lambda: libc.unshare(flags) == 0, True)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
attempt("mount", lambda: libc.mount(folder.encode(), tree.encode(), None, 4096, None) == 0, True)
print("END")
"""


async def no_reading_because(sandbox: Sandbox) -> str:
    """Return why nothing can be run read-only here, nothing where it can: found by a real run, once."""
    return await sandbox.reading.problem_by(partial(_probed, sandbox))


async def _probed(sandbox: Sandbox) -> str:
    if sandbox.level is SandboxLevel.NONE:
        return f"read-only runs need a sandbox ({'; '.join(sandbox.weaker_because) or 'none is asked for'})"
    usual = read_only_confinement(sandbox.confinement)
    folder = ""
    try:
        folder = await trio.to_thread.run_sync(_made, usual.workspace)
        before = _state(folder)
        with _listening() as (place, sockets):
            readable = (*(path for path in usual.readable if path != usual.workspace), folder)
            confinement = replace(usual, workspace=folder, readable=readable)
            ran = await confined(sandbox, _program(folder, place, sockets), confinement, Masks())
            reached = [name for name, one in sockets.items() if _was_reached(one)]
        return _judged(before, _state(folder), folder, ran, reached)
    except (PermanentFailure, PolicyBlocked, OSError) as error:
        return str(error)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


def _program(folder: str, place: str, sockets: dict[str, socket.socket]) -> Program:
    spaces = (os.readlink(f"/proc/self/ns/{name}") for name in ("pid", "ipc"))  # noqa: PTH115 — a text
    port = str(sockets["tcp"].getsockname()[1])
    words = (folder, str(os.getpid()), *spaces, os.uname().machine, port, place)
    argv = [sys.executable, "-I", "-S", "-c", _SCRIPT, *words]
    return Program(argv, folder, {"PATH": SEARCH_PATH}, trio.current_time() + _LONGEST, 64 << 10)


def _judged(before: object, after: object, folder: str, ran: ReadOnlyRan, reached: list[str]) -> str:
    """Say what went through, or what shows that the probe itself was not made."""
    finished = ran.ran.finished
    lines = finished.stdout.splitlines()
    out = [line.removeprefix("OUT ") for line in lines if line.startswith("OUT ")]
    if before != after:
        return "a read-only run changed a file, its name, mode, times or attributes"
    if reached or out:
        return f"a read-only run got through to what it must not reach: {', '.join((*reached, *out))}"
    if "READ" not in lines or "END" not in lines or finished.exit_code != 0:
        return finished.stderr.strip().rpartition("\n")[2] or "the simplest read-only run failed"
    if not {f"{folder}/kept", f"{folder}/new"} <= {*ran.wishes}:
        return "attempted writes of read-only runs cannot be detected on this machine"
    return ""


def _made(workspace: str) -> str:
    """Make a folder on the workspace's file system: beside other temporary ones, if they lie on it."""
    beside = tempfile.gettempdir()
    parent = beside if Path(beside).stat().st_dev == Path(workspace).stat().st_dev else workspace
    folder = os.path.realpath(tempfile.mkdtemp(prefix=".leeward-probe-", dir=parent))
    try:
        Path(folder, "tree").mkdir()
        Path(folder, "kept").write_bytes(_OLD)
        for path in (folder, f"{folder}/tree", f"{folder}/kept"):
            # Not every file system has attributes of users; then there are none to be changed.
            _give_attribute(path)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _give_attribute(path: str) -> None:
    try:
        os.setxattr(path, "user.kept", b"x")
    except OSError:
        return


def _state(folder: str) -> dict[str, object]:
    """Return all that can be seen of a folder and what lies in it, but when it was read."""
    found: dict[str, object] = {}
    for path in (folder, *sorted(map(str, Path(folder).rglob("*")))):
        status = os.lstat(path)
        content = Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else b""
        numbers = (status.st_mode, status.st_ino, status.st_nlink, status.st_uid, status.st_gid)
        found[path] = (*numbers, status.st_mtime_ns, status.st_ctime_ns, content)
    return found


@contextmanager
def _listening() -> Iterator[tuple[str, dict[str, socket.socket]]]:
    """Yield sockets that nobody may reach, and the folder in which two of them lie."""
    place = tempfile.mkdtemp(prefix="leeward-")
    kinds: dict[str, tuple[int, int, tuple[str, int] | str]] = {
        "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        "local": (socket.AF_UNIX, socket.SOCK_STREAM, f"{place}/s"),
        "datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, f"{place}/d"),
        "named": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{place}"),
    }
    made: dict[str, socket.socket] = {}
    try:
        for name, (family, kind, address) in kinds.items():
            made[name] = socket.socket(family, kind)
            made[name].setblocking(False)
            made[name].bind(address)
            if kind == socket.SOCK_STREAM:
                made[name].listen()
        yield place, made
    finally:
        for one in made.values():
            one.close()
        shutil.rmtree(place, ignore_errors=True)


def _was_reached(listening: socket.socket) -> bool:
    try:
        if listening.type == socket.SOCK_STREAM:
            listening.accept()[0].close()
        else:
            listening.recv(16)
    except BlockingIOError:
        return False
    return True
