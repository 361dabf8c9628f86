"""What keeps a session's programs together, and ends them when it is gone? A process, run as a script.

    keeper.py CONTROL

It waits at CONTROL, a socket, for jobs: one byte each, with descriptors. For every job it forks a keeper,
which starts the program, collects what the program leaves behind, and ends all of that when its leash is
let go of: closed, or left by a process that died. So whatever a program starts has somebody above it who
outlives both the program and the one who wanted it. The standard library only, and little of that.

The descriptors of a job: the job as JSON (`argv`, `cwd`, `env`, `niceness`, `limits`), standard output,
standard error, the leash, the one to tell, and those the program gets, from number 40 on. Told is
"keeper PID", then "failed ERRNO" or, as `waitpid` has it, "ended STATUS".
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any

__all__ = ["FIRST_DESCRIPTOR", "children", "descendants", "end_all"]

FIRST_DESCRIPTOR = 40
"""The number of the first descriptor that a program is given, beyond what is open here."""

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_IS_LINUX = sys.platform == "linux"
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_MOST_DESCRIPTORS = 16
_ROUNDS = 400
_PAUSE = 0.005


# ------------------------------------------------------------------ a tree of processes


def children(pid: int) -> list[int]:
    """Return the children of a process. Only Linux tells; elsewhere there are none."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 — pathlib costs more than the rest of this
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:  # noqa: PTH123 — the same
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def descendants(root: int, most: int = sys.maxsize) -> list[int]:
    """Return every process below one, parents first; those that ended and were not reaped yet left out.

    No more are looked for once there are `most`: what forks all the time could be followed for ever.
    """
    found = [root]
    for pid in found:
        if len(found) > most:
            break
        found += children(pid)
    return [pid for pid in found[1:] if not _has_ended(pid)]


def _has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 — the same
            return file.read().rpartition(b")")[2].split()[0] in b"ZX"
    except OSError:
        return True


def end_all(root: int, spared: Iterable[int] = ()) -> bool:
    """Stop, then kill everything below a process until nothing is left; whether that was achieved.

    What is stopped starts nothing more, so the tree cannot grow faster than it is cut. `spared` processes
    are left alone, and what is below them.
    """
    kept = {pid for one in spared for pid in (one, *descendants(one))}
    for _ in range(_ROUNDS):
        stopped: set[int] = set()
        while new := [pid for pid in descendants(root) if pid not in stopped and pid not in kept]:
            stopped.update(new)
            _signal(new, signal.SIGSTOP)
        if not stopped:
            return True
        _signal(stopped, signal.SIGKILL)
        time.sleep(_PAUSE)
    return False


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


# ------------------------------------------------------------------ the process itself


def _main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    # What ends here was told of already, and what is to be ended is not ended by asking.
    for number in (signal.SIGCHLD, *_ENDING):
        signal.signal(number, signal.SIG_IGN)
    _become_subreaper()
    while True:
        byte, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_DESCRIPTORS)
        if not byte:
            # Who ends a tree stops its keeper for a moment (`ancestry.py`), and may have died in that one.
            _signal(children(os.getpid()), signal.SIGCONT)
            return
        if os.fork() == 0:
            control.close()
            _keep(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3)


def _become_subreaper() -> None:
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _keep(descriptors: list[int]) -> None:
    """Do one job to its end; this does not return."""
    try:
        os.setsid()
        job, out, err, leash, status, *given = descriptors
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        _become_subreaper()
        wakes = _awake()
        _tell(status, f"keeper {os.getpid()}")
        keeper, child = os.getpid(), os.fork()
        if child == 0:
            _prctl(_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == keeper:
                _become(job, (out, err), status, given)
            os._exit(127)
        for descriptor in (job, out, err, *given):
            os.close(descriptor)
        _watch(child, leash, wakes, status)
        end_all(keeper)
        if not _IS_LINUX:
            os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(0)


def _awake() -> int:
    """Have the end of any child be readable, and return where."""
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ended


def _become(source: int, outputs: tuple[int, int], status: int, given: list[int]) -> None:
    """Turn into the program, or say why not; this does not return."""
    try:
        with os.fdopen(source, "rb") as file:
            job: dict[str, Any] = json.load(file)
        # Python ignores some of these for itself; a program expects them as they are by default.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *_ENDING):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for place, descriptor in (*enumerate(outputs, 1), *enumerate(given, FIRST_DESCRIPTOR)):
            os.dup2(descriptor, place)
        os.chdir(job["cwd"])
        os.setpriority(os.PRIO_PROCESS, 0, max(job["niceness"], os.getpriority(os.PRIO_PROCESS, 0)))
        for which, soft, hard in job["limits"]:
            resource.setrlimit(which, (soft, hard))
        os.execvpe(job["argv"][0], job["argv"], job["env"])  # noqa: S606 — without a shell is what is wanted
    except (OSError, ValueError) as error:
        _tell(status, f"failed {getattr(error, 'errno', 0) or 0}")
    finally:
        os._exit(127)


def _tell(status: int, text: str) -> None:
    try:
        os.write(status, f"{text}\n".encode())
    except BrokenPipeError:
        return


def _watch(child: int, leash: int, ended: int, status: int) -> None:
    """Collect what ends and tell of the program's end, until the leash is let go of."""
    poll = select.poll()
    poll.register(leash, select.POLLIN | select.POLLHUP)
    poll.register(ended, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if ended in ready:
            os.read(ended, 4096)
            _collect(child, status)
        if leash in ready:
            return


def _collect(child: int, status: int) -> None:
    while True:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid == child:
            _tell(status, f"ended {how}")


if __name__ == "__main__":
    _main()
