"""Every attempt of `escapes.toml`, made for real at every level, and judged from outside."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from leeward.security.policy import Policy
from leeward.tools.process import Start, SupervisedStart, children, environment
from leeward.tools.sandbox import Sandbox, SandboxSettings, open_sandbox
from loading import toml_of
from other_user import assert_passes_as

HERE = Path(__file__).parents[1]
ROOT = HERE.parents[1]
DOCS = ROOT / "docs" / "sandbox.md"
ATTEMPTS = toml_of(HERE / "escapes.toml")["attempt"]
LEVELS = ("bubblewrap", "landlock", "none")
MARK = "<!-- made from tests/tools/escapes.toml, and compared with it by a test -->\n\n"
EVIL = re.compile(rb"fsmonitor|sshcommand|hookspath|alias|out", re.IGNORECASE)
HOOK = "#!/bin/sh\ntrue\n"


class World:
    """What lies around a sandbox: a home, a folder outside, a workspace, sockets, and another process."""

    def __init__(self, root: Path) -> None:
        self.secret = uuid.uuid4().hex
        self.mark = uuid.uuid4().hex
        self.outside, self.home, self.ws = (root / name for name in ("outside", "home", "ws"))
        self.data = self.home / ".local" / "share" / "leeward"
        self.sockets: dict[str, socket.socket] = {}
        for path, text in self.files().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.ws / "work").mkdir()
        os.link(self.home / ".ssh" / "id_ed25519", self.ws / "letter")
        os.link(self.ws / "private" / ".env", self.ws / "plain")
        git = ["git", "-c", "init.defaultBranch=main", "init", "-q", "--template=", str(self.ws)]
        subprocess.run(git, check=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
        (self.ws / ".git" / "hooks").mkdir(exist_ok=True)
        (self.ws / ".git" / "hooks" / "pre-commit").write_text(HOOK)
        (self.ws / ".git" / "hooks" / "pre-commit").chmod(0o755)

    def files(self) -> dict[Path, str]:
        secret = f"{self.secret}\n"
        return {
            self.outside / "canary": secret,
            self.home / ".bashrc": "true\n",
            self.home / ".ssh" / "id_ed25519": secret,
            self.home / ".cargo" / "credentials.toml": secret,
            self.home / ".cargo" / "bin" / "tool": "a tool\n",
            self.data / "audit.key": secret,
            self.data / "leeward.db": secret,
            self.ws / "private" / ".env": secret,
            self.ws / "private" / "venv" / "bin" / "python": "an interpreter\n",
            self.ws / ".leeward" / "config.toml": "\n",
        }

    def policy(self) -> Policy:
        ours = (str(self.data), str(self.ws / ".leeward"), str(self.ws / "private" / "venv"))
        return Policy(str(self.ws), str(self.home), secret_paths=ours[:1], protected_paths=ours)

    def listen(self) -> None:
        self.sockets["tcp"] = socket.create_server(("127.0.0.1", 0))
        self.sockets["udp"] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sockets["udp"].bind(("127.0.0.1", 0))
        # The address of a local socket has room for about a hundred characters.
        for name, folder in (("socket", self.outside), ("inside", self.ws)):
            self.sockets[name] = socket.socket(socket.AF_UNIX)
            before = Path.cwd()
            os.chdir(folder)
            self.sockets[name].bind("s")
            os.chdir(before)
        self.sockets["datagram"] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        before = Path.cwd()
        os.chdir(self.outside)
        self.sockets["datagram"].bind("d")
        os.chdir(before)
        self.sockets["abstract"] = socket.socket(socket.AF_UNIX)
        self.sockets["abstract"].bind(f"\0{self.secret}")
        for one in self.sockets.values():
            one.setblocking(False)
            if one.type == socket.SOCK_STREAM:
                one.listen()

    def words(self, victim: int) -> dict[str, str]:
        ports = {name: str(self.sockets[name].getsockname()[1]) for name in ("tcp", "udp")}
        paths = {
            "socket": str(self.outside / "s"),
            "datagram": str(self.outside / "d"),
            "inside": str(self.ws / "s"),
            "abstract": self.secret,
        }
        folders = {name: str(getattr(self, name)) for name in ("outside", "home", "data", "ws")}
        return {**ports, **paths, **folders, "victim": str(victim)}

    # -------------------------------------------------------------- what came of it

    def state(self) -> dict[str, object]:
        """Everything that must stay as it is: contents, links, modes, times of what is outside."""
        found: dict[str, object] = {}
        for top in (self.outside, self.home, self.ws / "private", self.ws / ".leeward"):
            for path in (top, *top.rglob("*")) if top.exists() else ():
                info = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
                times = info.st_mtime_ns if content is not None and self.ws not in path.parents else 0
                found[str(path)] = (stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), content, times)
        return found

    def obeyed(self) -> list[str]:
        """What in the workspace others would run, obey, or run with another's rights."""
        found = []
        for folder, folders, files in os.walk(self.ws):
            for name in folders:
                # What is closed to whoever lists it may be open to who knows the names in it.
                if not Path(folder, name).is_symlink() and not os.access(f"{folder}/{name}", os.R_OK):
                    Path(folder, name).chmod(0o700)
            is_repository = {"HEAD", "config"} <= set(files) or folder.endswith("/.git")
            for name in files:
                path = Path(folder, name)
                content = b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
                in_hooks = "hooks" in path.relative_to(self.ws).parts and name != "tool"
                if (
                    (is_repository and name == "config" and EVIL.search(content))
                    or (
                        in_hooks
                        and not name.endswith(".sample")
                        and content != HOOK.encode()
                        and is_git(path)
                    )
                    or (name == ".git" and b"gitdir" in content and b"/.git/" not in content)
                    or (name == "commondir")
                    or (".leeward" in path.parts and path != self.ws / ".leeward" / "config.toml")
                    or (path.lstat().st_mode & 0o6000 and not path.is_symlink())
                ):
                    found.append(str(path))
            found += [
                f"{folder}/{name}" for name in folders if name == "hooks" and Path(folder, name).is_symlink()
            ]
        config, hook = self.ws / ".git" / "config", self.ws / ".git" / "hooks" / "pre-commit"
        kept = (
            config.exists()
            and hook.exists()
            and hook.read_text() == HOOK
            and hook.stat().st_mode & 0o777 == 0o755
        )
        return found if kept else [*found, "the repository's own settings or hook"]

    def reached(self) -> list[str]:
        return [name for name, one in self.sockets.items() if was_reached(one)]

    def left(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    self.mark.encode() in (folder / "environ").read_bytes()
                    and status(int(folder.name)) not in "ZX"
                ):
                    found.append(int(folder.name))
        return found

    def close(self) -> None:
        for one in self.sockets.values():
            one.close()
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)


