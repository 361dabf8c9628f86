"""Trial runs: what is kept, what is discarded, and where none is possible."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.security.outcome import PermanentFailure
from leeward.security.policy import Policy, Sandboxing
from leeward.security.sandbox import Masks, trial_confinement
from leeward.tools.process import Limits, environment, quiet_environment
from leeward.tools.sandbox import (
    Sandbox,
    SandboxSettings,
    TrialRan,
    TrialUnavailable,
    UpperBounds,
    open_sandbox,
)
from leeward.tools.sandbox import sandbox as sandbox_module
from leeward.tools.sandbox import trial as trial_module
from leeward.tools.sandbox.trial import open_trial
from leeward.tools.sandbox.trial_probe import KnownTrials

ROOT = Path(sandbox_module.__file__).resolve().parents[2]
PREFIXES = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), str(ROOT / "tools"))
SMALL = UpperBounds(8 << 20, 500)


@pytest.fixture
def place(tmp_path, workspace):
    (tmp_path / "home").mkdir()
    return tmp_path


@asynccontextmanager
async def sandboxed(
    place: Path, ws: Path | None = None, upper: UpperBounds = SMALL, **wished
) -> AsyncIterator[Sandbox]:
    """A sandbox in which something can be run on trial, or a skip with the reason why nothing can."""
    limits = wished.pop("limits", Limits())
    folder = str(ws or place / "ws")
    policy = Policy(folder, str(place / "home"), sandbox=Sandboxing(**wished))
    aside = str(place / "aside")
    settings = SandboxSettings(policy, aside, prefixes=PREFIXES, limits=limits, upper=upper)
    async with open_sandbox(settings) as sandbox:
        if problem := await sandbox.no_trial_because():
            pytest.skip(f"trial runs are needed: {problem}")
        yield sandbox


def trial(sandbox: Sandbox, script: str, **options):
    """Run a line of bash on trial."""
    env = environment(sandbox.confinement.home, os.environ)
    usual = {"cwd": sandbox.confinement.workspace, "env": env, "max_bytes": 100_000}
    deadline = trio.current_time() + 30
    return sandbox.trial(["/bin/bash", "-c", script], **{**usual, "deadline": deadline, **options})


def written(ran: TrialRan) -> dict[str, str]:
    """What lies in the upper: contents of files, and what else there is."""
    assert ran.upper is not None, ran.discarded
    found = {}
    for folder, _, _, handle in os.fwalk(".", dir_fd=ran.upper.handle):
        with os.scandir(handle) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                path = os.path.normpath(f"{folder}/{entry.name}")
                if stat.S_ISREG(info.st_mode):
                    with os.fdopen(os.open(entry.name, os.O_RDONLY, dir_fd=handle), errors="replace") as file:
                        found[path] = file.read()
                else:
                    found[path] = "folder" if entry.is_dir(follow_symlinks=False) else "gone"
    return found


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# ------------------------------------------------------------------ what it keeps


async def test_what_a_program_wrote_is_read_by_a_handle_and_the_workspace_is_as_it_was(place):
    ws = place / "ws"
    (ws / "sub").mkdir()
    (ws / "kept").write_text("old\n")
    (ws / "gone").write_text("old\n")
    async with sandboxed(place) as sandbox:
        async with trial(
            sandbox, "echo more >> ../kept; rm ../gone; echo new > new; cat ../kept; pwd", cwd=str(ws / "sub")
        ) as ran:
            assert ran.ran.finished.output == f"old\nmore\n{ws}/sub\n"
            assert written(ran) == {
                "kept": "old\nmore\n",
                "gone": "gone",
                "sub": "folder",
                "sub/new": "new\n",
            }
            assert os.fstat(ran.upper.lower.handle).st_ino == ws.stat().st_ino
    assert (ws / "kept").read_text() == (ws / "gone").read_text() == "old\n"
    assert not list((ws / "sub").iterdir())


async def test_what_was_changed_meanwhile_is_told_by_its_time(place):
    ws = place / "ws"
    before, after = ws / "before", ws / "after"
    async with sandboxed(place) as sandbox:
        for _ in range(20):
            before.write_text("x")
            async with trial(sandbox, ":") as ran:
                after.write_text("x")
                assert before.stat().st_ctime_ns < ran.upper.began <= after.stat().st_ctime_ns


async def test_a_clock_that_ticks_is_waited_for_and_one_that_stands_is_told_of(workspace):
    async with open_trial(str(workspace), SMALL) as opened:
        opened._prepared = now = time.time_ns() + 5_000_000
        assert opened.next_tick() > now
        opened._prepared = now + 3_600_000_000_000
        with pytest.raises(TrialUnavailable, match="too coarsely"):
            opened.next_tick()


@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("echo x > new; exit 3", 3, None), ("echo x > new; kill -SEGV $$", None, 11)],
)
async def test_what_a_program_wrote_before_it_failed_is_kept(script, code, number, place):
    async with sandboxed(place) as sandbox, trial(sandbox, script) as ran:
        assert (ran.ran.finished.exit_code, ran.ran.finished.signal) == (code, number)
        assert written(ran) == {"new": "x\n"}


async def test_it_ends_with_its_main_process(place):
    async with sandboxed(place) as sandbox:
        began = trio.current_time()
        async with trial(sandbox, "(sleep 60; echo x > late) & echo x > new") as ran:
            assert written(ran) == {"new": "x\n"}
        assert trio.current_time() - began < 30


async def test_two_at_once_and_one_for_real_see_nothing_of_each_other(place):
    ws = place / "ws"
    async with sandboxed(place) as sandbox:
        found = {}

        async def one(name: str) -> None:
            async with trial(sandbox, f"echo {name} > same; sleep 0.1; cat same; ls") as ran:
                found[name] = (ran.ran.finished.output, written(ran))

        async with trio.open_nursery() as nursery:
            for name in ("a", "b"):
                nursery.start_soon(one, name)
        assert found == {name: (f"{name}\nsame\n", {"same": f"{name}\n"}) for name in ("a", "b")}
        env = environment(sandbox.confinement.home, os.environ)
        await sandbox.run(
            ["/bin/sh", "-c", "echo x > real"],
            cwd=str(ws),
            env=env,
            deadline=trio.current_time() + 30,
            max_bytes=100,
        )
    assert [path.name for path in ws.iterdir()] == ["real"]


NAMES = ("with blanks", "a:b", "a,b", "a\\b", "a\nb", "a\\:,b", b"a\xff\xfeb", "ä'\"$(x)", "x" * 200)


@pytest.mark.parametrize("name", NAMES)
async def test_a_workspace_may_be_called_anything(name, place):
    ws = place / os.fsdecode(name)
    (ws / "sub").mkdir(parents=True)
    async with (
        sandboxed(place, ws) as sandbox,
        trial(sandbox, "echo x > new; ls ..", cwd=str(ws / "sub")) as ran,
    ):
        assert ran.ran.finished.output == "sub\n"
        assert written(ran) == {"sub": "folder", "sub/new": "x\n"}
    assert not list((ws / "sub").iterdir())


async def test_a_workspace_may_be_named_by_a_link(place):
    link = place / "link"
    link.symlink_to(place / "ws")
    async with sandboxed(place, link) as sandbox, trial(sandbox, "echo x > new") as ran:
        assert written(ran) == {"new": "x\n"}
    assert not list(link.iterdir())


async def test_the_home_may_be_the_workspace(place):
    async with sandboxed(place, place / "home") as sandbox, trial(sandbox, "echo x > ~/new") as ran:
        assert written(ran) == {"new": "x\n"}
    assert not list((place / "home").iterdir())


async def test_git_works_in_a_repository_and_in_a_further_tree_of_it(git, place):
    ws = place / "ws"
    (ws / "main").mkdir()
    git(ws / "main", "init", "-q", "--template=")
    git(ws / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git(ws / "main", "worktree", "add", "-q", "../tree")
    line = (
        "echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm y && git log --format=%s"
    )
    async with sandboxed(place) as sandbox:
        for folder in ("main", "tree"):
            async with trial(sandbox, line, cwd=str(ws / folder)) as ran:
                assert ran.ran.finished.output == "y\nx\n"
                assert f"{folder}/f" in written(ran)
            assert git(ws / folder, "log", "--format=%s") == "x\n"


READING = {
    "status": "git status --short",
    "import": f"{sys.executable} -c 'import sys; sys.path[:0] = [\"\"]; import module'",
    "pytest": f"{sys.executable} -m pytest -p no:leeward -q test_module.py",
    "ruff": f"{sys.executable} -m ruff check module.py",
    "mypy": f"{sys.executable} -m mypy module.py",
}


@pytest.mark.parametrize("what", READING)
async def test_what_only_reads_leaves_nothing(git, what, place):
    ws = place / "ws"
    git(ws, "init", "-q", "--template=")
    (ws / "module.py").write_text("x = 1\n")
    (ws / "test_module.py").write_text("import module\n\n\ndef test_x() -> None:\n    assert module.x\n")
    git(ws, "add", ".")
    os.utime(ws / "module.py", (1, 1))
    async with sandboxed(place) as sandbox, trial(sandbox, READING[what]) as ran:
        assert ran.ran.finished.exit_code == 0, ran.ran.finished.output
        assert written(ran) == {}


def test_a_quiet_environment_keeps_what_the_person_set():
    env = quiet_environment({"PYTEST_ADDOPTS": "-x", "PATH": "/bin"})
    assert env["PYTEST_ADDOPTS"] == "-x -p no:cacheprovider"
    assert env["PATH"] == "/bin"
    assert env["GIT_OPTIONAL_LOCKS"] == "0"


# ------------------------------------------------------------------ what it is kept from


async def test_it_has_no_network_and_no_further_folder_whatever_is_configured(place):
    more, read = place / "more", place / "read"
    for folder in (more, read):
        folder.mkdir()
        (folder / "f").write_text("read me\n")
    wished = {"network": True, "extra_write": (str(more),), "extra_read": (str(read),)}
    line = (
        "ls /sys/class/net /proc/net/dev; tail -n +3 /proc/net/dev | cut -d: -f1; "
        f"echo x > {more}/f; ls {more}; cat {read}/f; echo x > {read}/f"
    )
    async with sandboxed(place, **wished) as sandbox, trial(sandbox, line) as ran:
        assert ran.ran.finished.stdout.split("\n")[1:3] == ["    lo", "read me"]
        assert ran.ran.notices == ("in a trial run only the workspace can be changed",)
    assert (more / "f").read_text() == (read / "f").read_text() == "read me\n"


async def test_no_fifo_of_a_folder_that_is_only_read_leads_outside(place):
    read = place / "read"
    read.mkdir()
    os.mkfifo(read / "fifo")
    reader = os.open(read / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with sandboxed(place, extra_read=(str(read),)) as sandbox:
            async with trial(sandbox, f"echo x 1<>{read}/fifo; echo x >> {read}/fifo; ls {read}") as ran:
                assert ran.ran.finished.stdout == "fifo\n"
        assert os.read(reader, 9) == b""
    finally:
        os.close(reader)


async def test_nothing_beside_a_toolchain_leads_outside(place):
    tools = place / "home" / ".local"
    (tools / "bin").mkdir(parents=True)
    (tools / "bin" / "tool").write_text("a tool\n")
    os.mkfifo(tools / "bin" / "fifo")
    reader = os.open(tools / "bin" / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    connecting = "import socket; socket.socket(socket.AF_UNIX).connect('s')"
    line = (
        f"cd {tools}; cat bin/tool; echo x > bin/fifo; "
        f'{sys.executable} -I -S -c "{connecting}" && echo OUT; true'
    )
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(tools)
        listening.bind("s")
        os.chdir(before)
        listening.listen()
        async with sandboxed(place) as sandbox, trial(sandbox, line) as ran:
            assert ran.ran.finished.stdout == "a tool\n"
    assert os.read(reader, 9) == b""
    os.close(reader)


async def test_secrets_are_masked_and_protected_places_stay(git, place):
    ws = place / "ws"
    git(ws, "init", "-q", "--template=")
    (ws / ".env").write_text("SECRET=1\n")
    (ws / ".leeward").mkdir()
    (ws / ".leeward" / "config.toml").write_text("")
    config = (ws / ".git" / "config").read_text()
    line = (
        "cat .env; echo x > .env; rm -f .env; rm -rf .leeward; echo x >> .leeward/config.toml; "
        "git config a.b c; cat .git/config; true"
    )
    async with sandboxed(place) as sandbox, trial(sandbox, line) as ran:
        # What git stores can be changed here: that is judged before it is kept.
        assert ran.ran.finished.stdout == f"{config}[a]\n\tb = c\n"
        assert {*written(ran)} <= {".git", ".git/config", ".leeward"}
    assert (ws / ".git" / "config").read_text() == config


async def test_a_failure_for_want_of_what_a_trial_lacks_is_explained(place):
    async with sandboxed(place) as sandbox:
        async with trial(sandbox, "echo 'Could not resolve host: x'; exit 6") as ran:
            assert ran.ran.notices == ("a trial run has no network but to hosts that are allowed",)
        async with trial(sandbox, "echo 'Could not resolve host: x'") as ran:
            assert ran.ran.notices == ()


# ------------------------------------------------------------------ what it discards


async def test_at_its_deadline_what_it_wrote_is_discarded(place):
    async with sandboxed(place) as sandbox:
        async with trial(sandbox, "echo x > new; sleep 60", deadline=trio.current_time() + 1) as ran:
            assert (ran.upper, ran.discarded) == (None, "it was stopped at its deadline")


async def test_cancelled_it_leaves_nothing_behind(place):
    async with sandboxed(place) as sandbox:
        # The first run opens what the others of the session share: its supervisor and the index's queue.
        async with trial(sandbox, "true"):
            pass
        before = handles()
        started = trio.Event()

        async def on_chunk(_: str) -> None:
            started.set()

        async def run() -> None:
            async with trial(sandbox, "echo x | tee new; sleep 60", on_chunk=on_chunk):
                pytest.fail("it ended")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            await started.wait()
            nursery.cancel_scope.cancel()
        assert handles() == before
    assert not list((place / "ws").iterdir())


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (
            "cat /dev/zero > big",
            "it wrote as much as a trial run can hold (8.0 MiB in memory; [tools.shell] trial_bytes)",
        ),
        (
            "mkdir d; for i in {1..600}; do : > d/$i; done",
            "it made as many files and folders as a trial run can hold (500)",
        ),
    ],
)
async def test_at_a_limit_what_it_wrote_is_discarded_and_the_limit_told(script, told, place):
    async with sandboxed(place) as sandbox, trial(sandbox, script) as ran:
        assert (ran.upper, ran.discarded) == (None, told)


async def test_a_file_too_large_to_be_changed_is_told_of(place):
    (place / "ws" / "large").write_bytes(b"x" * (9 << 20))
    async with sandboxed(place) as sandbox, trial(sandbox, "echo x >> large") as ran:
        assert ran.ran.finished.exit_code != 0
        assert "what it writes is bounded" in ran.ran.notices[0]
        assert written(ran) == {}


async def test_what_takes_too_much_memory_is_killed_and_discarded(place):
    hungry = f"{sys.executable} -I -S -c 'x = bytearray(300 << 20); import time; time.sleep(30)'"
    async with sandboxed(place, limits=Limits(memory=100 << 20)) as sandbox:
        async with trial(sandbox, f"echo x > new; {hungry}") as ran:
            assert ran.upper is None
            assert "memory" in ran.discarded


async def test_what_starts_too_many_processes_is_killed_and_discarded(place):
    async with sandboxed(place, limits=Limits(tasks=50)) as sandbox:
        async with trial(sandbox, "echo x > new; for i in {1..100}; do sleep 30 & done; wait") as ran:
            assert ran.upper is None
            assert "more than 50 processes" in ran.discarded


async def test_no_handle_is_left_and_none_is_closed_twice(place):
    async with sandboxed(place) as sandbox:
        async with trial(sandbox, ":"):
            pass
        before = handles()
        for script in ("echo x > new", "exit 1", "cat /dev/zero > big"):
            async with trial(sandbox, script) as ran:
                if ran.upper is not None:
                    ran.upper.close()
        with pytest.raises(PermanentFailure, match="could not be started"):
            async with sandbox.trial(
                ["no-such-program"], cwd="/", env={}, deadline=trio.current_time() + 9, max_bytes=9
            ):
                pytest.fail("it ran")
        with pytest.raises(ZeroDivisionError):
            async with trial(sandbox, ":"):
                raise ZeroDivisionError
        assert handles() == before


async def test_another_folder_in_the_place_of_the_workspace_is_refused(place):
    ws = place / "ws"
    async with sandboxed(place) as sandbox, open_trial(str(ws), SMALL) as opened:
        ws.rename(place / "moved")
        ws.mkdir()
        program = sandbox_module.Program.smallest("echo x > new", str(ws))
        with pytest.raises(TrialUnavailable, match="the workspace could not be opened"):
            await sandbox_module.run_tried(
                sandbox, opened, program, trial_confinement(sandbox.confinement), Masks()
            )
    assert not list(ws.iterdir())


RUNTIME = """
import os, sys, trio
from leeward.security.policy import Policy
from leeward.tools.sandbox import SandboxSettings, UpperBounds, open_sandbox

