"""Make an upper layer as a trial run leaves it, in namespaces of a child process.

The child mounts the overlay as `tools/sandbox` documents it (tmpfs, `userxattr`, no name left for the upper),
runs shell lines in it without capabilities, says what the merged tree looked like at the end, and sends the
handle of the upper. `why_not` says why that cannot be done on this machine.
"""

from __future__ import annotations

import array
import ctypes
import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from leeward.tools.files import DirHandle
from leeward.tools.linux import drop_capabilities, forbid_new_privileges

_NEWNS, _NEWUSER, _REC, _SLAVE, _DETACH, _NOSUID, _NODEV = 0x20000, 0x10000000, 0x4000, 0x80000, 2, 2, 4

View = dict[str, tuple[Any, ...]]


@dataclass
class MadeUpper:
    """What a run wrote, the clock of the workspace before it, and the merged tree that its programs saw."""

    handle: int
    began: int
    lower: DirHandle
    view: View
    exits: list[int]


def view(root: str) -> View:
    """Return names, kinds, modes, contents, targets and files' times below a folder, read with any mode."""
    found: View = {}
    _look(root, "", found)
    return found


def _look(root: str, folder: str, found: View) -> None:
    with opened(f"{root}/{folder}"):
        for name in sorted(entry.name for entry in Path(root, folder).iterdir()):
            path = f"{folder}/{name}" if folder else name
            found[path] = _entry(f"{root}/{path}")
            if found[path][0] == "folder":
                _look(root, path, found)


@contextmanager
def opened(path: str) -> Iterator[None]:
    """Let an owner read something whatever its mode says; its mode is put back."""
    mode = os.lstat(path).st_mode
    wanted = os.R_OK | os.X_OK if stat.S_ISDIR(mode) else os.R_OK
    if os.access(path, wanted, effective_ids=True):
        yield
        return
    Path(path).chmod(stat.S_IMODE(mode) | 0o700)
    try:
        yield
    finally:
        Path(path).chmod(stat.S_IMODE(mode))


def _entry(path: str) -> tuple[Any, ...]:
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return "link", 0, str(Path(path).readlink()), 0
    if stat.S_ISDIR(status.st_mode):
        return "folder", mode, "", 0
    if not stat.S_ISREG(status.st_mode):
        return "other", mode, stat.S_IFMT(status.st_mode), 0
    with opened(path), Path(path).open("rb") as file:
        return "file", mode, hashlib.file_digest(file, "sha256").hexdigest(), status.st_mtime_ns


@contextmanager
def upper_of(
    workspace: Path | str, *lines: str, size: str = "64m", real: Sequence[str] = ()
) -> Iterator[MadeUpper]:
    """Run lines of a shell in an overlay over a workspace; `real` are run in the real one, after them."""
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as told:
        # The workspace's own file system tells the time, and not before another tick of its clock.
        began = _clock(str(workspace))
        lower = DirHandle(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        order = json.dumps({"root": str(workspace), "lines": lines, "size": size})
        child = subprocess.run(
            [sys.executable, __file__, str(theirs.fileno()), str(told.fileno())],
            input=order, text=True, errors="surrogateescape", capture_output=True, check=False,
            pass_fds=(theirs.fileno(), told.fileno()),
        )  # fmt: skip
        if child.returncode:
            lower.close()
            raise RuntimeError(child.stderr)
        for line in real:
            subprocess.run(line, shell=True, cwd=workspace, check=True)
        told.seek(0)
        answer = json.loads(told.read())
        handles = array.array("i")
        _, control, _, _ = ours.recvmsg(1, socket.CMSG_LEN(handles.itemsize))
        handles.frombytes(control[0][2])
        seen = {path: tuple(entry) for path, entry in answer["view"].items()}
        try:
            yield MadeUpper(handles[0], began, lower, seen, answer["exits"])
        finally:
            os.close(handles[0])
            lower.close()


def _clock(root: str) -> int:
    """Return a time of the file system's clock that is later than all that was done before."""
    first = _tick(root)
    while (now := _tick(root)) == first:
        pass
    return now


def _tick(root: str) -> int:
    with tempfile.TemporaryFile(dir=root) as file:
        return os.fstat(file.fileno()).st_ctime_ns


@lru_cache(maxsize=1)
def why_not() -> str:
    """Return why no overlay can be had here, "" where it can."""
    if not sys.platform.startswith("linux"):
        return "overlays are Linux"
    with tempfile.TemporaryDirectory() as made:
        try:
            Path(made, "a").write_text("a")
            with upper_of(made, "echo b >>a"):
                return ""
        except (RuntimeError, OSError) as error:
            return f"no overlay in a user namespace: {str(error).strip()[-200:]}"


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    library = ctypes.CDLL(None, use_errno=True)
    texts = [ctypes.c_char_p(os.fsencode(text)) for text in (source, target, kind)]
    if library.mount(*texts, ctypes.c_ulong(flags), ctypes.c_char_p(os.fsencode(data))):
        raise OSError(ctypes.get_errno(), f"mount {kind} {data}")


def _overlay(root: str, size: str) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if library.unshare(_NEWUSER | _NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("none", "/", "none", _REC | _SLAVE)
    spot = "/tmp" if not root.startswith("/tmp") else "/var"
    _mount("tmpfs", spot, "tmpfs", _NOSUID | _NODEV, f"size={size},mode=700")
    mode = stat.S_IMODE(Path(root).stat().st_mode)
    Path(spot, "w").mkdir()
    Path(spot, "u").mkdir()
    Path(spot, "u").chmod(mode)
    handle = os.open(f"{spot}/u", os.O_RDONLY | os.O_DIRECTORY)
    lower = "".join(f"\\{c}" if c in "\\:," else c for c in root)
    data = f"lowerdir={lower},upperdir={spot}/u,workdir={spot}/w,userxattr"
    _mount("overlay", root, "overlay", _NOSUID | _NODEV, data)
    library.umount2(os.fsencode(spot), _DETACH)
    return handle


def _program(line: str) -> int:
    child = os.fork()
    if child == 0:
        drop_capabilities()
        forbid_new_privileges()
        os.execv("/bin/sh", ["sh", "-c", os.fsencode(line)])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    """Be the child."""
    connection, told = (int(text) for text in sys.argv[1:])
    order = json.loads(sys.stdin.read())
    handle = _overlay(order["root"], order["size"])
    os.chdir(order["root"])
    exits = [_program(line) for line in order["lines"]]
    with os.fdopen(told, "wb") as out:
        out.write(json.dumps({"exits": exits, "view": view(".")}).encode())
    rights = array.array("i", [handle])
    with socket.socket(fileno=connection) as sock:
        sock.sendmsg([b"u"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


if __name__ == "__main__":
    main()
