"""Measure reading, judging and starting commands, and count the verdicts on ordinary and hostile ones.

Prints microseconds (median and worst) for reading a line, for judging what was read once, and for everything
done with a line in a call (what to look up, what it can do, what the gate answers, what would pass instead),
over the tables of the tests and over the largest lines within the limits; then how often each verdict is
given. At last what it costs, in milliseconds, to run `true`: bare, under bubblewrap, and on trial, in a
workspace of few and of many files. A command looks at the workspace before and after, a trial before, and
bubblewrap alone not at all. An allowed command is measured as it is without an overlay, with the looks of a
checkpoint around it, and through one, with finding what it changed. What the secret index takes is told
beside it: the first look, a later one, a scan of everything, and its memory.
"""

from __future__ import annotations

import os
import posixpath
import statistics
import subprocess
import tempfile
import time
import tomllib
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio
from scale import scaled

from leeward.security.command import (
    effects_of,
    parse_command,
    reach_of,
    ruling_of,
    suggestion_for,
    surveyed,
    wanted,
)
from leeward.security.kinds import CommandFacts, CommandLine, Once, Unreadable
from leeward.security.policy import Policy, ShellRules
from leeward.security.sandbox import Masks
from leeward.security.url import Ledger
from leeward.tools.checkpoints import SnapshotLimits
from leeward.tools.checkpoints.snapshot import Look
from leeward.tools.files import Guard
from leeward.tools.process import environment
from leeward.tools.sandbox import Program, Sandbox, SandboxSettings, changes_of, open_sandbox, run_overlaid
from leeward.tools.sandbox.index import SecretIndex

TABLES = Path(__file__).resolve().parent.parent / "tests" / "security" / "command_tables"
POLICY = Policy("/srv/ws", "/home/ada")
RULES = ShellRules()
LEDGER = Ledger()
WORDS = ("no word", "ask", "ask by force", "deny")
MISSING = frozenset({"no-such-program", "LS", "cargo", "go", "rustc"})
LINKS = {
    "/srv/ws/link-out": "/etc/passwd",
    "/srv/ws/link-to-secret": "/home/ada/.ssh/id_rsa",
    "/srv/ws/link-folder": "/etc",
}
LARGEST = (
    "a" + " | b" * 255,
    "a;" * 256,
    "cat " + "a " * 250,
    "rm -rf " + "../a " * 250,
    "cd a && " * 80 + "cat x",
    ">a " * 200,
    "a=b;" * 255,
    "\\x" * 4000,
    "'a'" * 2600,
    "sh -c '" + "ls;" * 200 + "'",
    "if a; then " * 20 + "b" + "; fi" * 20,
    "$(" * 20 + "a" + ")" * 20,
    "x " * 4000,
    "(" * 200,
    "for a in " + " ".join("abcdefghijklmnop") + "; do " + "ls $a; " * 60 + "done",
    "for a in " + " ".join("abcdefghijklmnop") + "; do " + 'sh -c "ls $a"; ' * 40 + "done",
    "for a in " + " ".join("abcdefghijklmnop") + "; do " + "find $a -exec ls {} +; " * 25 + "done",
    "".join(f"x{number}=/a; " for number in range(60)) + "".join(f"cat $x{number}; " for number in range(60)),
    "; ".join("sh -c '" + "a " * 200 + "'" for _ in range(18)),
    "echo 'echo \"echo ls | sh\" | sh' | sh; " * 20,
    "parallel 'parallel x ::: " + "a " * 16 + "' ::: " + "b " * 16,
    ("gdb " + "rm -rf a b c d " * 8 + "; ") * 5,
    "find . " + "-exec ls {} \\; " * 50,
    "".join(f"f{one}(){{ f{(one + 1) % 28}; f{(one + 2) % 28}; }}; " for one in range(28)),
    "(" + "rm ~ / " * 1100,
    "(" + "a" * 8000,
    "git -C . log; " * 60,
    "a@" * 4000,
    "a@ " + "#" * 8000,
    "((" + "=]" * 4000,
    "$((if " + "? ~\t" * 300 + "ab" * 2000,
    "[[ " + "+ }" * 300,
    "while case x in " + "~! +=" * 60 + "ab" * 3800,
    "time " + ".[" * 4000,
    "a >\\#!" * 120,
    "ls {1..250} {1..250}",
    "ls " + "{a,b}" * 8,
    "chmod -R a-" + "r" * 8000 + "Z x",
    "sed '" + " " * 8000 + "Z' x",
    "awk '" + "print " * 1300 + "' x",
    "curl " + "a@" * 4000,
    "cd a || cd b || cd c; rm -rf " + "../a " * 240,
    "cd a || cd b || cd c; grep -r x " + "a " * 240,
    " ".join(f"x{number}=a" for number in range(120)) + "; " + "> $x1; " * 80,
    "for a in " + "a " * 16 + "; do " + "tee $a$a$a$a; " * 40 + "done",
    "for x in " + "a " * 16 + "; do " + "find $x " + "-exec ls {} \\; " * 30 + "; done",
    "for x in " + "a " * 16 + "; do " + 'env env env env env env sh -c "ls $x"; ' * 8 + "done",
    "for x in " + "a " * 16 + "; do " + "bash -c 'rm -rf $1' _ $x; " * 30 + "done",
    "x='" + "ls a;" * 100 + "'; " + "eval $x; " * 60,
    "x='" + "ls;" * 30 + "'; " + "sh -c $x; " * 48,
    "x='" + "ls a " * 60 + "'; " + 'sh -c "$x"; ' * 48,
    "echo a | xargs rm -rf; " * 50,
    "trap 'ls a' EXIT; " * 80,
    "git " + "-c alias.x='!sh -c ls' " * 60 + "status",
)


