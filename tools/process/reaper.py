"""Start programs and end everything they started once the session is gone. Runs as a script.

    reaper.py CONTROL

The script is the supervisor of a session. It waits at CONTROL, a socket, for jobs: one byte each, with
descriptors. For every job it forks a reaper, which starts the program, collects what the program leaves
behind, and ends all of that when the job's lifeline ends: a pipe whose other end the caller closed, or held
when it died. So whatever a program starts has a process above it that outlives both the program and its
caller. Only the standard library is imported, and little of that.

While a job runs, its reaper measures what the whole tree takes of the machine, and kills all of it once that
is more than the job may have (`_Usage`), or cannot be measured.

The descriptors of a job, in order: the job as JSON (`argv`, `cwd`, `env`, `niceness`, `limits`, `memory`,
`tasks`, `has_input`, `in_group`, `overlay`, `network`, `listener`), standard output, standard error, the
lifeline, the one that messages are written to, with `has_input` standard input, with `in_group` the one by
which a process joins the job's control group, with `overlay`, `network` and `listener` the sockets that a
handle on what is written (`overlay.py`), a listening socket (`network.py`) and what tells of system calls
(`listener.py`) come out of, and those the program gets, from number 40 on. The messages are "reaper PID",
"program PID", then "failed ERRNO" or, as `waitpid` has it, "ended STATUS"; and "limit memory" or
"limit processes" before the tree is killed for that.
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
import types
from collections.abc import Iterable
from typing import Any

if __name__ == "__main__":
    # A script belongs to no package. This one needs nothing of its folder but a single file.
    __package__ = "process"
    sys.modules[__package__] = types.ModuleType(__package__)
    sys.modules[__package__].__path__ = [os.path.dirname(__file__)]  # noqa: PTH120 — pathlib costs more than the rest

from .preparation import lay_over, leave_network, report_calls

__all__ = ["FIRST_DESCRIPTOR", "children", "descendants", "end_all", "is_stopped", "mounts", "stop_group"]

FIRST_DESCRIPTOR = 40
"""The number of the first descriptor that a program is given, beyond what is open here."""

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_IS_LINUX = sys.platform == "linux"
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_MOST_DESCRIPTORS = 16
# Two seconds in all: a process that hangs in the kernel does not end when it is killed.
_ROUNDS = 400
_MOST_COLLECTED = 100
_PAUSE = 0.005

# Seconds between two looks at what a tree takes: the first comes soon, for memory can be filled fast, and
# they come closer together the more is taken. Looking is to cost a quarter of a processor at most. In between
# it is only glanced at how much the machine runs: a fork bomb is too much for any look within a second.
_SHORTEST, _LONGEST, _GLANCE = 0.01, 0.1, 0.02
_MOST_LOOKING = 0.25

_FEW = 32  # processes are measured while they run


# ------------------------------------------------------------------ a tree of processes


def children(pid: int) -> list[int]:
    """Return the children of a process. Only Linux tells; elsewhere there are none."""
    return _children(pid, _tasks(pid))


def _tasks(pid: int) -> list[str]:
    """Return the numbers of a process's threads."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 — pathlib costs more than the rest of this
    except OSError:
        return []


def _children(pid: int, tasks: Iterable[str]) -> list[int]:
    found: list[int] = []
    try:
        for task in tasks:
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
    return [pid for pid in found[1:] if _state(pid) not in (b"", b"Z", b"X")]


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped and does nothing until it is let go on."""
    return _state(pid) in (b"T", b"t")


def _state(pid: int) -> bytes:
    """Return the letter the kernel has for what a process does, none for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 — the same
            return file.read().rpartition(b")")[2].split()[0]
    except OSError:
        return b""


