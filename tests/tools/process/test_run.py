from __future__ import annotations

import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from leeward.security.outcome import PermanentFailure
from leeward.tools.process import (
    SEARCH_PATH,
    Limits,
    Start,
    SupervisedStart,
    Supervisor,
    descendants,
    environment,
    run_process,
)
from leeward.tools.process.reaper import end_all
from leeward.tools.sandbox.bubblewrap import BubblewrapStart
from leeward.tools.sandbox.seccomp import Sockets, filter_program
from loading import rows_beside

ROWS = rows_beside(__file__)

ENV = environment("/nowhere", {})
BWRAP = shutil.which("bwrap")
# Everything of the host may be changed in there: what is tested is how a program begins and ends.
FILTER = filter_program(Sockets.isolated())
OPEN = ("--unshare-all", "--die-with-parent", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc")


def need_bubblewrap() -> None:
    if BWRAP is None:
        pytest.skip("bubblewrap is not installed")
    tried = subprocess.run([BWRAP, *OPEN, "/bin/true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"bubblewrap does not work here: {tried.stderr.strip()}")


@pytest.fixture(params=["kept", "bubblewrap"])
async def starter(request):
    """Both ways of keeping together what a program starts."""
    if request.param == "bubblewrap":
        need_bubblewrap()
    supervisor = await Supervisor.started()
    yield (
        SupervisedStart(supervisor)
        if request.param == "kept"
        else BubblewrapStart(BWRAP, OPEN, SupervisedStart(supervisor), FILTER)
    )
    await supervisor.aclose()


async def start(
    *argv, deadline=math.inf, max_bytes=1_000_000, cwd="/", on_chunk=None, env=ENV, starter=SupervisedStart()
):
    return await run_process(
        argv, cwd=cwd, env=env, deadline=deadline, max_bytes=max_bytes, on_chunk=on_chunk, starter=starter
    )


async def sh(script, **options):
    return await start("/bin/sh", "-c", script, **options)


def marked(mark: str) -> list[int]:
    """Processes that still carry a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                mark.encode() in (folder / "environ").read_bytes()
                and (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            ):
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


async def none_left(mark: str) -> bool:
    with trio.move_on_after(30):
        while marked(mark):
            await trio.sleep(0.005)
    return not marked(mark)


async def written(path, words=1) -> list[str]:
    """Wait until a child has told something."""
    with trio.fail_after(30):
        while not (path.exists() and len(path.read_text().split()) >= words):
            await trio.sleep(0.005)
    return path.read_text().split()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def own_children() -> set[str]:
    """Whatever this process has started and not reaped; other tests may have left some."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            found |= {folder.name} if int(parent) == os.getpid() else set()
    return found


# ------------------------------------------------------------------ output


async def test_both_outputs_are_told_apart(starter):
    done = await sh("echo one; echo two >&2; echo three; exit 3", starter=starter)
    assert (done.stdout, done.stderr, done.exit_code, done.signal) == ("one\nthree\n", "two\n", 3, None)
    assert not (done.timed_out or done.held_open or done.dropped or done.left) and done.seconds >= 0


async def test_both_outputs_come_in_the_order_they_were_printed(tmp_path):
    async def on_chunk(chunk):
        (tmp_path / chunk.strip()).touch()

    def wait(name):
        return f"while [ ! -e {tmp_path}/{name} ]; do sleep 0.01; done"

    done = await sh(f"echo one; {wait('one')}; echo two >&2; {wait('two')}; echo three", on_chunk=on_chunk)
    assert done.output == "one\ntwo\nthree\n" and done.error_lines == ((2, 2),)


async def test_there_is_nothing_to_read_and_no_terminal(starter):
    done = await sh("cat; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none", starter=starter)
    assert (done.output, done.exit_code) == ("none\n", 0)


# Started at a terminal of its own, as a person starts us: it has one, what it starts has not.
AT_A_TERMINAL = """
import fcntl, os, pty, sys, termios, trio
from leeward.tools.process import environment, run_process
from leeward.tools.process import SupervisedStart, Supervisor
from leeward.tools.sandbox.bubblewrap import BubblewrapStart
from leeward.tools.sandbox.seccomp import Sockets, filter_program

os.setsid()
_, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
ASKED = "( : </dev/tty ) 2>/dev/null && echo terminal || echo none"

async def main(bwrap, *options):
    supervisor = await Supervisor.started()
    starter = SupervisedStart(supervisor)
    if bwrap:
        starter = BubblewrapStart(bwrap, options, starter, filter_program(Sockets.isolated()))
    done = await run_process(("/bin/sh", "-c", ASKED), cwd="/", env=environment("/nowhere", {}),
                             deadline=float("inf"), max_bytes=1000, starter=starter)
    print("started:", done.output.strip())
    await supervisor.aclose()

print("ours:", os.popen(ASKED).read().strip(), flush=True)
trio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("level", ["kept", "bubblewrap"])
def test_a_terminal_of_ours_is_not_theirs(level):
    if level == "bubblewrap":
        need_bubblewrap()
    options = [str(BWRAP), *OPEN, "--dev-bind", "/dev", "/dev"] if level == "bubblewrap" else [""]
    started = [sys.executable, "-c", AT_A_TERMINAL, *options]
    done = subprocess.run(started, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["ours: terminal", "started: none"], done.stderr


async def test_output_is_handed_out_while_the_program_runs(starter):
    chunks, (send, receive) = [], trio.open_memory_channel[str](10)

    async def on_chunk(chunk):
        chunks.append(chunk)
        await send.send(chunk)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: sh(
                "echo first; read x < /dev/null; sleep 30; echo never", on_chunk=on_chunk, starter=starter
            )
        )
        with trio.fail_after(30):
            assert await receive.receive() == "first\n"
        nursery.cancel_scope.cancel()
    assert chunks == ["first\n"]


async def test_a_flood_is_bounded_and_its_two_ends_are_kept(starter):
    passed_on = 0

    async def on_chunk(chunk):
        nonlocal passed_on
        passed_on += len(chunk)

    done = await sh(
        "echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo end",
        max_bytes=100_000,
        on_chunk=on_chunk,
        starter=starter,
    )
    assert (
        done.output.startswith("begin\nxxx") and done.output.endswith("xxxend\n") and passed_on == 5_000_010
    )
    assert done.dropped == 5_000_010 - 100_000 and f"[... {done.dropped} bytes left out ...]" in done.output


async def test_a_character_in_two_pieces_is_one():
    done = await sh("printf '\\303'; sleep 0.05; printf '\\244\\n'; printf 'a\\377b'")
    assert done.output == "ä\na\N{REPLACEMENT CHARACTER}b"
    assert (await sh("printf 'a\\303'")).output == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("bound", range(1, 12))
async def test_no_bound_cuts_a_character(bound):
    done = await sh("printf 'aäöü€b'", max_bytes=bound)
    kept = done.output.replace(f"\n[... {done.dropped} bytes left out ...]\n", "")
    assert "\N{REPLACEMENT CHARACTER}" not in kept and len(kept.encode()) == 11 - done.dropped <= bound


# ------------------------------------------------------------------ what it is given


async def test_the_environment_is_made_here(monkeypatch, starter):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-" + "0" * 32)
    parent = {
        "LANG": "de_DE.UTF-8",
        "TZ": "UTC",
        "OPENAI_API_KEY": "sk-test",
        "PATH": "/evil:/home/me/.cargo/bin:/home/me/.cargo/../x:relative",
        "LD_PRELOAD": "x",
    }
    env = environment("/home/me", parent)
    assert env["PATH"] == SEARCH_PATH and env["HOME"] == "/home/me"
    assert {k: env[k] for k in ("LANG", "PAGER", "GIT_TERMINAL_PROMPT", "CI", "TERM", "TZ")} == {
        "LANG": "de_DE.UTF-8", "PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "CI": "1", "TERM": "dumb",
        "TZ": "UTC",
    }  # fmt: skip
    assert not {"OPENAI_API_KEY", "LD_PRELOAD"} & set(env)
    told = dict(
        line.split("=", 1)
        for line in (await start("/usr/bin/env", env=env, starter=starter)).output.splitlines()
    )
    assert {name: value for name, value in told.items() if name != "PWD"} == env


async def test_nothing_waits_for_an_editor_or_a_password(tmp_path):
    script = (
        f"cd {tmp_path}; git init -q x; cd x; git -c user.name=a -c user.email=a@b commit --allow-empty; "
        f"echo $?"
    )
    assert (await sh(script)).stdout.split()[-1] != "0"


@pytest.mark.parametrize("values", [{}, {"RLIMIT_NOFILE": (77, 99)}])
async def test_limits_hold_from_the_first_moment(starter, values):
    limits = Limits(niceness=7, values={**Limits().values, **values})
    done = await sh(
        "ulimit -c; ulimit -n; ulimit -Hn; nice; sh -c 'ulimit -n; nice'", starter=limited(starter, limits)
    )
    expected = dict(limits.items())
    soft, hard = expected[resource.RLIMIT_NOFILE]
    nice = str(max(7, os.nice(0)))
    assert done.stdout.split() == ["0", str(soft), str(hard), nice, str(soft), nice]


def limited(starter, limits):
    return (
        replace(starter, limits=limits)
        if isinstance(starter, SupervisedStart)
        else replace(starter, kept=limited(starter.kept, limits))
    )


async def test_signals_are_as_a_program_expects_them(starter):
    # SIGPIPE ends a writer nobody reads; ignored, as Python has it, `yes` would complain instead.
    done = await start("/bin/bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[0]}", starter=starter)
    assert (done.stdout, done.stderr) == ("y\n141\n", "")


@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        (("/no/such/program",), "/", "No such file"),
        (("no-such-program-anywhere",), "/", "No such file"),
        (("/proc/version",), "/", "Permission denied"),  # a file that nobody can make executable
        (("/bin/true",), "/no/such/folder", "No such file.*/no/such/folder|No such file"),
        (("/bin/true", "a\0b"), "/", "null byte"),
        (("/bin/true", "x" * 5_000_000), "/", "too long"),
    ],
)
async def test_what_cannot_be_started_is_told(argv, cwd, why, starter):
    before = descriptors()
    with pytest.raises(PermanentFailure, match=why):
        await start(*argv, cwd=cwd, starter=starter)
    assert descriptors() == before


async def test_a_sandbox_that_cannot_be_made_is_told():
    need_bubblewrap()
    with pytest.raises(PermanentFailure, match="the sandbox could not be made: bwrap: .*no-such-source"):
        await start(
            "/bin/true",
            starter=BubblewrapStart(BWRAP, ("--bind", "/no-such-source", "/x"), SupervisedStart(), FILTER),
        )


# ------------------------------------------------------------------ how it ends


async def test_a_signal_is_told_apart_from_an_exit_code(starter):
    done = await sh("kill -SEGV $$", starter=starter)
    assert (done.exit_code, done.signal) == (None, signal.SIGSEGV)
    done = await sh("exit 130", starter=starter)
    assert (done.exit_code, done.signal) == (130, None)


async def test_the_deadline_ends_a_program_with_what_it_printed_and_in_time(starter):
    started = trio.current_time()
    done = await sh("echo begun; sleep 30", deadline=started + 3, starter=starter)
    assert done.timed_out and done.output == "begun\n" and trio.current_time() - started < 3


async def test_sigterm_comes_first_so_that_a_program_can_tidy_up(tmp_path, starter):
    script = f"trap 'echo tidy > {tmp_path}/tidy; exit 0' TERM; echo begun; while :; do sleep 0.02; done"

    async def stop(chunk):
        scope.cancel()

    with trio.CancelScope() as scope:
        await sh(script, on_chunk=stop, starter=starter)
    assert scope.cancelled_caught and (tmp_path / "tidy").read_text() == "tidy\n"


# Everything a hostile line can do to outlive its end; each says "ready" into a file once it is at its worst.
DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork(): os._exit(0) if "leave" in sys.argv else time.sleep(60)
os.setsid()
if os.fork(): os._exit(0)
open(sys.argv[1], "a").write("ready ")
time.sleep(60)
"""
HOSTILE = ROWS["hostile"]


def hostile(name: str, file: Path) -> tuple[str, int]:
    return HOSTILE[name].format(file=file, python=sys.executable, daemon=DAEMON), 5 if name.startswith(
        "many"
    ) else 1


@pytest.mark.parametrize("name", HOSTILE)
async def test_cancelling_leaves_nothing_behind(tmp_path, name, starter, mark):
    script, words = hostile(name, tmp_path / "ready")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: sh(script, env={**ENV, "MARK": mark}, starter=starter))
        await written(tmp_path / "ready", words)
        assert marked(mark)
        nursery.cancel_scope.cancel()
    # Nothing is waited for here: when the run is over, so is everything it started.
    assert marked(mark) == []


@pytest.mark.parametrize("name", ["ignores SIGTERM", "double forked, holding the pipes"])
async def test_nothing_outlives_the_deadline(tmp_path, name, starter, mark):
    script, _ = hostile(name, tmp_path / "ready")
    done = await sh(script, env={**ENV, "MARK": mark}, deadline=trio.current_time() + 1.5, starter=starter)
    assert done.timed_out and not done.left and marked(mark) == []


async def test_background_jobs_do_not_survive_the_program(tmp_path, starter, mark):
    script = (
        f"sleep 60 >/dev/null 2>&1 & {sys.executable} -c '{DAEMON}' {tmp_path}/ready leave; sleep 60 & "
        f"while [ ! -s {tmp_path}/ready ]; do sleep 0.01; done; echo done"
    )
    started = trio.current_time()
    done = await sh(script, env={**ENV, "MARK": mark}, starter=starter)
    assert (done.output, done.exit_code) == ("done\n", 0) and trio.current_time() - started < 20
    assert marked(mark) == []


async def test_whatever_holds_a_pipe_is_not_waited_for():
    done = await sh("sleep 60 & echo done")
    assert done.held_open and done.exit_code == 0 and done.output == "done\n"


async def test_late_output_of_a_job_is_still_collected():
    done = await sh("(sleep 0.1; echo late) & echo early")
    assert done.output == "early\nlate\n" and not done.held_open


async def test_a_program_that_closes_its_output_is_still_waited_for(tmp_path, starter):
    done = await sh(f"exec >&- 2>&-; sleep 0.1; echo x > {tmp_path}/x; exit 4", starter=starter)
    assert done.exit_code == 4 and (tmp_path / "x").exists()


async def test_many_runs_leave_no_descriptor_and_no_zombie(starter):
    await sh("true", starter=starter)
    before, children = descriptors(), own_children()
    for _ in range(5):
        await sh("sleep 5 & true", deadline=trio.current_time() + 0.4, starter=starter)
    assert descriptors() == before
    assert own_children() <= children, "only the supervisor is there, and at work"


async def test_without_a_session_nothing_is_left_of_one():
    before, children = descriptors(), own_children()
    await sh("true")
    assert descriptors() == before
    assert own_children() <= children


async def test_random_cancels_leave_no_orphan(tmp_path, starter, mark):
    """A few here; `bench/process.py` does two hundred."""
    chance = random.Random(4)
    for number in range(12):
        script, _ = hostile(chance.choice(list(HOSTILE)), tmp_path / str(number))
        with trio.move_on_after(chance.uniform(0, 0.25)):
            await sh(script, env={**ENV, "MARK": mark}, starter=starter)
        assert marked(mark) == [], number


async def test_a_call_that_is_cancelled_before_it_starts_starts_nothing(starter, mark):
    with trio.CancelScope() as scope:
        scope.cancel()
        await sh("sleep 60", env={**ENV, "MARK": mark}, starter=starter)
    assert marked(mark) == []


# ------------------------------------------------------------------ when we are gone ourselves

HOST = """
import sys, trio
sys.path[:0] = {path!r}
from leeward.tools.process import run_process
from leeward.tools.process import SupervisedStart
from leeward.tools.process.supervisor import claim_process
from leeward.tools.sandbox.bubblewrap import BubblewrapStart
from leeward.tools.sandbox.seccomp import Sockets, filter_program
{own}
async def main():
    starter = SupervisedStart()
    if not {kept}:
        starter = BubblewrapStart({bwrap!r}, {open!r}, starter, filter_program(Sockets.isolated()))
    argv = ["/bin/sh", "-c", {script!r}]
    while True:
        await run_process(argv, cwd="/", env={env!r}, deadline=float("inf"), max_bytes=1000, starter=starter)
trio.run(main)
"""


def host(starter, script, env, own=False) -> subprocess.Popen:
    source = HOST.format(
        path=[path for path in sys.path if path], kept=isinstance(starter, SupervisedStart), bwrap=BWRAP,
        open=OPEN, script=script, env=env,
        own="claim_process()" if own else "",
    )  # fmt: skip
    return subprocess.Popen([sys.executable, "-c", source])


@pytest.mark.parametrize("name", HOSTILE)
async def test_killing_the_runtime_leaves_no_child(tmp_path, name, starter, mark):
    script, words = hostile(name, tmp_path / "ready")
    with host(starter, script, {**ENV, "MARK": mark}) as runtime:
        try:
            await written(tmp_path / "ready", words)
        finally:
            runtime.kill()
    assert await none_left(mark)


@pytest.mark.slow
async def test_killing_the_runtime_at_any_moment_leaves_no_child(tmp_path, starter, mark):
    """Also while a sandbox is only half made, and its maker dies with us."""
    chance = random.Random(7)
    for number in range(8):
        with host(starter, f"echo x >> {tmp_path}/{number}", {**ENV, "MARK": mark}) as runtime:
            try:
                await written(tmp_path / str(number), 2)
                await trio.sleep(chance.uniform(0, 0.03))
            finally:
                runtime.kill()
    assert await none_left(mark)


async def test_killing_the_runtime_while_it_ends_a_program_leaves_no_child(tmp_path, mark):
    """A reaper is stopped along with what it keeps, until it is told to go on by who may be gone by then."""
    with host(
        SupervisedStart(), f"echo $PPID > {tmp_path}/ready; sleep 60", {**ENV, "MARK": mark}
    ) as runtime:
        try:
            (reaper,) = await written(tmp_path / "ready")
            os.killpg(int(reaper), signal.SIGSTOP)
        finally:
            runtime.kill()
    assert await none_left(mark)


REAPER = "$(ps -o ppid= -p '$$')"
SUPERVISOR = f"$(ps -o ppid= -p {REAPER})"


@pytest.mark.parametrize(
    ("killed", "own"), [(REAPER, False), (REAPER, True), (f"{SUPERVISOR} {REAPER}", True)]
)
async def test_a_program_that_kills_its_reaper_takes_nothing_away(tmp_path, mark, killed, own):
    """Who kills the supervisor, too, gets away with it only below a process that is not ours alone."""
    script = f"setsid sh -c 'kill -KILL {killed}; echo ready > {tmp_path}/ready; exec sleep 60' & wait"
    with host(SupervisedStart(), script, {**ENV, "MARK": mark}, own=own) as runtime:
        try:
            await written(tmp_path / "ready")
            assert await none_left(mark)
        finally:
            runtime.kill()


async def test_a_tree_is_more_than_its_group(tmp_path, mark, planted):
    """The obvious wrong way to end one leaves what has a session of its own."""
    script, _ = hostile("in a session of its own", tmp_path / "ready")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    ended = {}
    for name, end in (("planted", planted("reaper").end_all), ("ours", end_all)):
        child = await SupervisedStart()(
            Start(["/bin/sh", "-c", script], "/", {**ENV, "MARK": mark}, nowhere, nowhere)
        )
        await written(tmp_path / "ready")
        # The reaper has made a group for itself and for what it starts.
        end(child.pid)
        ended[name] = [pid for pid in marked(mark) if pid != child.pid] == []
        await child.end()
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
        assert await none_left(mark)
        (tmp_path / "ready").unlink()
    os.close(nowhere)
    assert ended == {"planted": False, "ours": True}


def test_what_does_not_exist_has_no_descendants():
    assert descendants(2**22 - 1) == [] and end_all(2**22 - 1)