def is_git(path: Path) -> bool:
    folder = path.parent.parent
    return (folder / "HEAD").exists() or folder.name == ".git"


def was_reached(listening: socket.socket) -> bool:
    try:
        listening.recv(16) if listening.type == socket.SOCK_DGRAM else listening.accept()[0].close()
    except OSError:
        return False
    return True


def arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


@dataclass
class Scene:
    """A world with a sandbox in it and another process, in which attempts are made one after the other."""

    world: World
    sandbox: Sandbox
    victim: int
    made: int = 0

    def is_hit(self, limits: tuple[int, int]) -> bool:
        """Say whether the other process was ended, stopped or given other limits."""
        return (
            status(self.victim) in "TtZX" or resource.prlimit(self.victim, resource.RLIMIT_NOFILE) != limits
        )

    async def attempt(self, attempt: dict[str, str], patience: float = 0) -> list[str]:
        """Make an attempt and return what it came to, nothing if it was held. `patience` is how many
        seconds a hit on the other process is waited for.
        """
        self.made += 1
        here = self.world.ws / "work" / str(self.made)
        here.mkdir()
        before, limits = self.world.state(), resource.prlimit(self.victim, resource.RLIMIT_NOFILE)
        script = attempt.get("run") or attempt["python"]
        for name, word in {**self.world.words(self.victim), "here": str(here)}.items():
            script = script.replace(f"{{{name}}}", word)
        argv = ["/bin/bash", "-c", script] if "run" in attempt else [sys.executable, "-I", "-S", "-c", script]
        env = {**environment(str(self.world.home), os.environ), "MARK": self.world.mark}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(visit, here)
            ran = await self.sandbox.run(
                argv, cwd=str(here), env=env, deadline=trio.current_time() + 30, max_bytes=1 << 20
            )
            nursery.cancel_scope.cancel()
        found = [f"{what} would be obeyed" for what in self.world.obeyed()]
        found += [f"{name} was reached" for name in self.world.reached()]
        signs = {
            "it said so": re.search(r"(?m)^OUT", ran.finished.stdout) is not None,
            "it read the canary": self.world.secret in ran.finished.output,
            "something outside changed": self.world.state() != before,
            "a process was left behind": bool(self.world.left()),
            "it was visited": (here / "visited").exists(),
        }
        found += [sign for sign, is_seen in signs.items() if is_seen]
        if patience and not found and "{victim}" in (attempt.get("run") or attempt["python"]):
            # A signal takes effect when the process that got it next runs, which may be later.
            with trio.move_on_after(patience):
                while not self.is_hit(limits):
                    await trio.sleep(0.01)
        return [*found, *(["a process was hit"] if self.is_hit(limits) else [])]


