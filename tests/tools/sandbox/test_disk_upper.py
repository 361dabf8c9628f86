"""Writes of a run held on disk: bounded, private, and removed."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.security.policy import Policy
from leeward.tools.process import environment
from leeward.tools.process.disk_upper import DiskUpper, remove_abandoned, room_on_disk
from leeward.tools.sandbox import SandboxSettings, UpperBounds, disk_for, open_sandbox

SMALL = UpperBounds(4 << 20, 200)
MIB = 1 << 20


@pytest.fixture
def place(tmp_path, workspace):
    (tmp_path / "home").mkdir()
    return tmp_path


@asynccontextmanager
async def sandboxed(place: Path, upper: UpperBounds = SMALL):
    policy = Policy(str(place / "ws"), str(place / "home"))
    settings = SandboxSettings(policy, str(place / "aside"), upper=upper, on_disk=str(place / "runs"))
    async with open_sandbox(settings) as sandbox:
        if problem := await sandbox.no_trial_because():
            pytest.skip(f"trial runs are needed: {problem}")
        if not await disk_for(sandbox):
            pytest.skip("the disk of the temporary folder holds no upper, or has no room")
        yield sandbox


def trial(sandbox, script: str, disk: int, **options):
    env = environment(sandbox.confinement.home, os.environ)
    usual = {"cwd": sandbox.confinement.workspace, "env": env, "max_bytes": 100_000, "disk": disk}
    deadline = trio.current_time() + 60
    return sandbox.trial(["/bin/bash", "-c", script], **{**usual, "deadline": deadline, **options})


def runs(place: Path) -> list[str]:
    return [path.name for path in (place / "runs").iterdir()] if (place / "runs").exists() else []


async def removed(place: Path) -> None:
    """Wait until nothing is left of a run; a thread removes it."""
    with trio.fail_after(20):
        while runs(place):
            await trio.sleep(0.01)


async def test_more_than_memory_holds_is_written_to_a_private_folder_and_removed(place) -> None:
    async with sandboxed(place) as sandbox:
        await removed(place)
        write = "head -c 9000000 /dev/zero > big; for i in $(seq 300); do : > f$i; done"
        async with trial(sandbox, write, 64 * MIB) as ran:
            assert ran.upper is not None, ran.discarded
            assert os.stat("big", dir_fd=ran.upper.handle).st_size == 9_000_000
            assert len(runs(place)) == 1
            assert (place / "runs").stat().st_mode & 0o777 == 0o700
        await removed(place)
        assert not list((place / "ws").iterdir())


async def test_in_memory_that_is_full_is_told(place) -> None:
    async with sandboxed(place) as sandbox:
        async with trial(sandbox, "head -c 9000000 /dev/zero > big; true", 0) as ran:
            assert ran.upper is None and ran.is_full and "as much as a trial run can hold" in ran.discarded


@pytest.mark.parametrize(
    "script",
    [
        "for i in $(seq 400); do head -c 1000000 /dev/urandom > f$i || exit; sleep 0.02; done",
        "mkdir d; cd d; chmod 0300 .; while :; do head -c 1000000 /dev/urandom >> f; sleep 0.02; done",
        "i=0; while :; do : > f$i; i=$((i + 1)); done",
    ],
)
async def test_a_program_that_fills_the_disk_is_ended_and_all_it_wrote_is_discarded(place, script) -> None:
    async with sandboxed(place) as sandbox:
        async with trial(sandbox, script, 8 * MIB) as ran:
            assert ran.upper is None and "more than a run on disk can hold" in ran.discarded
            assert not ran.is_full
        await removed(place)


DEEP = "import os; [(os.mkdir(str(n)), os.chdir(str(n))) for n in range(1200)]; os.mkdir('.1.moved')"
HOSTILE = (
    f'python3 -c "{DEEP}"; mkdir -p a/b/c; echo x > a/b/c/f; chmod 000 a/b/c a/b; chmod 000 a; '
    "ln -s / l; mkfifo p"
)


async def test_a_hostile_tree_is_removed_without_following_anything(place) -> None:
    (place / "kept").mkdir()
    (place / "kept" / "f").write_text("x")
    async with sandboxed(place, UpperBounds(4 << 20, 5000)) as sandbox:
        async with trial(sandbox, f"ln -s {place}/kept out; {HOSTILE}", 64 * MIB) as ran:
            assert ran.upper is not None, ran.discarded
        await removed(place)
    assert (place / "kept" / "f").read_text() == "x"


async def test_what_a_killed_process_left_goes_at_the_next_start_and_nothing_else(place) -> None:
    folder = place / "runs"
    held = DiskUpper.made(str(folder))
    code = (
        "import os, signal\n"
        "from leeward.tools.process.disk_upper import DiskUpper\n"
        f"made = DiskUpper.made({str(folder)!r})\n"
        "os.makedirs(made.path + '/upper/a/b')\n"
        "open(made.path + '/upper/a/f', 'w').write('x')\n"
        "os.chmod(made.path + '/upper/a', 0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    await trio.run_process([sys.executable, "-c", code], check=False)
    assert len(runs(place)) == 2
    await trio.to_thread.run_sync(remove_abandoned, str(folder))
    assert runs(place) == [Path(held.path).name]
    held.close()
    await removed(place)


def test_no_run_is_held_in_the_workspace_itself(tmp_path) -> None:
    assert room_on_disk("", str(tmp_path)) == 0
    assert room_on_disk(str(tmp_path / "data"), str(tmp_path)) == 0
    (tmp_path / "link").symlink_to(tmp_path / "ws")
    assert room_on_disk(str(tmp_path / "link"), str(tmp_path / "ws")) == 0
