"""A small world to judge command lines in: some files, some links, and every program in its place."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from leeward.security.command import Ruling, parse_command, reach_of, ruling_of, surveyed, wanted
from leeward.security.kinds import CommandFacts, Unreadable
from leeward.security.policy import Policy, ShellRules
from leeward.security.url import Ledger
from loading import toml_of

TABLES = Path(__file__).parent.parent / "command_tables"
WORKSPACE, HOME = "/srv/ws", "/home/ada"
SAYS = ("nothing", "ask", "force", "deny")


@dataclass
class World:
    """`links` lead from a path to another."""

    files: tuple = (
        "README.md",
        "data.csv",
        "app.log",
        "package.json",
        "src/main.py",
        "src/util.py",
        "docs/guide.md",
        "link-out",
    )
    links: dict = field(
        default_factory=lambda: {
            "/srv/ws/link-out": "/etc/passwd",
            "/srv/ws/link-to-secret": "/home/ada/.ssh/id_rsa",
            "/srv/ws/link-folder": "/etc",
        }
    )
    missing: frozenset = frozenset({"no-such-program", "LS", "cargo", "go", "rustc"})
    places: dict = field(default_factory=dict)
    policy: Policy = Policy(WORKSPACE, HOME)
    rules: ShellRules = ShellRules()
    ledger: Ledger = Ledger()

    def real(self, path: str) -> str:
        at = "/"
        for part in path.split("/"):
            if part == "..":
                at = posixpath.dirname(at)
            elif part not in ("", "."):
                at = posixpath.join(at, part)
                at = self.links.get(at, at)
        return at

    def matches(self, pattern: str) -> tuple[str, ...]:
        plain = re.sub("//+", "/", pattern.replace("/./", "/")).rstrip("/")
        paths = [f"{WORKSPACE}/{name}" for name in self.files]
        return tuple(
            path for path in paths if fnmatchcase(path, plain) and path.count("/") == plain.count("/")
        )

    def facts(self, line) -> CommandFacts:
        asked = wanted(line, self.policy, self.rules)
        found = {pattern: self.matches(pattern) for pattern in asked.matches}
        matched = {path for paths in found.values() for path in paths}
        return CommandFacts(
            real={path: self.real(path) for path in {*asked.real, *matched}},
            matches=found,
            programs={
                name: None if name in self.missing else self.places.get(name, f"/usr/bin/{name}")
                for name in asked.programs
            },
        )

    def read(self, text: str):
        line = parse_command(text)
        return line if isinstance(line, Unreadable) else surveyed(line, self.facts(line), self.policy)

    def ruling(self, text: str) -> Ruling:
        line = self.read(text)
        found = ruling_of(line, text, self.policy, self.rules)
        if isinstance(line, Unreadable):
            return found
        reached = reach_of(line, self.ledger, self.policy.allow_networks)
        if not found.say and reached.say == SAYS.index("ask"):
            return found
        return max(found, reached, key=lambda one: one.say)

    def say(self, text: str) -> str:
        return SAYS[self.ruling(text).say]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def tables() -> dict[str, list]:
    """The groups of both tables by their name."""
    return {name: toml_of(TABLES / f"{name}.toml")["group"] for name in ("ordinary", "adversarial")}


STUB = """#!/bin/sh
printf '%s\\037' "${0##*/}" "$@" > "${LOG:?}/$$"
"""


@pytest.fixture(scope="session")
def stubs(tmp_path_factory) -> Path:
    """A folder of programs that only write down how they were called, and of some that run others."""
    folder = tmp_path_factory.mktemp("stubs")
    (folder / "stub").write_text(STUB)
    (folder / "stub").chmod(0o755)
    for name in ("p", "q", "r", "rm", "git"):
        (folder / name).symlink_to("stub")
    for name in "bash env nice nohup timeout xargs setsid stdbuf flock ionice taskset setarch sh".split():
        if (found := shutil.which(name)) is not None:
            (folder / name).symlink_to(found)
    return folder


@pytest.fixture
def calls(stubs, tmp_path):
    """Run a line with a real bash that finds nothing but stubs: which calls there were, in no order."""

    def run(line: str) -> list[tuple[str, ...]]:
        log, folder = tmp_path / "log", tmp_path / "work"
        for one in (log, folder):
            shutil.rmtree(one, ignore_errors=True)
            one.mkdir()
        alone = {
            "PATH": str(stubs),
            "LOG": str(log),
            "HOME": "/home/ada",
            "LC_ALL": "C.UTF-8",
            "FUNCNEST": "9",
        }
        process = subprocess.Popen(
            ["/bin/bash", "--norc", "-c", "--", line], cwd=folder, env=alone, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            process.wait(10)
        finally:
            # Whatever a line left behind ends with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        found = [one.read_bytes().decode() for one in log.iterdir()]
        return sorted(tuple(one.split("\x1f")[:-1]) for one in found)

    return run
