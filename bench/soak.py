"""Run headless commands again and again with standard inputs and tools that do not want to end.

    python bench/soak.py [RUNS] [SEED] [--smoke]

Standard input is closed, empty, silent, slow or endless; tools catch or ignore their cancellation, block a
thread, the loop or the interpreter, programs ignore signals, and some readers of the answer do not read. Each
run must end by itself, those with `--timeout` within five seconds of it. Prints how many runs there were, how
many hung, the slowest end after its timeout, and each kind of run. Exits 1 if one hung, was late, or ended
with another code.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["KINDS", "Figures", "Kind", "Place", "soak"]

LATE = 5.0  # seconds that a run may take beyond its timeout
BY_ITSELF = 40.0  # and one that has none
HANGS = 20.0  # beyond that it is ended, and counts as hanging
MARK = "86399"  # what programs sleep, so that those that are left can be found

TOOLS = """
import re
import time
import trio
from leeward import Effect, Text, tool

@tool(effects=Effect.READ, timeout=3600)
async def shielded(word: Text) -> str:
    "Sleep where no cancellation comes."
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
    return word

@tool(effects=Effect.READ, timeout=3600)
async def swallowing(word: Text) -> str:
    "Take no cancellation for an answer."
    while True:
        try:
            await trio.sleep(0.2)
        except BaseException:
            time.sleep(0.01)
    return word

@tool(effects=Effect.READ, timeout=3600)
def blocking(word: Text) -> str:
    "Block a thread."
    time.sleep(3600)
    return word

@tool(effects=Effect.READ, timeout=3600)
async def spinning(word: Text) -> str:
    "Block the loop."
    while True:
        pass

@tool(effects=Effect.READ, timeout=3600)
async def sleeping(word: Text) -> str:
    "Block the loop in the system."
    time.sleep(3600)
    return word

@tool(effects=Effect.READ, timeout=3600)
async def holding(word: Text) -> str:
    "Hold the interpreter."
    re.match("(a+)+$", "a" * 60 + "b")
    return word

@tool(effects=Effect.READ)
async def large(word: Text) -> str:
    "Bring much."
    return (word + chr(10)) * 20_000

def executors():
    return [shielded, swallowing, blocking, spinning, sleeping, holding, large]
"""
CONFIG = """
[permissions]
autonomy = "full"
[[permissions.rules]]
tool = "*"
action = "allow"
[tools]
executors = ["soak_tools:executors"]
[tools.shell]
trial = "off"
timeout = 3600
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@dataclass(frozen=True)
class Kind:
    """A kind of run: its words, its standard input, its timeout, the codes it may end with.

    An answer that is not `read` fills its pipe. Where `fed` names bytes they come, again and again if `slow`
    or `endless`.
    """

    name: str
    words: tuple[str, ...]
    stdin: str = "empty"
    timeout: float | None = None
    codes: tuple[int, ...] = (0,)
    read: bool = True