def end_all(root: int, spared: Iterable[int] = ()) -> bool:
    """Stop, then kill everything below a process until nothing is left; return whether that was achieved.

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


def stop_group(root: int, group: int) -> None:
    """Stop a group of processes at once, so that nothing in it outruns a search; it began below a process.

    Once all of it has gone, its number may be that of another group, so some of it must be seen.
    """
    for pid in children(root):
        try:
            if os.getpgid(pid) == group:
                os.killpg(group, signal.SIGSTOP)
                return
        except (ProcessLookupError, PermissionError):
            continue


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


# ------------------------------------------------------------------ what a tree takes


class _Usage:
    """What everything below a process takes of the machine, held against what it may take.

    Counted is memory that only the end of the tree gives back: anonymous memory, in swap or not, page
    tables, shared memory, and files in memory that it holds open or has mounted for itself; not the
    cache of files on a disk. Most looks are cheap ones that may count too much: memory that processes
    share once for each, and what grew anywhere on the machine. Only where that is above the bound is it
    measured who shares what with whom, which takes a walk through all page tables.
    """

    def __init__(self, root: int, memory: int, tasks: int) -> None:
        self._root, self._memory, self._tasks = root, memory, tasks
        self._elsewhere = _outside_processes()
        self._others = _tasks_of_all()
        self._pause = _SHORTEST
        self._glance = self._look = time.monotonic() + _SHORTEST

    def milliseconds(self) -> float:
        """Return how long there is nothing to look at, 0 where there is."""
        return max(1000 * (min(self._glance, self._look) - time.monotonic()), 0)

    def exceeded(self, group: int) -> str:
        """Say what there is too much of: "memory", "processes", or nothing.

        Where so much was started that it could be a fork bomb, and where many are measured, the tree's
        group is stopped meanwhile: a look at what forks all the time takes longer than that takes to grow.
        """
        is_crowded = _tasks_of_all() - self._others > self._tasks // 2
        if is_crowded:
            stop_group(self._root, group)
        found, is_stopped = "", is_crowded
        if is_crowded or time.monotonic() >= self._look:
            found, is_stopped = self._looked(group, is_stopped=is_crowded)
        if is_stopped and not found:
            _signal(descendants(self._root), signal.SIGCONT)
            self._others = _tasks_of_all()
        self._glance = time.monotonic() + _GLANCE
        return found

    def _looked(self, group: int, *, is_stopped: bool) -> tuple[str, bool]:
        """Look; return what there is too much of, and whether the group is stopped."""
        began, found = time.process_time(), ""
        pids, tasks, anonymous = self._counted()
        grown = self._grown()
        share = max(tasks / self._tasks, (anonymous + grown) / self._memory)
        if tasks > self._tasks:
            found = "processes"
        elif share > 1:
            if len(pids) > _FEW and not is_stopped:
                stop_group(self._root, group)
                is_stopped = True
            found = "memory" if _memory_of(pids, grown, self._memory) > self._memory else ""
        self._pause = min(2 * self._pause, _LONGEST)
        cost = time.process_time() - began
        self._look = time.monotonic() + max(self._pause * (1 - share), _SHORTEST, cost / _MOST_LOOKING)
        return found, is_stopped

    def _grown(self) -> int:
        """Return how much memory outside of processes there is more than there was at the least."""
        now = _outside_processes()
        self._elsewhere = min(self._elsewhere, now)
        return now - self._elsewhere

    def _counted(self) -> tuple[list[int], int, int]:
        """Return the tree's processes, how many threads they have, and their anonymous memory at most."""
        pids, tasks, anonymous = [self._root], 0, 0
        for pid in pids:
            if tasks > self._tasks:
                break
            threads = _tasks(pid)
            pids += _children(pid, threads)
            if pid != self._root:
                tasks += len(threads)
                anonymous += _resident(pid)
        return pids[1:], tasks, anonymous


