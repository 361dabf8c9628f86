"""Count the questions of a working day: the lines of `day.toml`, drawn by a seed, run in a small project.

`day.py LINES SEED PROJECT` says how many, which day, and in what: a project of its own environment (`venv`),
of npm (`node`) or of `cargo`, with the tools that are there; without a name it is one of Python alone.

Each line runs twice: bare, in a twin of the project, and as a model would ask for it, with a person who says
yes to everything, and in a named project "always" three times, about what makes nothing but what git ignores:
the questions behind the third are counted apart. With `begun` the day begins as with `pip install`, `npm ci`
and `git fetch`: text of the web is read, then files come into folders of tools and into `.git`. Half of the
lines are those of the next day, in a session of its own, and forced questions, which no rule answers, are
counted by day.

Printed are how many lines were asked about before they ran, how many changes were asked about, how many lines
were refused, and in how many the exit code or the project came out differently; and beside it what `check`
says of the same lines. A line that differs counts as a question, for a person would have to see to it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio
from scale import SMOKE, scaled

from leeward import Runtime
from leeward.runtime.config import Locations, load
from leeward.runtime.console.startup import Startup
from leeward.runtime.dry_run import DryRun, DryRunCall
from leeward.security.call import Status
from leeward.security.kinds import Effect
from leeward.security.ports import Answer, Question
from leeward.tools.declare import tool

LINES, SEED = scaled(200, 12, 0), scaled(1, 1, 1)
WORDS = ("quay", "pier", "mole", "buoy", "mast", "keel")
MODULES = ("tide", "ferry", "crew")
SHOWN = 12
# What tools write anew each time, or in an order of their own.
_MADE_ANEW = (".venv", "node_modules", ".pytest_cache", ".ruff_cache")

BEGUN = SMOKE or "begun" in sys.argv[1:]
PROJECT = next((word for word in sys.argv[3:] if not word.startswith("-") and word != "begun"), "")
INSTALLED = (
    "mkdir -p node_modules/left-pad && echo 'module.exports = 1' > node_modules/left-pad/index.js",
    "mkdir -p .venv/lib/python3/site-packages && echo 'x = 1' > .venv/lib/python3/site-packages/left_pad.py",
    "git fetch -q ../upstream main:refs/remotes/origin/main",
)
ALWAYS = 3
TOOLCHAINS = {"CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"}
# Where these are looked for by the home, which is another one here.
AROUND = {
    name: str(Path.home() / folder) for name, folder in TOOLCHAINS.items() if (Path.home() / folder).exists()
}

_TABLE = Path(__file__).with_name(f"day{'_' if PROJECT else ''}{PROJECT}.toml")
TABLES = tomllib.loads(_TABLE.read_text(encoding="utf-8"))


@tool(effects=Effect.BRING_IN)
async def registry() -> str:
    """Say what a package manager prints of what it fetched."""
    return "added 2 packages, read https://packages.example/left-pad"


class Person:
    """Says yes to everything, "always" to the first few that make outputs alone; remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.forced = False
        self.always = 0

    async def ask(self, question: Question) -> Answer:
        """Say yes."""
        await trio.lowlevel.checkpoint()
        self.asked.append(question.action.call.tool)
        self.forced |= any(ask.force for _, ask in question.asks)
        names = {Path(atom.raw).name for atom in question.action.atoms}
        is_output = bool(names) and names <= set(TABLES.get("outputs", ()))
        if is_output and question.always is not None and self.always < ALWAYS:
            self.always += 1
            return Answer.ALWAYS
        return Answer.YES


def drawn(chance: random.Random) -> Iterator[str]:
    """Yield the lines of a day."""
    table = TABLES["line"]
    for number in range(LINES):
        group = chance.choices(table, [one["often"] for one in table])[0]
        line = chance.choice(group["lines"])
        yield line.format(n=number, w=chance.choice(WORDS), m=chance.choice(MODULES))


