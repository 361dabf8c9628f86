from __future__ import annotations

import math
import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from leeward.security.errors import PermanentFailure
from leeward.tools import environment, run_process

ENV = environment("/nowhere", {})


async def start(*argv, deadline=math.inf, max_bytes=1_000_000, cwd="/", on_chunk=None, env=ENV):
    return await run_process(argv, cwd=cwd, env=env, deadline=deadline, max_bytes=max_bytes, on_chunk=on_chunk)


async def sh(script, **options):
    return await start("/bin/sh", "-c", script, **options)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return stat.rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def gone(pid: int) -> bool:
    with trio.move_on_after(30):
        while is_alive(pid):
            await trio.sleep(0.005)
    return not is_alive(pid)


async def written(path) -> int:
    """Wait until a child has told its process id."""
    with trio.fail_after(30):
        while not (path.exists() and path.read_text().strip()):
            await trio.sleep(0.005)
    return int(path.read_text())


async def test_both_outputs_come_in_the_order_they_were_printed():
    done = await sh("echo one; echo two >&2; echo three; exit 3")
    assert (done.output, done.exit_code, done.signal) == ("one\ntwo\nthree\n", 3, None)
    assert not (done.timed_out or done.held_open or done.dropped) and done.seconds >= 0


async def test_there_is_nothing_to_read_and_no_terminal():
    done = await sh("cat; [ -t 0 ] || [ -t 1 ] || echo none; ps -o sid= -p $$ | tr -d ' '; echo $$")
    none, session, pid = done.output.split()
    assert none == "none" and session == pid != str(os.getsid(0))


async def test_the_environment_is_made_here(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-" + "0" * 32)
    parent = {"LANG": "de_DE.UTF-8", "TZ": "UTC", "OPENAI_API_KEY": "sk-test", "PATH": "/evil", "LD_PRELOAD": "x"}
    env = environment("/home/me", parent)
    assert env["PATH"].startswith("/usr/") and env["HOME"] == "/home/me" and env["LANG"] == "de_DE.UTF-8"
    assert {k: env[k] for k in ("PAGER", "GIT_TERMINAL_PROMPT", "CI", "TERM", "TZ")} == {
        "PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "CI": "1", "TERM": "dumb", "TZ": "UTC",
    }  # fmt: skip
    assert not {"OPENAI_API_KEY", "LD_PRELOAD"} & set(env)
    assert dict(line.split("=", 1) for line in (await start("/usr/bin/env", env=env)).output.splitlines()) == env


async def test_output_is_handed_out_while_the_program_runs():
    chunks, (send, receive) = [], trio.open_memory_channel[str](10)

    async def on_chunk(chunk):
        chunks.append(chunk)
        await send.send(chunk)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: sh("echo first; read x < /dev/null; sleep 30; echo never", on_chunk=on_chunk))
        with trio.fail_after(30):
            assert await receive.receive() == "first\n"
        nursery.cancel_scope.cancel()
    assert chunks == ["first\n"]


@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        (("/no/such/program",), "/", "No such file"),
        (("/etc/passwd",), "/", "Permission denied"),
        (("/bin/true",), "/no/such/folder", "No such file.*/no/such/folder"),
        (("/bin/true", "a\0b"), "/", "null byte"),
        (("/bin/true", "x" * 5_000_000), "/", "too long"),
    ],
)
async def test_what_cannot_be_started_is_told(argv, cwd, why):
    with pytest.raises(PermanentFailure, match=why):
        await start(*argv, cwd=cwd)


async def test_a_signal_is_told_apart_from_an_exit_code():
    done = await sh("kill -SEGV $$")
    assert (done.exit_code, done.signal) == (None, signal.SIGSEGV)


async def test_a_flood_is_bounded_and_counted():
    done = await sh("head -c 5000000 /dev/zero | tr '\\0' x; echo end", max_bytes=100_000)
    assert (len(done.output), done.dropped, done.exit_code) == (100_000, 4_900_004, 0)


