"""Failures at start and end of a program are reported and leave nothing behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.security.outcome import PermanentFailure
from leeward.security.sandbox import PathGrant, PathRight
from leeward.tools.process import (
    Limits,
    SupervisedProcess,
    SupervisedStart,
    Supervisor,
    descendants,
    environment,
    run_process,
)
from leeward.tools.process import supervisor as ancestry
from leeward.tools.process.reaper import end_all
from leeward.tools.sandbox.bubblewrap import BubblewrapStart
from leeward.tools.sandbox.landlock import confine_thread, landlock_version
from leeward.tools.sandbox.seccomp import Sockets, filter_program
from leeward.tools.sandbox.supervisors import Spawner, SupervisorPool

ENV = environment("/nowhere", {})
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is whose child")


async def start(
    *argv, cwd="/", env=ENV, starter=SupervisedStart(), seconds=30.0, on_chunk=None, max_bytes=1_000_000
):
    deadline = trio.current_time() + seconds
    return await run_process(
        argv, cwd=cwd, env=env, deadline=deadline, max_bytes=max_bytes, on_chunk=on_chunk, starter=starter
    )


async def sh(script, **options):
    return await start("/bin/sh", "-c", script, **options)


def descriptors() -> set[str]:
    return {link.name for link in Path("/proc/self/fd").iterdir() if link.exists() or link.is_symlink()}


def marked(mark: str) -> list[int]:
    """Processes that carry a mark in their environment and have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            if mark.encode() in (folder / "environ").read_bytes() and alive:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture
def mark():
    mark = uuid.uuid4().hex
    yield mark
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)


async def until(condition) -> None:
    with trio.fail_after(30):
        while not condition():
            await trio.sleep(0.005)


@pytest.fixture
async def supervisor():
    supervisor = await Supervisor.started()
    yield supervisor
    await supervisor.aclose()


# ------------------------------------------------------------------ what cannot be started


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("too many words", "Argument list too long"),
        ("a word that is too long", "Argument list too long"),
        ("a variable that is too long", "Argument list too long"),
        ("no program", "Exec format error"),
        ("a folder", "Permission denied"),
        ("not to be run", "Permission denied"),
        ("a loop of links", "Too many levels of symbolic links"),
        ("a name no disk can hold", "File name too long"),
        ("below a file", "Not a directory"),
        ("an interpreter that is gone", "No such file or directory"),
        ("a folder that is gone", "No such file or directory"),
        ("a folder that is a file", "Not a directory"),
    ],
)
async def test_why_a_program_cannot_be_started(tmp_path, supervisor, what, why):
    argv, cwd, env = ["/bin/true"], str(tmp_path), dict(ENV)
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n" if "interpreter" in what else "\0no header")
    program.chmod(0o644 if what == "not to be run" else 0o755)
    match what:
        case "too many words":
            argv += ["x" * 1000] * 10_000
        case "a word that is too long":
            argv += ["x" * 200_000]
        case "a variable that is too long":
            env["X"] = "x" * 200_000
        case "no program" | "not to be run" | "an interpreter that is gone":
            argv = [str(program)]
        case "a folder":
            argv = [str(tmp_path)]
        case "a loop of links":
            (tmp_path / "loop").symlink_to("loop")
            argv = [str(tmp_path / "loop")]
        case "a name no disk can hold":
            argv = [str(tmp_path / ("x" * 300))]
        case "below a file":
            argv = [str(program / "x")]
        case "a folder that is gone":
            cwd = str(tmp_path / "gone")
        case "a folder that is a file":
            cwd = str(program)
    before = descriptors()
    with pytest.raises(PermanentFailure, match=f"could not be started: {why}"):
        await start(*argv, cwd=cwd, env=env, starter=SupervisedStart(supervisor))
    assert descriptors() == before and not supervisor.reapers
    assert (await start("/bin/echo", "x", starter=SupervisedStart(supervisor))).stdout == "x\n"