def _kilobytes(path: str) -> dict[bytes, int]:
    """Return the amounts a file of the kernel's lists, in bytes by their names; none if it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 — the same
            lines = [line.split() for line in file]
    except OSError:
        return {}
    # A process may have chosen its name to read like an amount, which has three words, too.
    amounts = (line for line in lines if len(line) == 3 and line[2] == b"kB" and line[1].isdigit())
    return {line[0][:-1]: int(line[1]) << 10 for line in amounts}


def _outside_processes() -> int:
    """Return the machine's memory that is no process's anonymous memory: shared, swap, page tables."""
    memory = _kilobytes("/proc/meminfo")
    swapped = memory.get(b"SwapTotal", 0) - memory.get(b"SwapFree", 0)
    return memory.get(b"Shmem", 0) + memory.get(b"PageTables", 0) + swapped


def _tasks_of_all() -> int:
    """Return how many threads the machine runs."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:  # noqa: PTH123 — the same
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _resident(pid: int) -> int:
    """Return how much anonymous memory of a process is resident, shared or not."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 — the same
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * resource.getpagesize()


def _memory_of(pids: list[int], grown: int, most: int) -> int:
    """Measure what processes take together, or as much of it as is above `most`.

    Of shared memory no more than `grown` is counted: a file that is mapped and held open would count twice.
    Everything is, if it is unknown what a process holds.
    """
    own = shared = 0
    for pid in pids:
        if own > most:
            return own
        status, mapped = _kilobytes(f"/proc/{pid}/status"), _kilobytes(f"/proc/{pid}/smaps_rollup")
        own += status.get(b"VmPTE", 0)
        if b"Pss_Anon" in mapped:
            own += mapped[b"Pss_Anon"] + mapped.get(b"SwapPss", 0)
            shared += mapped.get(b"Pss_Shmem", 0)
        else:
            own += status.get(b"RssAnon", 0) + status.get(b"VmSwap", 0)
            shared += status.get(b"RssShmem", 0)
    if any(map(_has_sent_files, pids)):
        return own + grown
    return own + min(shared + _files_in_memory(pids), grown)


def _has_sent_files(pid: int) -> bool:
    """Whether files on their way lie in a socket of a process: nothing tells which, or their size."""
    return any(
        _reads(f"/proc/{pid}/fdinfo/{handle}", b"scm_fds:") > 0
        for handle in _handles(pid)
        if _link(f"/proc/{pid}/fd/{handle}").startswith("socket:")
    )


def _reads(path: str, name: bytes) -> int:
    """Return the number behind a name in a file of the kernel's; 0 where there is none."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 — the same
            return next((int(line.split()[1]) for line in file if line.startswith(name)), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _handles(pid: int) -> list[str]:
    """Return the numbers of what a process holds open."""
    try:
        return os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 — the same
    except OSError:
        return []


def _files_in_memory(pids: list[int]) -> int:
    """Return the size of the files in memory that processes hold open, or that lie in mounts of their own."""
    ours = _mounted_in_memory("self")
    seen = {_link("/proc/self/ns/mnt"): None}
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        if (namespace := _link(f"/proc/{pid}/ns/mnt")) not in seen:
            seen[namespace] = None
            for device, place in _mounted_in_memory(str(pid)).items():
                if device not in ours:
                    found[device, 0] = _used(f"/proc/{pid}/root{place}", device)
        found |= {name: size for name, size in _open_in_memory(pid) if (name[0], 0) not in found}
    return sum(found.values())


def _mounted_in_memory(pid: str) -> dict[int, str]:
    """Return the file systems in memory that a process sees: their devices, and where one is mounted."""
    try:
        mounted = mounts(f"/proc/{pid}/mountinfo")
        return {device: place for device, _, place, kind in mounted if kind == "tmpfs"}
    except OSError:
        return {}


def mounts(listed: str) -> Iterable[tuple[int, str, str, str]]:
    """Yield what a list of the kernel's has as mounted: device, folder of that, place, and kind."""
    with open(listed, "rb") as file:  # noqa: PTH123 — the same
        for line in file:
            words = line.split(b" ")
            # The kernel writes a line break in a name as an octal number, but not a carriage return.
            names = (word.decode("unicode_escape").encode("latin-1") for word in words[3:5])
            folder, place = map(os.fsdecode, names)
            major, _, minor = words[2].partition(b":")
            kind = words[words.index(b"-") + 1].decode("ascii", "replace")
            yield os.makedev(int(major), int(minor)), folder, place, kind


def _used(path: str, device: int) -> int:
    """Return how much a file system holds, 0 if another is mounted over it."""
    try:
        if os.stat(path).st_dev != device:  # noqa: PTH116 — the same
            return 0
        stats = os.statvfs(path)
    except OSError:
        return 0
    return (stats.f_blocks - stats.f_bfree) * stats.f_frsize


def _open_in_memory(pid: int) -> Iterable[tuple[tuple[int, int], int]]:
    """Yield the files in memory that a process holds open: device and number, and size."""
    for handle in _handles(pid):
        # Others are not touched: on a file system that does not answer, that would hang.
        if not _link(f"/proc/{pid}/fd/{handle}").startswith(("/memfd:", "/dev/shm/")):  # noqa: S108
            continue
        try:
            about = os.stat(f"/proc/{pid}/fd/{handle}")  # noqa: PTH116 — the same
        except OSError:
            continue
        yield (about.st_dev, about.st_ino), about.st_blocks * 512


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 — the same
    except OSError:
        return ""


# ------------------------------------------------------------------ the process itself


def _main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    # An end during this loop was reported already, and a job that is to end is not ended by asking.
    for number in (signal.SIGCHLD, *_ENDING):
        signal.signal(number, signal.SIG_IGN)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    while True:
        byte, descriptors, _, _ = socket.recv_fds(control, 1, _MOST_DESCRIPTORS)
        if not byte:
            # Who ends a tree stops its reaper for a moment (`supervisor.py`), and may have died in that one.
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


def _keep(descriptors: list[int]) -> None:
    """Do one job to its end; this does not return."""
    try:
        os.setsid()
        source, out, err, parent_pipe, status, *given = descriptors
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        _prctl(_SET_CHILD_SUBREAPER, 1)
        wakes = _awake()
        with os.fdopen(source, "rb") as file:
            job: dict[str, Any] = json.load(file)
        usage = _Usage(os.getpid(), job["memory"], job["tasks"]) if _IS_LINUX else None
        reaper = os.getpid()
        # Before there is a program: it could stop this process, and who started it would wait for ever.
        _tell(status, f"reaper {reaper}")
        child = os.fork()
        if child == 0:
            _prctl(_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == reaper:
                _become(job, (out, err), status, given)
            os._exit(127)
        _come_first()
        for descriptor in (out, err, *given):
            os.close(descriptor)
        try:
            _watch(child, parent_pipe, wakes, status, usage)
        finally:
            # Nothing goes on that cannot be measured.
            end_all(reaper)
        if not _IS_LINUX:
            os.killpg(child, signal.SIGKILL)
    finally:
        os._exit(0)


def _come_first() -> None:
    """Be served before what is kept, where the system allows that: a fork bomb would starve its reaper."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:  # noqa: PTH123 — the same
            file.write("-20")
    except OSError:
        return


def _awake() -> int:
    """Have the end of any child be readable, and return where."""
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ended


def _become(job: dict[str, Any], outputs: tuple[int, int], status: int, given: list[int]) -> None:
    """Turn into the program, or say why not; this does not return."""
    try:
        # In a session of its own it has its own share of the processors, so that it cannot starve its reaper.
        os.setsid()
        _tell(status, f"program {os.getpid()}")
        into = given.pop(0) if job["has_input"] else os.open(os.devnull, os.O_RDONLY)
        if job["in_group"]:
            os.write(given.pop(0), b"0")
        if job["overlay"] is not None:
            with socket.socket(fileno=given.pop(0)) as channel:
                lay_over(job["overlay"], channel)
        if job["network"] is not None:
            with socket.socket(fileno=given.pop(0)) as channel:
                leave_network(job["network"]["port"], channel, is_isolated=job["overlay"] is not None)
        listener = None if job["listener"] is None else socket.socket(fileno=given.pop(0))
        # Python ignores some of these for itself; a program expects them as they are by default.
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *_ENDING):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(into, 0)
        for place, descriptor in (*enumerate(outputs, 1), *enumerate(given, FIRST_DESCRIPTOR)):
            os.dup2(descriptor, place)
        os.chdir(job["cwd"])
        os.setpriority(os.PRIO_PROCESS, 0, max(job["niceness"], os.getpriority(os.PRIO_PROCESS, 0)))
        for which, soft, hard in job["limits"]:
            resource.setrlimit(which, (soft, hard))
        if listener is not None:
            with listener:
                report_calls(job["listener"], listener)
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


def _watch(child: int, parent_pipe: int, ended: int, status: int, usage: _Usage | None) -> None:
    """Collect what ends, tell of the program's end, keep the tree to its bounds, until its pipe is closed."""
    poll = select.poll()
    poll.register(parent_pipe, select.POLLIN | select.POLLHUP)
    poll.register(ended, select.POLLIN)
    is_rest = False
    while True:
        ready = dict(poll.poll(0 if is_rest or usage is None else usage.milliseconds()))
        if ended in ready:
            os.read(ended, 4096)
        if ended in ready or is_rest:
            is_rest = _collect(child, status)
        if parent_pipe in ready:
            return
        if usage is not None and not usage.milliseconds() and (what := usage.exceeded(child)):
            _tell(status, f"limit {what}")
            _end_at_once(child)


def _end_at_once(child: int) -> None:
    """End all below this process; with the first process of a sandbox the kernel ends all in it."""
    stop_group(os.getpid(), child)
    _signal(children(child), signal.SIGKILL)
    end_all(os.getpid())


def _collect(child: int, status: int) -> bool:
    """Collect what ended, and return whether there may be more: there always is where much forks and ends."""
    for _ in range(_MOST_COLLECTED):
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return False
        if pid == child:
            _tell(status, f"ended {how}")
    return True


if __name__ == "__main__":
    _main()