def _kinds() -> Iterator[Kind]:
    offline = ("--model", "offline")
    prompt, script = ("-p", "read notes.md", *offline), ("--script", "{script}", *offline)
    for stdin in ("closed", "empty", "silent", "text"):
        yield Kind(f"-p, {stdin} input", prompt, stdin)
        yield Kind(f"--script FILE, {stdin} input", script, stdin)
    yield Kind("-p, slow input", prompt, "slow", 2, (10,))
    yield Kind("-p, endless input", prompt, "endless", 20, (2, 10))
    yield Kind("-p, endless file", prompt, "zeros", 20, (0, 10))
    yield Kind("-p -, closed input", ("-p", "-", *offline), "closed", None, (2,))
    yield Kind("-p -, empty input", ("-p", "-", *offline), "empty", None, (2,))
    yield Kind("-p -, text", ("-p", "-", *offline), "text")
    yield Kind("--script -, text", ("--script", "-", *offline), "text")
    for stdin in ("silent", "slow"):
        yield Kind(f"-p -, {stdin} input", ("-p", "-", *offline), stdin, 2, (10,))
        yield Kind(f"--script -, {stdin} input", ("--script", "-", *offline), stdin, 2, (10,))
    yield Kind("-p -, endless input", ("-p", "-", *offline), "endless", 5, (2,))
    yield Kind("--script -, endless input", ("--script", "-", *offline), "endless", 5, (2,))
    for stdin in ("silent", "endless"):
        yield Kind(f"call, {stdin} input", ("call", "read", '{"path": "notes.md"}'), stdin)
    yield Kind("check --batch -, silent input", ("check", "--batch", "-"), "silent", 2, (10,))
    yield Kind("scan -, silent input", ("scan", "-"), "silent", 2, (10,))
    for tool in ("shielded", "swallowing", "blocking", "spinning", "sleeping"):
        words = ("-p", f'call {tool} {{"word": "x"}}', *offline)
        yield Kind(f"a tool that is {tool}", words, "empty", 2, (10,))
        yield Kind(f"a tool that is {tool}, json", (*words, "--output", "json"), "silent", 5, (10,))
    words = ("-p", 'call holding {"word": "x"}', *offline)
    yield Kind("a tool that is holding the interpreter", words, "empty", 4, (10, -signal.SIGALRM))
    for what, line in {
        "ignores signals": f"trap '' INT TERM HUP; while :; do sleep {MARK}; done",
        "leaves its group": f"setsid sh -c 'trap \"\" TERM; sleep {MARK}' & sleep {MARK}",
        "prints without end": "yes",
    }.items():
        yield Kind(f"a program that {what}", ("-p", f"run {line}", *offline), "empty", 3, (10,))
    large = ("call", "large", '{"word": "' + "x" * 60 + '"}', "--verbose", "--output", "json")
    yield Kind("an answer that nobody reads", large, "empty", 3, (10,), read=False)
    stuck = ("--script", "{script}", "{stuck}", "--jobs", "2", *offline)
    yield Kind("several scripts, one stuck", stuck, "empty", 3, (10,))
    yield Kind("a key, and a tool that is shielded", ("--script", "{stuck}", "--key", "{key}", *offline),
               "empty", 3, (10,))  # fmt: skip


KINDS = tuple(_kinds())


@dataclass
class Figures:
    """What was found."""

    runs: int = 0
    hangs: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    other_codes: list[str] = field(default_factory=list)
    slowest: float = 0.0
    slowest_kind: str = ""
    by_kind: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def problems(self) -> list[str]:
        """All that should not be."""
        return [*(f"hung: {one}" for one in self.hangs), *self.late, *self.other_codes]


class Place:
    """A home, a workspace and what runs need in them."""

    def __init__(self, folder: Path) -> None:
        self.home, self.workspace = folder / "home", folder / "work"
        config = self.home / ".config" / "leeward"
        for made in (config, self.workspace, folder / "tools"):
            made.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text(CONFIG)
        (folder / "tools" / "soak_tools.py").write_text(TOOLS)
        (self.workspace / "notes.md").write_text("the ferry leaves at seven\n")
        self.script = folder / "steps.leeward"
        self.script.write_text("read notes.md\n!expect allowed read\n/status\n")
        self.stuck = folder / "stuck.leeward"
        self.stuck.write_text('read notes.md\ncall shielded {"word": "x"}\n')
        self.environment = {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
            "PYTHONPATH": str(folder / "tools"),
        }  # fmt: skip

    def words(self, kind: Kind, number: int) -> list[str]:
        """Return the command line of a run."""
        names = {"script": str(self.script), "stuck": str(self.stuck), "key": f"soak-{number}"}
        words = [
            word.format(**names) if word in {"{script}", "{stuck}", "{key}"} else word for word in kind.words
        ]
        timeout = [] if kind.timeout is None else ["--timeout", f"{kind.timeout:g}"]
        return [*words, *timeout, "--workspace", str(self.workspace)]


@contextmanager
def _input(kind: str) -> Iterator[int | None]:
    """Yield a descriptor for standard input, None for one that is closed."""
    if kind == "closed":
        yield None
        return
    if kind in {"empty", "zeros"}:
        handle = os.open("/dev/null" if kind == "empty" else "/dev/zero", os.O_RDONLY)
        try:
            yield handle
        finally:
            os.close(handle)
        return
    theirs, ours = os.pipe()
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(kind, ours, stop), daemon=True)
    feeder.start()
    try:
        yield theirs
    finally:
        stop.set()
        os.close(theirs)
        feeder.join(10)


def _feed(kind: str, handle: int, stop: threading.Event) -> None:
    try:
        if kind == "text":
            os.write(handle, b"read notes.md\n")
        while kind == "slow" and not stop.wait(0.2):
            os.write(handle, b"x")
        while kind == "endless" and not stop.is_set():
            os.write(handle, b"and on and on\n" * 1000)
        if kind == "silent":
            stop.wait()
    except OSError:
        pass
    finally:
        os.close(handle)


