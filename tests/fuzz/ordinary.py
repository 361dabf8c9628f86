"""Run ordinary lines bare and on trial: exit code, output and what is kept must be the same.

The lines of `ordinary.toml` run one after the other, bare in a twin of the project, and in the project as a
model's call with a person who says yes. Compared are exit code, standard output and the project; what is a
time, or the id of a commit, which rests on one, is taken out first. `python tests/fuzz/ordinary.py` exits 1
if one differs.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import trio

from leeward import Runtime
from leeward.runtime.config import Locations, load
from leeward.security.call import Status
from leeward.security.ports import Answer, Question
from leeward.tools.process import ProcessExit
from leeward.tools.sandbox.program import Program

__all__ = ["TABLES", "compared"]

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_LIMITS = {f"LEEWARD_AGENT__MAX_TOOL_CALLS_PER_{what}": "10000" for what in ("TURN", "SESSION")}
_SETTINGS = "[user]\n\tname = Ann\n\temail = ann@harbour.example\n[init]\n\tdefaultBranch = main\n"
_GIT_SAYS = (
    "status --porcelain",
    "log --all --topo-order --format=%s%d",
    "branch",
    "stash list",
    "diff --cached",
    "fsck",
)
_TIMES = re.compile(r"\b[0-9a-f]{7,40}\b|\d+\.\d+ ?s\b|\d\d:\d\d(?::\d\d)?")


class _Person:
    """Says yes to everything, and counts what was asked about."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def ask(self, question: Question) -> Answer:
        await trio.lowlevel.checkpoint()
        self.asked[question.action.call.tool] += 1
        return Answer.YES


def _bare(folder: Path, home: Path, line: str) -> tuple[int, str]:
    # What a person has set up, but nothing that the product is not told of.
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "TERM": "dumb", "NO_COLOR": "1"}
    words = ["/bin/bash", "--noprofile", "--norc", "-c", line]
    done = subprocess.run(
        words, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _tree(folder: Path, home: Path) -> dict[str, Any]:
    """Return what a project holds: kinds, modes and contents, and of its repository what git says."""
    held: dict[str, Any] = {}
    for path in folder.rglob("*"):
        name, info = str(path.relative_to(folder)), path.lstat()
        if name.split("/", 1)[0] == ".git":
            continue
        content: Any = (
            path.read_bytes() if stat.S_ISREG(info.st_mode) and path.suffix not in _WITH_TIMES else None
        )
        if isinstance(content, bytes):
            for one in ("ws", "tw"):
                content = content.replace(os.fsencode(folder.with_name(one)), b"HERE")
        held[name] = (info.st_mode, path.readlink() if path.is_symlink() else content)
    for words in _GIT_SAYS:
        held[words] = _TIMES.sub("T", _bare(folder, home, f"git {words}")[1])
    return held


_WITH_TIMES = (".tgz", ".tar", ".zip", ".gz")


async def _day(top: Path, step: int) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    told: list[str] = []
    names = ("ws", "home", "config", "data")
    places = Locations(*(top / name for name in names), top / "data" / "leeward.db")
    twin, home = top / "tw", places.home
    for folder in (*(top / name for name in names), twin):
        folder.mkdir()
    (home / ".gitconfig").write_text(_SETTINGS)
    for folder in (places.workspace, twin):
        for name, text in TABLES["files"].items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        _bare(folder, home, "git init -q --template= && git add -A && git commit -q -m morning")
    person, ran = _Person(), list[ProcessExit]()
    run = Program.run

    async def overheard(program: Program, starter: Any) -> ProcessExit:
        finished = await run(program, starter)
        if "--noprofile" in program.argv:
            ran.append(finished)
        return finished

    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {"HOME": str(home)}))
        stack.enter_context(patch.object(Program, "run", overheard))
        loaded = load(config_dir=places.config, environment=_LIMITS)
        async with Runtime.open(loaded, places=places, approver=person) as runtime:
            counts["rung: " + str(runtime._parts.policy.sandbox.rung)] += 1
            for line in _lines(counts)[::step]:
                ran.clear()
                result = await runtime.call("shell", {"command": line})
                code, out = _bare(twin, home, line)
                # Caches are never kept, by design.
                for cache in [*twin.rglob("__pycache__")]:
                    shutil.rmtree(cache)
                counts["lines"] += 1
                wrong = []
                if not ran:
                    wrong.append(f"it did not run: {result.text}")
                elif ran[-1].exit_code != code:
                    wrong.append(f"exit code {ran[-1].exit_code}, bare {code}: {result.text}")
                elif _plain(ran[-1].stdout, places.workspace) != _plain(out, twin):
                    wrong.append(f"output {ran[-1].stdout!r}, bare {out!r}")
                here, there = _tree(places.workspace, home), _tree(twin, home)
                differing = [name for name in here.keys() | there.keys() if here.get(name) != there.get(name)]
                wrong += [f"{name}: {here.get(name)}, bare {there.get(name)}" for name in differing[:3]]
                if differing:
                    shutil.rmtree(twin)
                    shutil.copytree(places.workspace, twin, symlinks=True)
                counts["refused"] += result.outcome.status is Status.DENIED
                counts["differ"] += bool(wrong)
                told += [f"{line!r}: {problem}"[:900] for problem in wrong]
    return counts + Counter({f"asked about {tool}": n for tool, n in person.asked.items()}), told


def _lines(counts: Counter[str]) -> list[str]:
    lines: list[str] = []
    for group in TABLES["lines"]:
        if shutil.which(group["needs"]) is None:
            counts[f"left out, there is no {group['needs']}"] += len(group["run"])
            continue
        lines += group["run"]
    return lines


def _plain(text: str, folder: Path) -> str:
    return _TIMES.sub("T", text.replace(str(folder), "HERE"))


def compared(step: int = 1) -> tuple[Counter[str], list[str]]:
    """Run every so many-th line; return what was counted, and in what lines differ."""
    with tempfile.TemporaryDirectory(prefix="leeward-ordinary-", dir="/tmp") as name:
        return trio.run(_day, Path(os.path.realpath(name)), step)


def main() -> int:
    """Print what differs."""
    counts, told = compared()
    print(dict(counts))
    print("\n".join(told))
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