async def main(place):
    policy, upper = Policy(f"{place}/ws", f"{place}/home"), UpperBounds(8 << 20, 500)
    settings = SandboxSettings(policy, f"{place}/aside", upper=upper)
    async with open_sandbox(settings) as sandbox:
        problem = await sandbox.no_trial_because()
        print(f"no trial: {problem}" if problem else "trial", flush=True)
        if not problem and len(sys.argv) > 2:
            async def told(text): print(text, end="", flush=True)
            words = ["/bin/sh", "-c", sys.argv[2]]
            env = {"PATH": "/usr/bin:/bin", "MARK": place}
            until = trio.current_time() + 60
            async with sandbox.trial(
                words, cwd=f"{place}/ws", env=env, deadline=until, max_bytes=99, on_chunk=told
            ) as ran:
                print(ran.discarded or sorted(os.listdir(ran.upper.handle)))

trio.run(main, sys.argv[1])
"""


def runtime(place: Path, *words: str) -> list[str]:
    """The words of a process of its own that opens a sandbox and runs a line on trial."""
    return [sys.executable, "-c", textwrap.dedent(RUNTIME), str(place), *words]


def carrying(mark: Path) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={mark}".encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


def test_when_the_runtime_dies_nothing_is_left(place):
    line = "echo x > new; echo begun; while :; do echo x >> new; sleep 0.01; done"
    with subprocess.Popen(runtime(place, line), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        if told != "trial\n":
            process.kill()
            pytest.skip(f"trial runs are needed: {told}")
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGKILL)
    last = time.monotonic() + 20
    while (left := carrying(place)) and time.monotonic() < last:
        time.sleep(0.01)
    assert left == []
    assert not list((place / "ws").iterdir())


# ------------------------------------------------------------------ where there is none


async def test_below_bubblewrap_there_is_none_and_the_reason_is_told(place):
    policy = Policy(str(place / "ws"), str(place / "home"))
    for level in ("landlock", "none"):
        async with open_sandbox(SandboxSettings(policy, str(place / "aside"), level)) as sandbox:
            assert "trial runs need bubblewrap" in await sandbox.no_trial_because()
            with pytest.raises(TrialUnavailable, match="trial runs need bubblewrap"):
                async with trial(sandbox, "echo x > new"):
                    pytest.fail("it ran")
    assert not list((place / "ws").iterdir())


async def test_it_is_found_out_once(place, monkeypatch):
    probed = []

    async def probe(workspace, _):
        probed.append(workspace)
        return ""

    async with sandboxed(place) as sandbox:
        sandbox.trials = KnownTrials()
        monkeypatch.setattr(sandbox_module, "probe_trial", probe)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(sandbox.no_trial_because)
        async with trial(sandbox, ":"):
            pass
    assert probed == [str(place / "ws")]


async def test_the_probe_leaves_nothing_behind(place, monkeypatch):
    for beside in (str(place), "/dev/shm"):
        monkeypatch.setattr("tempfile.tempdir", beside)
        async with sandboxed(place):
            assert {path.name for path in place.iterdir()} <= {"ws", "home", "aside"}
    assert not list((place / "ws").iterdir())


async def test_the_root_is_no_workspace_for_a_trial(place):
    async with sandboxed(place) as sandbox:
        sandbox.confinement = sandbox_module.replace(sandbox.confinement, workspace="/")
        sandbox.trials = KnownTrials()
        assert await sandbox.no_trial_because() != ""


async def test_a_file_system_that_a_program_answers_for_is_refused(place, monkeypatch):
    ws = place / "ws"
    found = [(1, "/", "/", "ext4"), (ws.stat().st_dev, "/", str(place), "fuse.sshfs")]
    async with sandboxed(place) as sandbox:
        monkeypatch.setattr(trial_module, "mounts", lambda _: found)
        with pytest.raises(
            TrialUnavailable, match=r"file system \(fuse.sshfs\) is a program, not part of the kernel"
        ):
            async with trial(sandbox, ":"):
                pytest.fail("it ran")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize(
    ("name", "mode", "told"),
    [
        (".", 0o755, "the workspace belongs to another user or group (1234, 1234)"),
        ("sub/f", 0o666, "sub/f belongs to another user"),
        ("sub/f", 0o644, ""),
    ],
)
async def test_what_belongs_to_others_is_found_before_it_fails(name, mode, told, place):
    ws = place / "ws"
    (ws / "sub").mkdir()
    (ws / "sub" / "f").touch()
    async with sandboxed(place) as sandbox:
        os.chown(ws / name, 1234, 1234)
        (ws / name).chmod(mode)
        sandbox.trials = KnownTrials()
        problem = await sandbox.no_trial_because()
        assert told in problem and bool(told) == bool(problem)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
async def test_what_came_to_belong_to_others_since_is_told_of(place):
    other = place / "ws" / "other"
    async with sandboxed(place) as sandbox:
        other.write_text("old\n")
        os.chown(other, 1234, 1234)
        other.chmod(0o666)
        async with trial(sandbox, "echo x >> other") as ran:
            assert ran.ran.notices == ("over an overlay files of other users and groups cannot be changed",)
            assert written(ran) == {}


OVERLAID = (
    "mkdir lower{0} up{0} work{0}; mount -t tmpfs tmpfs up{0}; mkdir up{0}/u up{0}/w; "
    "mount -t overlay overlay -o lowerdir={1},upperdir=up{0}/u,workdir=up{0}/w,userxattr ws"
)
TWICE = f"{OVERLAID.format(1, 'lower1')}; {OVERLAID.format(2, 'ws')}"
MOUNTED = "another file system is mounted in the workspace, at {ws}"
SETTINGS = {
    "mkdir ws/sub; mount -t tmpfs tmpfs ws/sub": f"{MOUNTED}/sub",
    "mkdir 'ws/a b'; mount -t tmpfs tmpfs 'ws/a b'": f"{MOUNTED}/a b",
    "mkdir ws/a\rb; mount -t tmpfs tmpfs ws/a\rb": f"{MOUNTED}/a",
    "echo 0 > /proc/sys/user/max_user_namespaces": "this system lets no user namespace be made for it",
    "mount -t tmpfs tmpfs ws": "",
    OVERLAID.format(1, "lower1"): "",
    TWICE: "the kernel lays no overlay over the workspace",
    "mount --bind ws ws; mount -o remount,ro,bind ws": (
        "the workspace could not be opened: Read-only file system"
    ),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_where_a_workspace_lies_decides_and_is_told(setting, place):
    """Each in namespaces of its own, so that nothing is mounted on the machine."""
    if shutil.which("unshare") is None or shutil.which("bwrap") is None:
        pytest.skip("unshare and bubblewrap are needed to make such places")
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-ec"]
    made = subprocess.run([*isolated, setting], cwd=place, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"such a place cannot be made here: {made.stderr}")
    for leftover in place.glob("ws/*"):
        leftover.rmdir()
    for leftover in place.glob("*[12]"):
        leftover.rmdir()
    words = [*isolated, f'{setting}; exec "$@"', "sh", *runtime(place, "echo x > new")]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=60)
    wanted = SETTINGS[setting].format(ws=place / "ws")
    assert done.stdout.startswith(f"no trial: {wanted}" if wanted else "trial\n['new']"), (
        done.stdout + done.stderr
    )