def bare(folder: Path, home: Path, line: str) -> int:
    """Run a line with nothing around it, and return its exit code."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", **AROUND}
    words = ["/bin/bash", "--noprofile", "--norc", "-c", line]
    return subprocess.run(
        words, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    ).returncode


def state(folder: Path, home: Path) -> dict[str, str]:
    """Return what a project holds: its files, and what git says of it."""
    files = (
        path for path in folder.rglob("*") if path.is_file() and ".git" not in path.relative_to(folder).parts
    )
    held = {
        str(path.relative_to(folder)): path.read_bytes().hex() if path.suffix != ".tgz" else ""
        for path in files
        if path.suffix != ".pyc"
        and not {*path.relative_to(folder).parts} & {*_MADE_ANEW, *TABLES.get("outputs", ())}
    }
    held |= {name: str((folder / name).exists()) for name in TABLES.get("outputs", ())}
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}
    for words in ("status --porcelain", "log --all --format=%s%d", "branch", "stash list", "diff --cached"):
        argv = ["git", *words.split()]
        held[words] = subprocess.run(
            argv, cwd=folder, env=env, capture_output=True, text=True, check=False
        ).stdout
    return held


@contextmanager
def project(folder: Path, home: Path) -> Iterator[Path]:
    """Yield the project as it is in the morning."""
    for name, text in TABLES["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@harbour.example\n", encoding="utf-8"
    )
    for line in ("git init -q -b main", *TABLES.get("setup", ()), "git add -A", "git commit -q -m morning"):
        if bare(folder, home, line) != 0:
            raise SystemExit(f"skipped: the project cannot be set up here ({line})")
    yield folder


def made_alike(ws: Path, twin: Path) -> None:
    """Go on from the same state in both."""
    shutil.rmtree(twin)
    shutil.copytree(ws, twin, symlinks=True)


async def installed(runtime: Runtime, top: Path, home: Path) -> None:
    """Begin the day: read text of the web, and bring packages and commits in."""
    bare(top, home, "git clone -q --bare ws upstream")
    await runtime.call("registry", {})
    for line in INSTALLED:
        await runtime.call("shell", {"command": line})
    if not runtime.pipeline.session.is_untrusted:
        raise SystemExit("nothing was read, so nothing is measured")


async def lived(top: Path) -> tuple[Counter[str], list[str]]:
    """Live through the day, and return what was counted and what was worth telling."""
    counts: Counter[str] = Counter()
    told: list[str] = []
    places = Locations(
        *(top / name for name in ("ws", "home", "config", "data")), top / "data" / "leeward.db"
    )
    for made in (places.workspace, places.home, places.config, places.data, top / "twin"):
        made.mkdir()
    os.environ |= {"HOME": str(places.home), **AROUND}
    limits = {f"LEEWARD_AGENT__MAX_TOOL_CALLS_PER_{what}": "10000" for what in ("TURN", "SESSION")}
    person, loaded = Person(), load(config_dir=places.config, environment=limits)
    dry = DryRun(Startup(loaded, places, None, None))
    with project(places.workspace, places.home) as ws, project(top / "twin", places.home) as twin:
        tools = [registry] if BEGUN else None
        async with Runtime.open(loaded, places=places, approver=person, executors=tools) as runtime:
            if BEGUN:
                await installed(runtime, top, places.home)
                made_alike(ws, twin)
            for number, line in enumerate(drawn(random.Random(SEED))):  # noqa: S311 — the same day each time
                if BEGUN and number == LINES // 2:
                    await runtime.new_session()
                day = "on the next day" if BEGUN and number >= LINES // 2 else "on the day"
                person.forced = False
                asked = json.dumps({"command": line})
                counts[f"check: {(await dry.judge(DryRunCall('shell', asked))).decision}"] += 1
                person.asked.clear()
                result = await runtime.call("shell", {"command": line})
                code = bare(twin, places.home, line)
                is_same = code in {result.outcome.exit_code, 127} and state(ws, places.home) == state(
                    twin, places.home
                )
                kinds = {
                    "before": "shell" in person.asked,
                    "keep": "keep" in person.asked,
                    "differs": not is_same,
                }
                kinds["denied"] = result.outcome.status is Status.DENIED
                counts.update(kind for kind, is_so in kinds.items() if is_so)
                counts[f"lines {day}"] += 1
                counts[f"forced {day}"] += person.forced
                counts["question"] += any(kinds.values())
                counts["line"] += 1
                counts["later line"] += person.always == ALWAYS
                counts["later question"] += person.always == ALWAYS and any(kinds.values())
                if kinds["differs"] or kinds["denied"]:
                    told.append(
                        f"{line}: exit code {code}, here {result.outcome.exit_code}; {result.outcome.status}"
                    )
                    made_alike(ws, twin)
    return counts, told


def main() -> None:
    """Live through the day and print what was counted."""
    missing = [name for name in TABLES.get("needs", ()) if shutil.which(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not there")
        return
    with tempfile.TemporaryDirectory() as name:
        counts, told = trio.run(lived, Path(os.path.realpath(name)))
    lines = counts["line"]

    def share(kind: str) -> str:
        return f"{counts[kind]:4} ({100 * counts[kind] / lines:.1f} %)"

    print(f"{lines} lines of a working day{f' in a project of {PROJECT}' if PROJECT else ''}, seed {SEED}")
    for kind, words in (
        ("question", "a question in any way, differing lines among them"),
        ("before", "asked about before they ran"),
        ("keep", "asked about what they changed"),
        ("denied", "refused"),
        ("differs", "exit code or project came out otherwise than bare"),
    ):
        print(f"  {share(kind)}  {words}")
    for day in ("on the day", "on the next day") if BEGUN else ():
        asked, of = counts[f"forced {day}"], counts[f"lines {day}"]
        print(f"  {asked:4} ({100 * asked / max(1, of):.1f} %)  of {of} lines {day}: a forced question")
    if counts["later line"]:
        later, asked = counts["later line"], counts["later question"]
        print(f"  {asked:4} ({100 * asked / later:.1f} %)  of the {later} lines behind the third always")
    print(
        "  check: "
        + ", ".join(
            f"{kind[7:]} {share(kind).strip()}" for kind in sorted(counts) if kind.startswith("check")
        )
    )
    for line in told[:SHOWN]:
        print(f"  ! {line}")


if __name__ == "__main__":
    sys.exit(main())