def popen(words: Sequence[str], place: Place, stdin: int | None, stdout: int) -> subprocess.Popen[bytes]:
    """Start the real console script."""
    program = [str(Path(sys.executable).with_name("leeward")), *words]
    if stdin is None:
        program = ["bash", "-c", 'exec "$@" <&-', "bash", *program]
    pipes = {"stdin": stdin, "stdout": stdout, "stderr": subprocess.PIPE}
    return subprocess.Popen(program, cwd=place.workspace, env=place.environment, **pipes)


def _small_pipe() -> tuple[int, int]:
    """Return a pipe that is full after a page."""
    theirs, ours = os.pipe()
    fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, 4096)
    return theirs, ours


def _run(kind: Kind, number: int, place: Place, start: Start) -> tuple[float, int | None, str]:
    """Run once; return how long it took, its exit code (None where it hung), and what it said went wrong."""
    with _input(kind.stdin) as stdin, tempfile.TemporaryFile() as answer:
        theirs, ours = (-1, -1) if kind.read else _small_pipe()
        begun = time.monotonic()
        process = start(place.words(kind, number), place, stdin, answer.fileno() if kind.read else ours)
        try:
            _, err = process.communicate(timeout=(kind.timeout or BY_ITSELF) + HANGS)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            _, err = process.communicate()
            code = None
        finally:
            for handle in (theirs, ours):
                if handle >= 0:
                    os.close(handle)
        took = time.monotonic() - begun
        if kind.read and "json" in kind.words and code is not None:
            answer.seek(0)
            json.loads(answer.read())
    return took, code, err.decode(errors="replace")


def soak(
    runs: int, seed: int, place: Place, start: Start = popen, at_once: int = 2, kinds: Sequence[Kind] = KINDS
) -> Figures:
    """Run so many times, each kind about as often, in a random order."""
    chance, found, lock = random.Random(seed), Figures(), threading.Lock()  # noqa: S311 - an order, no secret
    waiting = [kinds[number % len(kinds)] for number in range(runs)]
    chance.shuffle(waiting)

    def one(number: int, kind: Kind) -> None:
        took, code, err = _run(kind, number, place, start)
        with lock:
            _count(found, kind, took, code, err)

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(one, *numbered) for numbered in enumerate(waiting)]:
            done.result()
    return found


def _count(found: Figures, kind: Kind, took: float, code: int | None, err: str) -> None:
    found.runs += 1
    found.by_kind[kind.name] += 1
    found.seconds[kind.name] = max(took, found.seconds.get(kind.name, 0.0))
    over = took - (BY_ITSELF if kind.timeout is None else kind.timeout)
    if code is None:
        found.hangs.append(kind.name)
        return
    if kind.timeout is not None and code == 10 and over > found.slowest:
        found.slowest, found.slowest_kind = over, kind.name
    if over > (LATE if kind.timeout is not None else 0.0):
        found.late.append(f"late by {over:.1f} s: {kind.name}")
    if code not in kind.codes:
        found.other_codes.append(f"ended with {code}: {kind.name}: {err[-600:]}")


def left_over() -> list[str]:
    """Return the programs of runs that are still there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if MARK in line and "soak.py" not in line:
                found.append(line)
    return found


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    runs, seed = (*numbers, 1000, 1)[:2] if len(numbers) != 1 else (numbers[0], 1)
    if "--smoke" in sys.argv:
        runs = 6
    with tempfile.TemporaryDirectory(prefix="leeward-soak-") as folder:
        begun = time.monotonic()
        found = soak(runs, seed, Place(Path(folder)))
        took = time.monotonic() - begun
    time.sleep(1)
    left = left_over()
    sys.stdout.write(
        f"{found.runs} runs of {len(found.by_kind)} kinds in {took:.0f} s: {len(found.hangs)} hangs, "
        f"{len(found.late)} late, {len(found.other_codes)} other exit codes, {len(left)} programs left\n"
        f"slowest end after its timeout: {found.slowest:.2f} s ({found.slowest_kind or 'none'})\n"
    )
    for name in sorted(found.seconds, key=found.seconds.__getitem__, reverse=True):
        sys.stdout.write(f"  {found.by_kind[name]:4} × at most {found.seconds[name]:5.1f} s  {name}\n")
    for problem in (*found.problems, *(f"left: {line}" for line in left)):
        sys.stdout.write(f"{problem}\n")
    return 1 if found.problems or left else 0


if __name__ == "__main__":
    sys.exit(main())