def led(path: str) -> str:
    """Return where a path leads, by the links the tables speak of."""
    for link, target in LINKS.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path[len(link) :]
    return posixpath.normpath(path)


def facts_of(line: CommandLine) -> CommandFacts:
    """Return the facts of a machine where everything is what and where it seems."""
    asked = wanted(line, POLICY, RULES)
    matches = {pattern: (pattern.replace("*", "x"),) for pattern in asked.matches}
    return CommandFacts(
        real={
            path: led(path) for path in (*asked.real, *(one for found in matches.values() for one in found))
        },
        matches=matches,
        programs={name: None if name in MISSING else f"/usr/bin/{name}" for name in asked.programs},
    )


_TIMES = scaled(5, 1)
_EVERY = scaled(1, 40)


def said_of(line: CommandLine | Unreadable, text: str) -> int:
    """Return the word that is said of a line on such a machine."""
    known = line if isinstance(line, Unreadable) else surveyed(line, facts_of(line), POLICY)
    return ruling_of(known, text, POLICY, RULES).say


def microseconds(run: Callable[[], object], times: int = _TIMES) -> float:
    """Return the best of some runs: what the work costs, not what else the machine does."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best * 1e6


def judged(line: CommandLine | Unreadable, facts: CommandFacts, text: str) -> None:
    """Judge a line of which nothing was worked out before."""
    known = line if isinstance(line, Unreadable) else replace(line, facts=facts, once=Once())
    ruling_of(known, text, POLICY, RULES)


def all_judged(line: CommandLine | Unreadable, facts: CommandFacts, text: str) -> None:
    """Do all that is done with a line from when it was read to when it is answered."""
    known = line
    if isinstance(line, CommandLine):
        line = replace(line, once=Once())
        wanted(line, POLICY, RULES)
        known = surveyed(line, facts, POLICY)
    effects_of(known, text, POLICY, RULES)
    ruling_of(known, text, POLICY, RULES)
    if isinstance(known, CommandLine):
        reach_of(known, LEDGER, ())
        suggestion_for(known, POLICY, RULES)


def costs(lines: list[str]) -> dict[str, list[float]]:
    """Return what it costs to read and to judge each line."""
    found: dict[str, list[float]] = {"reading": [], "judging once": [], "all judging": []}
    for text in lines:
        line = parse_command(text)
        facts = CommandFacts() if isinstance(line, Unreadable) else facts_of(line)
        found["reading"].append(microseconds(partial(parse_command, text)))
        found["judging once"].append(microseconds(partial(judged, line, facts, text)))
        found["all judging"].append(microseconds(partial(all_judged, line, facts, text)))
    return found


def rates(lines: list[str]) -> Counter[str]:
    """Return how often each word is said."""
    return Counter(WORDS[said_of(parse_command(text), text)] for text in lines)


# ------------------------------------------------------------------ starting

_RUNS = scaled(50, 3)
_FILES = (scaled(50, 5), scaled(50_000, 50))
_PER_FOLDER = 100


async def bare() -> None:
    """Start the smallest of programs as anybody would, and wait for it."""
    await trio.to_thread.run_sync(
        lambda: subprocess.run(["/bin/true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    )


async def milliseconds(*works: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the median of what each of several things takes, done in turn on the same machine."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(_RUNS):
        for times, work in zip(found, works, strict=True):
            began = time.perf_counter()
            await work()
            times.append(1e3 * (time.perf_counter() - began))
    return [statistics.median(times) for times in found]


def filled(folder: Path, files: int) -> None:
    """Make so many small files below a folder."""
    for number in range(files):
        parent = folder / f"d{number // _PER_FOLDER}"
        parent.mkdir(parents=True, exist_ok=True)
        (parent / f"f{number}").write_bytes(b"x\n")


async def starts(files: int) -> str:
    """Return what starting costs in a workspace of so many files."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(os.path.realpath(made))  # noqa: ASYNC240 — nothing else runs
        filled(place / "ws", files)
        (place / "home").mkdir()
        policy = Policy(str(place / "ws"), str(place / "home"))
        async with open_sandbox(SandboxSettings(policy, str(place / "aside"), "bubblewrap")) as sandbox:
            if problem := await sandbox.no_trial_because():
                return f"starting, {files:6} files: no trial here: {problem}"
            return f"starting, {files:6} files: {await started(sandbox)}"