@asynccontextmanager
async def scene(folder: Path, level: str) -> AsyncIterator[Scene]:
    """A scene at some level, or a skip with the reason why there is none."""
    world = World(folder)
    prefixes = (
        os.path.realpath(sys.prefix),
        os.path.realpath(sys.base_prefix),
        str(ROOT / "tools"),
    )
    settings = SandboxSettings(world.policy(), str(folder / "aside"), level, prefixes=prefixes)
    argv, env = ("/bin/sh", "-c", "sleep 300; :", world.secret), {"CANARY": world.secret}
    with closing(world):
        world.listen()
        os.environ.update(OPENAI_API_KEY=world.secret, BASH_ENV=f"/{world.secret}")
        async with open_sandbox(settings) as sandbox:
            if sandbox.level != level:
                pytest.skip("; ".join(sandbox.weaker_because))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            kept = await SupervisedStart()(Start(argv, "/", env, nowhere, nowhere))
            try:
                with trio.fail_after(30):
                    while not (
                        found := [pid for pid in children(kept.pid) if world.secret in arguments(pid)]
                    ):
                        await trio.sleep(0.005)
                yield Scene(world, sandbox, found[0])
            finally:
                with trio.CancelScope(shield=True):
                    os.close(nowhere)
                    await kept.end()


async def visit(here: Path) -> None:
    """Connect to whoever listens inside as soon as a port is told."""
    while not ((here / "port").exists() and (here / "port").read_text()):
        await trio.sleep(0.01)
    with suppress(OSError):
        await (await trio.open_tcp_stream("127.0.0.1", int((here / "port").read_text()))).aclose()
        (here / "visited").touch()


@pytest.fixture
def clean_environment(monkeypatch):
    """What a scene sets in our own environment is gone afterwards."""
    for name in ("OPENAI_API_KEY", "BASH_ENV"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("group", dict.fromkeys(one["group"] for one in ATTEMPTS))
async def test_attempts_come_to_what_the_table_says(group, level, tmp_path, clean_environment):
    """What is held leaves no trace, so such attempts share a scene; what gets out has one of its own."""
    attempts = [one for one in ATTEMPTS if one["group"] == group]
    held = [one for one in attempts if one.get(level, "held") == "held"]
    async with scene(tmp_path / "shared", level) as shared:
        for attempt in held:
            assert await shared.attempt(attempt) == [], attempt["name"]
    for number, attempt in enumerate(one for one in attempts if one not in held):
        async with scene(tmp_path / str(number), level) as its_own:
            found = await its_own.attempt(attempt, patience=10 if attempt[level] == "escaped" else 0)
            assert found or attempt[level] == "varies", attempt["name"]


# ------------------------------------------------------------------ as an ordinary user


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already")
def test_the_table_holds_for_an_ordinary_user_too():
    assert_passes_as(54321, __file__, "test_attempts and not none")


# ------------------------------------------------------------------ the table itself


def table() -> str:
    """The table of the guide, as it follows from the data."""
    lines = ["| | attempt | bubblewrap | Landlock | none | |", "|---|---|---|---|---|---|"]
    shown, group = "", ""
    for one in ATTEMPTS:
        shown, group = (one["group"] if one["group"] != group else ""), one["group"]
        cells = (one.get(level, "held") for level in LEVELS)
        words = ("**escaped**" if cell == "escaped" else cell for cell in cells)
        lines.append(f"| {shown} | {one['name']} | {' | '.join(words)} | {one.get('note', '')} |")
    return "\n".join(lines) + "\n"


def test_the_guide_shows_the_table():
    _, _, shown = DOCS.read_text().partition(MARK)
    assert shown == table(), "write table() below the mark in docs/sandbox.md"
    for page in ("SECURITY.md", "docs/README.md"):
        assert f"{len(ATTEMPTS)} ways out" in (ROOT / page).read_text()


def test_the_table_says_what_it_promises():
    assert len(ATTEMPTS) >= 40 and len({one["name"] for one in ATTEMPTS}) == len(ATTEMPTS)
    assert {one["group"] for one in ATTEMPTS} >= {
        "files",
        "links",
        "sockets",
        "processes",
        "/proc",
        "environment",
    }
    assert not any("bubblewrap" in one for one in ATTEMPTS), "bubblewrap holds them all"
    assert {one[level] for one in ATTEMPTS for level in ("landlock", "none")} == {"held", "escaped", "varies"}
    assert not any(one["landlock"] == "varies" for one in ATTEMPTS)
    assert json.dumps(ATTEMPTS).isascii()
