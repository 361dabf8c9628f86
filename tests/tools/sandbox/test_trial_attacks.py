"""Every attack of `trial_attacks.toml`, and of `escapes.toml`, run on trial and judged from outside."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import stat
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import trio

from leeward.tools.process import ProcessExit, Start, SupervisedStart, children, environment
from leeward.tools.sandbox import Sandbox, SandboxSettings, TrialRan, UpperBounds, open_sandbox
from leeward.tools.sandbox import sandbox as sandbox_module
from leeward.tools.sandbox.trial_probe import KnownTrials
from other_user import assert_passes_as

HERE = Path(__file__).parents[1]
ROOT = HERE.parents[1]
ATTACKS = tomllib.loads((HERE / "trial_attacks.toml").read_text())["attempt"]
ESCAPES = tomllib.loads((HERE / "escapes.toml").read_text())["attempt"]
BOUNDS = UpperBounds(16 << 20, 3000)
LARGE = 17 << 20


class World:
    """What lies around a trial: the world of escapes, and what can be reached through the workspace alone."""

    def __init__(self, folder: Path, escapes: ModuleType) -> None:
        self.escapes = escapes.World(folder)
        self.escapes.listen()
        self.ws, self.secret = self.escapes.ws, self.escapes.secret
        (self.ws / "tree").mkdir()
        for name in ("data", "tree/a", "tree/b", "tree/c"):
            (self.ws / name).write_text("old\n")
        (self.ws / "large").write_bytes(b"x" * LARGE)
        os.mkfifo(self.ws / "fifo")
        self.reader = os.open(self.ws / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        self.datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagram.setblocking(False)
        before = Path.cwd()
        os.chdir(self.ws)
        self.datagram.bind("datagram")
        os.chdir(before)
        self.memory = Path(f"/dev/shm/leeward-{self.secret}")
        self.memory.write_text("old\n")
        libc = ctypes.CDLL(None)
        libc.shmat.restype = ctypes.c_void_p
        self.key = 0x4C000000 | int(self.secret[:5], 16)
        self.segment = libc.shmget(self.key, 4096, 0o1600)
        assert self.segment >= 0, "a segment of shared memory is needed"
        self.shared = libc.shmat(self.segment, None, 0)

    def words(self, victim: int, here: Path) -> dict[str, str]:
        paths = {"data": self.ws / "data", "tree": self.ws / "tree", "fifo": self.ws / "fifo"}
        ours = {name: str(path) for name, path in {**paths, "memory": self.memory, "here": here}.items()}
        return {**self.escapes.words(victim), "key": str(self.key), **ours}

    def state(self) -> dict[str, object]:
        """Everything that must stay as it is, down to the time of change, and numbers of files."""
        found: dict[str, object] = {}
        for top in (self.ws, self.escapes.outside, self.escapes.home):
            for path in (top, *top.rglob("*")):
                info = path.lstat()
                what = (
                    info.st_mode,
                    info.st_ino,
                    info.st_size,
                    info.st_mtime_ns,
                    info.st_ctime_ns,
                    info.st_nlink,
                )
                target = str(path.readlink()) if path.is_symlink() else ""
                content = path.read_bytes() if stat.S_ISREG(info.st_mode) and info.st_size < LARGE else b""
                found[str(path)] = (*what, target, content)
        found["memory"] = self.memory.read_text()
        found["planted"] = Path("/dev/shm/leeward-planted").exists()
        found["segment"] = ctypes.string_at(self.shared, 16)
        return found

    def reached(self) -> list[str]:
        """What outside heard of the program."""
        found = self.escapes.reached()
        for name, receive in (
            ("FIFO", lambda: os.read(self.reader, 9)),
            ("datagram", lambda: self.datagram.recv(9)),
        ):
            try:
                found += [name] if receive() else []
            except BlockingIOError:
                continue
        return found

    def close(self) -> None:
        self.escapes.close()
        os.close(self.reader)
        self.datagram.close()
        self.memory.unlink()
        ctypes.CDLL(None).shmctl(self.segment, 0, None)


@dataclass
class Scene:
    """A world with a sandbox in it, in which attacks are made on trial one after the other."""

    world: World
    sandbox: Sandbox
    victim: int
    status: ModuleType
    made: int = 0
    ran: TrialRan | None = None

    async def run(
        self, argv: list[str], here: str, env: dict[str, str]
    ) -> tuple[ProcessExit, dict[str, object]]:
        """Run a program on trial, and return how it ended and what lay around it before that was over."""
        deadline = trio.current_time() + 30
        async with self.sandbox.trial(
            argv, cwd=here, env=env, deadline=deadline, max_bytes=1 << 20
        ) as self.ran:
            return self.ran.ran.finished, self.world.state()

    async def attempt(self, attempt: dict[str, str]) -> list[str]:
        """Make an attempt, and return what it came to; nothing if it was held."""
        self.made += 1
        here = self.world.ws / "work" / str(self.made)
        here.mkdir()
        before = self.world.state()
        text = attempt.get("run") or attempt["python"]
        for name, word in self.world.words(self.victim, here).items():
            text = text.replace(f"{{{name}}}", word)
        argv = ["/bin/bash", "-c", text] if "run" in attempt else [sys.executable, "-I", "-S", "-c", text]
        home = self.sandbox.confinement.home
        env = {**environment(home, os.environ), "MARK": self.world.escapes.mark}
        finished, after = await self.run(argv, str(here), env)
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        found = [f"{path} changed" for path in changed] + [
            f"{name} was reached" for name in self.world.reached()
        ]
        signs = {
            "it said so": re.search(r"(?m)^OUT", finished.stdout) is not None,
            "it read the canary": self.world.secret in finished.output,
            "a process was hit": self.status.status(self.victim) in "TtZX",
            "a process was left behind": bool(self.world.escapes.left()),
            "it did not come to its end": bool(finished.timed_out or finished.left or finished.exceeded),
        }
        return found + [sign for sign, is_seen in signs.items() if is_seen]


@asynccontextmanager
async def scene(
    folder: Path,
    escapes: ModuleType,
    kind: type[Scene] = Scene,
    level: str = "auto",
    because: Callable[[Sandbox], Awaitable[str]] = Sandbox.no_trial_because,
) -> AsyncIterator[Scene]:
    """A scene, or a skip with the reason why there is none of that kind here."""
    world = World(folder, escapes)
    prefixes = (os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix), str(ROOT / "tools"))
    aside = str(folder / "aside")
    settings = SandboxSettings(world.escapes.policy(), aside, level, prefixes=prefixes, upper=BOUNDS)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    argv, env = ("/bin/sh", "-c", "sleep 300; :", world.secret), {"CANARY": world.secret}
    try:
        async with open_sandbox(settings) as sandbox:
            if problem := await because(sandbox):
                pytest.skip(f"such runs are needed: {problem}")
            kept = await SupervisedStart()(Start(argv, "/", env, nowhere, nowhere))
            try:
                with trio.fail_after(30):
                    while not (
                        found := [pid for pid in children(kept.pid) if world.secret in escapes.arguments(pid)]
                    ):
                        await trio.sleep(0.005)
                yield kind(world, sandbox, found[0], escapes)
            finally:
                with trio.CancelScope(shield=True):
                    await kept.end()
    finally:
        os.close(nowhere)
        world.close()


@pytest.fixture
def escapes(script) -> ModuleType:
    return script("tools/sandbox/test_sandbox_escapes.py")


async def test_no_attack_on_trial_changes_or_reaches_what_is_outside(tmp_path, escapes):
    async with scene(tmp_path, escapes) as shared:
        for attack in ATTACKS:
            assert await shared.attempt(attack) == [], attack["name"]
            assert shared.ran is not None
            assert (shared.ran.upper is None) == attack.get("full", False), (attack["name"], shared.ran)


async def test_no_way_out_of_a_sandbox_leads_out_of_a_trial(tmp_path, escapes):
    async with scene(tmp_path, escapes) as shared:
        for attempt in ESCAPES:
            assert await shared.attempt(attempt) == [], attempt["name"]


@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.get("wrong")], ids=lambda one: one["name"])
async def test_a_workspace_that_is_only_bound_is_found_out(attack, tmp_path, escapes, planted, monkeypatch):
    async with scene(tmp_path, escapes) as its_own:
        monkeypatch.setattr(sandbox_module, "run_tried", planted("trial").tried)
        assert await its_own.attempt(attack) != [], its_own.ran


async def test_the_probe_finds_out_a_workspace_that_is_only_bound(tmp_path, escapes, planted, monkeypatch):
    async with scene(tmp_path, escapes) as shared:
        monkeypatch.setattr(sandbox_module, "run_tried", planted("trial").tried)
        shared.sandbox.trials = KnownTrials()
        assert "changed" in await shared.sandbox.no_trial_because()


@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already")
def test_the_tables_hold_for_nobody_too():
    assert_passes_as(65_534, __file__, "test_no_")
