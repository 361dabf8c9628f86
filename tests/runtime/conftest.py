"""Fixtures for the runtime's tests."""

from __future__ import annotations

import gc
import ipaddress
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema_rs
import pytest
import trio

from leeward.runtime.cli import main as cli
from loading import load_module

HERE = Path(__file__).parent

# Every JSON answer that a test looks at is held against it, however the command ended.
OUTPUT_SCHEMA = jsonschema_rs.validator_for(
    resources.files("leeward").joinpath("runtime/output.schema.json").read_text("utf-8")
)


@pytest.fixture(scope="session")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module `model_server.py`: real model servers on loopback."""
    module = load_module(HERE / "model_server.py")
    module.FOLDERS.append(tmp_path_factory.mktemp("model-server"))
    rules = load_module(HERE / "dialect_rules.py")
    module.RULES.update({"/chat/completions": rules.check_chat, "/messages": rules.check_messages})
    return module


@pytest.fixture(scope="session")
def dialect_rules() -> ModuleType:
    """The module `dialect_rules.py`: what services insist on in a request."""
    return load_module(HERE / "dialect_rules.py")


@dataclass(frozen=True)
class Ran:
    """How a command line ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON line on stdout, free of anything a terminal would obey."""
        assert self.out.isascii() and self.out[:-1].isprintable() and self.out.endswith("}\n"), self
        envelope = json.loads(self.out)
        OUTPUT_SCHEMA.validate(envelope)
        return envelope

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on stdout."""
        assert all(line.isascii() and line.isprintable() for line in self.out.splitlines()), self
        found = [json.loads(line) for line in self.out.splitlines()]
        for line in found:
            if "schema" in line or "ok" in line:
                OUTPUT_SCHEMA.validate(line)
        return found


class CommandLine:
    """Command lines of a new user: an empty home, and a workspace with a file in it.

    Called, one runs in this process, which is quick; `process` and `start` give it a process of its own,
    forked from one that has imported everything. `argv` is the real console script. Nothing runs on trial
    unless `trial` and the environment say so: whether it can depends on the machine.
    """

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], preloaded: Any) -> None:
        self.home, self.workspace = folder / "home", folder / "work"
        self.data = self.home / ".local/share/leeward"
        self.config = self.home / ".config/leeward/config.toml"
        self._capture, self.preloaded, self.trial = capture, preloaded, "off"
        for made in (self.home, self.workspace):
            made.mkdir()
        (self.workspace / "notes.md").write_text("the ferry leaves at seven\n", encoding="utf-8")

    def configure(self, text: str) -> None:
        """Write the person's configuration."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text, encoding="utf-8")

    def script(self, text: str) -> str:
        """Write a script and return its path."""
        path = self.home / "steps.leeward"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def __call__(self, *words: str) -> Ran:
        self._capture.readouterr()
        code = cli.run(words)
        return Ran(code, *self._capture.readouterr())

    def process(self, *words: str, **options: Any) -> Ran:
        done = self.preloaded.run(words, cwd=self.workspace, env=self.environment, **options)
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return self.preloaded.start(words, cwd=self.workspace, env=self.environment, **pipes)

    def argv(self, *words: str) -> list[str]:
        return [str(Path(sys.executable).with_name("leeward")), *words]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "error",
            "LEEWARD_TOOLS__SHELL__TRIAL": self.trial,
        }


def _numbers_only(ask: Callable[..., Any]) -> Callable[..., Any]:
    """No name of a test is asked of the network; addresses are what they are."""

    async def getaddrinfo(host: str, *more: Any, **options: Any) -> Any:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
        return await ask(host, *more, **options)

    return getaddrinfo


@pytest.fixture
def leeward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], preloaded: Any
) -> Iterator[CommandLine]:
    """Run command lines as a new user would."""
    line = CommandLine(tmp_path, capsys, preloaded)
    for name in [name for name in os.environ if name.startswith(("XDG_", "LEEWARD_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(line.home))
    monkeypatch.setenv("LEEWARD_TOOLS__SHELL__TRIAL", "off")
    monkeypatch.chdir(line.workspace)
    monkeypatch.setattr(trio.socket, "getaddrinfo", _numbers_only(trio.socket.getaddrinfo))
    yield line
    # Each command line froze what it had imported; a test process lives on.
    gc.unfreeze()


@pytest.fixture
def tty(leeward: CommandLine) -> Iterator[Callable[..., Any]]:
    """Sit down at a terminal of the size that is asked for, with `leeward` running in it."""
    terminals: list[Any] = []

    def sit_down(*words: str, rows: int = 120, columns: int = 80, **environment: str) -> Any:
        around = {**leeward.environment, **environment}
        start = partial(leeward.preloaded.start, words, terminal=True)
        terminals.append(
            load_module(HERE / "pty_terminal.py").Tty(start, leeward.workspace, around, rows, columns)
        )
        return terminals[-1]

    yield sit_down
    for terminal in terminals:
        terminal.close()