async def started(sandbox: Sandbox) -> str:
    """Return what it costs to run `true` in each way."""
    workspace, env = sandbox.confinement.workspace, environment("/nonexistent", os.environ)

    async def confined() -> None:
        deadline = trio.current_time() + 60
        await sandbox.run(["/bin/true"], cwd=workspace, env=env, deadline=deadline, max_bytes=1000)

    async def on_trial() -> None:
        deadline = trio.current_time() + 60
        async with sandbox.trial(["/bin/true"], cwd=workspace, env=env, deadline=deadline, max_bytes=1000):
            pass

    async def overlaid() -> None:
        deadline = trio.current_time() + 60
        program = Program(["/bin/true"], workspace, env, deadline, 1000)
        async with run_overlaid(sandbox, program) as ran:
            assert ran.upper is not None
            changes_of(ran.upper.handle, ran.upper.lower, ran.upper.began)

    look = Look(workspace, Guard(sandbox._settings.policy), SnapshotLimits(64 << 20))
    known = (await trio.to_thread.run_sync(look.whole, {})).nodes

    async def plainly() -> None:
        for work in (None, confined, None):
            if work is None:
                await trio.to_thread.run_sync(look.whole, known)
            else:
                await work()

    async def alone() -> None:
        smallest = Program(["/bin/true"], workspace, env, trio.current_time() + 60)
        pool = await sandbox._supervisors.get()
        await smallest.run(sandbox._bubblewrapped(sandbox.confinement, Masks(), workspace, pool))

    works = bare, alone, confined, on_trial, plainly, overlaid
    plain, bubble, ran, trial, before, after = await milliseconds(*works)
    return (
        f"bare {plain:.1f} ms, bubblewrap alone {bubble:.1f} ms, command {ran:.1f} ms, trial {trial:.1f} ms "
        f"({trial - bubble:.1f} ms over bubblewrap); allowed, with scan and checkpoint around it "
        f"{before:.1f} ms, through an overlay {after:.1f} ms; {indexed(sandbox)}"
    )


def indexed(sandbox: Sandbox) -> str:
    """Return what looking at the workspace costs, with the index and without, and what the index holds."""
    scan = sandbox._index.scan
    index = SecretIndex(scan)
    tracemalloc.start()
    index.look()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    index.close()
    cold = microseconds(index.look, 1) / 1e3
    warm, whole = microseconds(index.look) / 1e3, microseconds(scan.look) / 1e3
    problem = index.unused_because and f" (unused: {index.unused_because})"
    told = f"{index.watched} folders watched, {held / 1024:.0f} KiB"
    index.close()
    return f"look: first {cold:.1f} ms, later {warm:.1f} ms{problem}, scan {whole:.1f} ms; {told}"


def main() -> None:
    """Print the figures."""
    tables = {}
    for name in ("ordinary", "adversarial"):
        groups = tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))["group"]
        tables[name] = [line for group in groups for line in group["lines"]][::_EVERY]
    for name, lines in (*tables.items(), ("largest", list(LARGEST[::_EVERY]))):
        for what, found in costs(lines).items():
            middle, worst = statistics.median(found), max(found)
            print(f"{name:12} {what:12}: median {middle:6.0f} µs, worst {worst:6.0f} µs")
    for name, lines in tables.items():
        said = rates(lines)
        shares = ", ".join(f"{word} {said[word] / len(lines):.1%}" for word in WORDS)
        print(f"{name:12} {len(lines)} lines: {shares}")
    for files in _FILES:
        print(trio.run(starts, files), flush=True)


if __name__ == "__main__":
    main()