@contextmanager
def only(more: int):
    """Let this process open no more than so many descriptors beyond those it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in descriptors())
    fillers = [os.open(os.devnull, os.O_RDONLY) for _ in range(highest + 1 - len(descriptors()))]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, descriptors())) + 1 + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


@linux_only
@pytest.mark.parametrize("kept", ["by the supervisor of a session", "by one of its own", "below bubblewrap"])
async def test_however_few_descriptors_are_left_it_runs_or_it_is_told(supervisor, kept):
    """The next one is refused at each place that opens one, in turn."""
    starter = SupervisedStart(supervisor) if kept.endswith("session") else SupervisedStart()
    if kept.endswith("bubblewrap"):
        if (program := shutil.which("bwrap")) is None:
            pytest.skip("bubblewrap is not installed")
        arguments = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev")
        starter = BubblewrapStart(
            program, arguments, SupervisedStart(supervisor), filter_program(Sockets.isolated())
        )
    await sh(":", starter=starter)
    before, ends = descriptors(), []
    for more in range(24):
        with only(more), trio.fail_after(60):
            try:
                ends.append((await sh("echo x", starter=starter)).stdout)
            except PermanentFailure as error:
                assert "Too many open files" in str(error) or "its supervisor has ended" in str(error)
                ends.append(None)
        assert descriptors() == before, f"with {more} left"
    assert ends[0] is None and ends[-1] == "x\n" and not supervisor.reapers


# ------------------------------------------------------------------ those who keep it fail


@linux_only
async def test_without_its_supervisor_nothing_starts_and_with_the_next_it_does():
    supervisors = SupervisorPool()
    first = await supervisors.get()
    os.kill(first.process.pid, signal.SIGKILL)
    before = descriptors()
    with pytest.raises(PermanentFailure, match="could not be started"):
        # Whether it is noticed when it is asked or when it does not answer.
        finished = await sh("echo x", starter=SupervisedStart(first))
        raise (
            PermanentFailure(f"could not be started: {finished.signal}")
            if finished.signal
            else AssertionError
        )
    assert descriptors() == before
    await until(lambda: not first.is_alive)
    second = await supervisors.get()
    assert second is not first and (await sh("echo x", starter=SupervisedStart(second))).stdout == "x\n"
    await supervisors.aclose()
    assert not first.is_alive and not second.is_alive


@linux_only
@pytest.mark.parametrize("victim", ["supervisor", "reaper", "supervisor, then reaper"])
async def test_whoever_is_killed_above_a_program_it_comes_to_an_end(tmp_path, mark, victim):
    supervisor = await Supervisor.started()
    env, pid = {**ENV, "MARK": mark}, tmp_path / "pid"
    ends = []

    async def run() -> None:
        script = f"echo $$ > {pid}.new; mv {pid}.new {pid}; trap '' TERM; sleep 60 & sleep 60 & wait"
        ends.append(await sh(script, env=env, starter=SupervisedStart(supervisor), seconds=6))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            # The program may write before its reaper's first line has been read here.
            await until(lambda: pid.exists() and supervisor.reapers)
            (reaper,) = supervisor.reapers
            for name in victim.split(", then "):
                os.kill(supervisor.process.pid if name == "supervisor" else reaper, signal.SIGKILL)
    (finished,) = ends
    assert finished.signal == signal.SIGKILL or finished.timed_out
    if victim != "supervisor, then reaper":
        assert not marked(mark) and not finished.left
    await supervisor.aclose()


@linux_only
async def test_whoever_ends_the_rest_is_not_stopped_with_it(monkeypatch, supervisor):
    """Should this process die while a tree is ended, its reaper must be able to go on with that."""
    states, real = [], ancestry.end_all

    def looked_at(root, *spared):
        is_gone = real(root, *spared)
        states.append(Path(f"/proc/{root}/stat").read_text().rpartition(")")[2].split()[0])
        return is_gone

    monkeypatch.setattr(ancestry, "end_all", looked_at)
    finished = await sh("trap '' TERM; sleep 60 & sleep 60", seconds=1.0, starter=SupervisedStart(supervisor))
    assert finished.timed_out and not finished.left and states and "T" not in states


@linux_only
async def test_a_name_made_to_look_like_the_state_of_a_process_hides_nothing(tmp_path, mark):
    """What `/proc` says of a process begins with a name of its own choice."""
    hidden = tmp_path / "x) Z 1 1 ("
    shutil.copy(shutil.which("sleep"), hidden)
    hidden.chmod(0o755)
    pid = tmp_path / "pid"
    script = f"'{hidden}' 60 & echo $! > {pid}; wait"
    with trio.CancelScope() as scope, trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: sh(script, env={**ENV, "MARK": mark}))
            await until(lambda: pid.exists() and pid.read_text().strip() and len(marked(mark)) == 2)
            assert int(pid.read_text()) in descendants(os.getpid())
            scope.cancel()
    await until(lambda: not marked(mark))


@linux_only
async def test_what_is_spared_is_left_alone_with_all_below_it(mark):
    """Two trees below one process: the one that is spared goes on."""
    process = await trio.lowlevel.open_process(
        ["/bin/sh", "-c", "(sleep 60 & wait) & (sleep 60 & wait) & wait"], env={**ENV, "MARK": mark}
    )
    await until(lambda: len(descendants(process.pid)) == 4)
    spared = descendants(process.pid)[0]
    kept = {spared, *descendants(spared)}
    assert await trio.to_thread.run_sync(lambda: end_all(process.pid, {spared}))
    assert set(descendants(process.pid)) == kept
    assert all(Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0] != "T" for one in kept)
    assert await trio.to_thread.run_sync(lambda: end_all(process.pid))
    assert not descendants(process.pid)
    process.kill()
    await process.wait()


@linux_only
async def test_a_crowd_is_not_counted_to_its_end_before_it_is_ended(mark):
    """What forks faster than it is found would be asked to end for ever."""
    process = await trio.lowlevel.open_process(
        ["/bin/sh", "-c", "for i in 1 2 3 4 5 6; do sh -c 'sleep 60 & wait' & done; wait"],
        env={**ENV, "MARK": mark},
    )
    await until(lambda: len(descendants(process.pid)) == 12)
    assert 2 <= len(descendants(process.pid, 2)) <= 7
    assert await trio.to_thread.run_sync(lambda: end_all(process.pid))
    process.kill()
    await process.wait()


async def test_a_tree_is_ended_where_there_is_no_room_for_a_thread(mark, monkeypatch):
    async def none(*_, **__):
        raise RuntimeError("can't start new thread")

    with trio.CancelScope() as scope, trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: sh("setsid sleep 60 & sleep 60", env={**ENV, "MARK": mark}))
            await until(lambda: len(marked(mark)) >= 3)
            monkeypatch.setattr("leeward.tools.process.supervisor.trio.to_thread.run_sync", none)
            scope.cancel()
    assert not marked(mark)


# ------------------------------------------------------------------ what a reaper tells

LINES = st.lists(
    st.sampled_from(["ended 0", "ended 256", "ended 9", "ended 139", "failed 2", "failed 0"]), max_size=1
)


@settings(
    max_examples=settings().max_examples * 3 // 5,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(LINES, st.lists(st.integers(1, 5), min_size=1, max_size=10), st.booleans())
@example(["ended 256"], [1], True)
@example([], [3], True)
def test_what_is_told_in_pieces_is_heard_as_a_whole(lines, cuts, is_asked_late):  # fmt: skip
    told = "".join(f"{line}\n" for line in ["reaper 4194305", *lines]).encode()

    class Gone:
        reapers: set[int] = set()

    async def run() -> None:
        status, tell = os.pipe()
        hold = os.open(os.devnull, os.O_RDONLY)
        child = SupervisedProcess(Gone(), hold, trio.lowlevel.FdStream(status))
        async with trio.open_nursery() as nursery:

            async def speak() -> None:
                at = 0
                while at < len(told):
                    size = cuts[at % len(cuts)]
                    os.write(tell, told[at : at + size])
                    at += size
                    await trio.lowlevel.checkpoint()
                os.close(tell)

            nursery.start_soon(speak)
            await child.begin()
            assert child.pid == 4194305 and Gone.reapers == {4194305}
            if is_asked_late:
                await trio.testing.wait_all_tasks_blocked()
            word, _, number = (lines[0] if lines else "").partition(" ")
            if word == "failed":
                with pytest.raises(PermanentFailure, match="could not be started"):
                    await child.ended()
            else:
                assert await child.ended() == (
                    os.waitstatus_to_exitcode(int(number)) if lines else -signal.SIGKILL
                )
        await child.status.aclose()
        os.close(hold)

    trio.run(run)


# ------------------------------------------------------------------ what a program does with its output


async def test_whoever_takes_the_output_and_fails_ends_the_program(mark, supervisor):
    async def full(_: str) -> None:
        raise OSError(28, "No space left on device")

    with trio.fail_after(30), pytest.raises((OSError, BaseExceptionGroup)) as caught:
        await sh(
            "echo x; sleep 60", env={**ENV, "MARK": mark}, on_chunk=full, starter=SupervisedStart(supervisor)
        )
    group = caught.value
    while isinstance(group, BaseExceptionGroup):
        (group,) = group.exceptions
    assert group.errno == 28 and not marked(mark) and not supervisor.reapers


async def test_a_program_that_stops_itself_is_ended_at_its_deadline(mark, supervisor):
    finished = await sh(
        "echo x; kill -STOP $$; echo y",
        env={**ENV, "MARK": mark},
        seconds=1.0,
        starter=SupervisedStart(supervisor),
    )
    assert (finished.timed_out, finished.stdout, finished.left) == (True, "x\n", False) and not marked(mark)


async def test_bytes_that_are_no_text_arrive_one_mark_for_each(supervisor):
    data = bytes(range(256)) * 400
    script = "import os; d = bytes(range(256)) * 400\nfor i in range(0, len(d), 777): os.write(1, d[i:i+777])"
    heard: list[str] = []

    async def hear(chunk: str) -> None:
        heard.append(chunk)

    finished = await start(
        sys.executable, "-I", "-c", script, starter=SupervisedStart(supervisor), on_chunk=hear
    )
    assert finished.stdout == "".join(heard) == data.decode("utf-8", "replace") and not finished.dropped


@pytest.mark.parametrize(
    ("hard", "wanted"), [(100, (100, 100)), (5000, (4096, 5000)), (100_000, (4096, 16_384))]
)
def test_no_limit_is_above_what_this_process_has_itself(monkeypatch, hard, wanted):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (hard, hard))
    assert dict(Limits().items())[resource.RLIMIT_NOFILE] == wanted
    monkeypatch.setattr(resource, "getrlimit", lambda _: (hard, resource.RLIM_INFINITY))
    assert dict(Limits().items())[resource.RLIMIT_NOFILE] == (4096, 16_384)
    assert dict(Limits(values={"RLIMIT_NOSUCH": (1, 1)}).items()) == {}


# ------------------------------------------------------------------ a thread that is kept to some files


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
async def test_what_cannot_be_granted_grants_nothing_and_hinders_no_other(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open/f").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("shut")
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut/f").write_text("x")
    named = ["gone", "file/below", "link", "open", "file"]
    grants = [PathGrant(str(tmp_path / name), PathRight.READ) for name in named]
    thread = Spawner("kept", lambda: confine_thread(grants, network=False))

    def outcome(name: str) -> str:
        try:
            return (tmp_path / name).read_text()
        except OSError as error:
            return type(error).__name__

    found = {
        name: await thread.run(lambda name=name: outcome(name))
        for name in ("open/f", "file", "link/f", "shut/f")
    }
    assert found == {"open/f": "x", "file": "x", "link/f": "PermissionError", "shut/f": "PermissionError"}
    with pytest.raises(PermissionError):
        await thread.run(lambda: (tmp_path / "open/new").write_text("x"))
    thread.close()
    assert outcome("shut/f") == "x" and stat.S_ISDIR((tmp_path / "open").stat().st_mode)


async def test_a_thread_whose_loop_has_gone_tells_nobody_and_ends():
    thread = Spawner("alone")
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def slow() -> int:
        begun.set()
        assert go_on.wait(30)
        ended.append(1)
        return 1

    async def leave() -> None:
        thread._work.put((slow, done))

    token = []

    def done(_result) -> None:
        try:
            token[0].run_sync_soon(lambda: None)
        except trio.RunFinishedError:
            ended.append(2)

    async def elsewhere() -> None:
        token.append(trio.lowlevel.current_trio_token())
        await leave()

    await trio.to_thread.run_sync(trio.run, elsewhere)
    assert await trio.to_thread.run_sync(begun.wait, 30)
    go_on.set()
    thread.close()
    await until(lambda: not thread._thread.is_alive())
    assert ended == [1, 2] and time.monotonic() > 0