async def test_a_character_in_two_pieces_is_one():
    done = await sh("printf '\\303'; sleep 0.05; printf '\\244\\n'; printf 'a\\377b'")
    assert done.output == "ä\na\N{REPLACEMENT CHARACTER}b"
    assert (await sh("printf 'aä'", max_bytes=2)).output == "a"
    assert (await sh("printf 'a\\303'")).output == "a\N{REPLACEMENT CHARACTER}"


async def test_the_deadline_ends_a_program_with_what_it_printed_and_in_time():
    started = trio.current_time()
    done = await sh("echo begun; sleep 30", deadline=started + 1.2)
    assert done.timed_out and done.output == "begun\n" and done.signal == signal.SIGTERM
    assert trio.current_time() - started < 1.2


async def test_a_program_that_ignores_sigterm_is_killed(tmp_path):
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; echo begun; while :; do sleep 0.05; done"
    started = trio.current_time()
    done = await sh(script, deadline=started + 1)
    assert done.timed_out and done.signal == signal.SIGKILL and trio.current_time() - started < 2
    assert await gone(await written(tmp_path / "pid"))


async def test_sigterm_comes_first_so_that_a_program_can_tidy_up(tmp_path):
    script = f"trap 'echo tidy > {tmp_path}/tidy; exit 0' TERM; echo begun; while :; do sleep 0.02; done"
    await sh(script, deadline=trio.current_time() + 1)
    assert (tmp_path / "tidy").read_text() == "tidy\n"


async def test_cancelling_leaves_nothing_of_the_group(tmp_path):
    script = f"(trap '' TERM; sh -c 'echo $$ > {tmp_path}/child; exec sleep 60') & echo $$ > {tmp_path}/pid; wait"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: sh(script))
        pids = [await written(tmp_path / name) for name in ("pid", "child")]
        assert all(map(is_alive, pids))
        started = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - started < 2
    assert all([await gone(pid) for pid in pids])


async def test_background_jobs_do_not_survive_the_program(tmp_path):
    done = await sh(f"sleep 60 >/dev/null 2>&1 & echo $! > {tmp_path}/pid; echo done")
    assert (done.output, done.exit_code, done.held_open) == ("done\n", 0, False)
    assert await gone(await written(tmp_path / "pid"))


async def test_a_job_of_the_group_that_holds_the_pipe_is_not_waited_for(tmp_path):
    started = trio.current_time()
    done = await sh(f"sleep 60 & echo $! > {tmp_path}/pid; echo done")
    assert done.held_open and done.exit_code == 0 and done.output == "done\n"
    assert trio.current_time() - started < 3
    assert await gone(await written(tmp_path / "pid"))


DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(60)
"""


async def test_a_double_forked_grandchild_that_holds_the_pipe_is_not_waited_for(tmp_path):
    path = tmp_path / "pid"
    script = f"{sys.executable} -c '{DAEMON}' {path}; while [ ! -s {path} ]; do sleep 0.01; done; echo done"
    try:
        with trio.fail_after(30):
            done = await sh(script)
        assert done.held_open and done.exit_code == 0 and done.output == "done\n"
    finally:
        os.kill(await written(path), signal.SIGKILL)


async def test_late_output_of_a_job_is_still_collected():
    done = await sh("(sleep 0.1; echo late) & echo early")
    assert done.output == "early\nlate\n" and not done.held_open


async def test_a_program_that_closes_its_output_is_still_waited_for(tmp_path):
    done = await sh(f"exec >&- 2>&-; sleep 0.1; echo x > {tmp_path}/x; exit 4")
    assert done.exit_code == 4 and (tmp_path / "x").exists()


async def test_many_runs_leave_no_descriptor_and_no_zombie():
    await sh("true")
    before = descriptors()
    for _ in range(5):
        await sh("sleep 5 & true", deadline=trio.current_time() + 0.2)
    assert descriptors() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
