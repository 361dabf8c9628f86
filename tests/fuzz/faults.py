"""Make every write of the database fail in turn: no call may have an effect without a readable decision.

One process makes calls through the whole pipeline; each call has an effect (a file), and checks, when it
runs, whether its decision can be read over another connection. Writes fail by `strace -e inject` (a full
disk, an input/output error, an interrupted system call), or by means available everywhere: a limit of the
file's size, of its pages, a lock, a read-only file. In between and afterwards the disk works again. `python
tests/fuzz/faults.py [STEP]` tries every STEPth write and exits 1 with what it found.
"""

from __future__ import annotations

import json
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import trio

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database
from leeward.memory.overflow import OverflowStore
from leeward.security.call import ToolCall, ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.outcome import ToolError
from leeward.security.pipeline import Pipeline
from leeward.security.policy import CallLimits, Policy
from leeward.security.ports import Ports, RecordError
from leeward.security.session import Session
from leeward.tools.composite import CompositeExecutor
from leeward.tools.declare import Text, tool
from leeward.tools.survey import Surveyor

__all__ = ["EVERYWHERE", "INJECTED", "found_by", "has_strace"]

_CALLS = 14  # at least, and then until so many in a row were not refused
_IN_A_ROW = 3
_MOST = 40
_BROKEN = range(4, 9)  # during these calls the disk fails, where it fails by other means than strace
# How often the thread of the database makes each call, from the making of the file to the last record.
_TIMES = {"pwrite64": 500, "fdatasync": 41}
_NEVER_OPENED = 9

_REFUSED = "gate: audit (unrecorded)"

INJECTED = tuple((call, error) for call in ("pwrite64", "fdatasync") for error in ("ENOSPC", "EIO", "EINTR"))
"""Calls of the system, and how each is made to fail."""

EVERYWHERE = ("size", "pages", "locked", "read-only")
"""The ways to fail that need no other program."""


class Silent:
    """Nobody asks, nobody listens, and the clock is the system's."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def live(self, call: str, chunk: str) -> None:
        """Hear nothing."""

    def alert(self, message: str) -> None:
        """Hear nothing."""


def _effect(folder: Path) -> ToolExecutor:
    @tool(effects=Effect.READ)
    async def effect(name: Text) -> str:
        """Leave a file behind, unless nobody else can read the decision."""
        await trio.lowlevel.checkpoint()
        with closing(sqlite3.connect(f"file:{folder}/a.db?mode=ro", uri=True)) as other:
            sql = "SELECT count(*) FROM audit WHERE kind = 'decision' AND call = ?"
            decided = other.execute(sql, (name,)).fetchone()[0]
        (folder / "effects" / name).write_text(str(decided), encoding="ascii")
        if name.endswith("3"):
            raise ToolError("this one fails, which is an outcome, too")
        return name

    return effect


@asynccontextmanager
async def _opened(folder: Path) -> AsyncIterator[tuple[Database, Pipeline]]:
    """Open what a session needs.

    Where that fails, so would every other try here: strace counts the calls of each thread anew.
    """
    async with AsyncioThread.open("storage") as asyncio_thread:
        opening = Database.open(folder / "a.db", asyncio_thread, busy_seconds=0.05)
        try:
            database = await opening.__aenter__()
        except RecordError as error:
            _say(opening=str(error))
            raise SystemExit(_NEVER_OPENED) from error
        try:
            yield database, _pipeline(folder, database)
        finally:
            await opening.__aexit__(None, None, None)


def _pipeline(folder: Path, database: Database) -> Pipeline:
    silent = Silent()
    ports = Ports(
        executor=CompositeExecutor([_effect(folder)]),
        surveyor=Surveyor(),
        approver=None,  # type: ignore[arg-type]  # a reading tool asks nobody
        audit=AuditLogger(database, silent),
        store=OverflowStore(database, silent),
        clock=silent,
        observer=silent,
    )
    limits = CallLimits(per_turn=10**9, per_session=10**9, repeats=10**9)
    return Pipeline(Session("s", Policy(str(folder), str(folder), calls=limits)), ports)


def _say(**said: object) -> None:
    print(json.dumps(said), flush=True)


async def run(folder: Path, fault: str) -> None:
    """Make calls, some of them while the disk fails, and tell what came of each."""
    async with _opened(folder) as (database, pipeline):
        worked = 0
        for number in range(_MOST):
            if number >= _CALLS and worked >= _IN_A_ROW:
                break
            call = ToolCall(f"c{number}", "effect", json.dumps({"name": f"c{number}"}))
            if fault in EVERYWHERE and number in _BROKEN:
                with _failing(fault, folder):
                    await _limited(fault, database)
                    result = await pipeline.run(call)
                await _limited("", database)
            else:
                result = await pipeline.run(call)
            worked = 0 if _REFUSED in result.text else worked + 1
            _say(call=call.id, status=result.outcome.status, text=result.text)
        for _ in range(_IN_A_ROW):
            await pipeline.note()


@contextmanager
def _failing(fault: str, folder: Path) -> Iterator[None]:
    """Have the disk fail, as far as that is done from outside of the connection."""
    if fault == "size":
        most = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (folder / "a.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2 * 4096, most[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
    elif fault == "locked":
        with closing(sqlite3.connect(folder / "a.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
    else:
        yield


async def _limited(fault: str, database: Database) -> None:
    """Have SQLite itself refuse to write, or to write more."""
    await database.read(f"PRAGMA query_only = {'ON' if fault == 'read-only' else 'OFF'}")
    # A limit below the size it has: not a page more.
    await database.read(f"PRAGMA max_page_count = {1 if fault == 'pages' else 10**9}")


def has_strace() -> bool:
    """Whether calls of the system can be made to fail here."""
    path = shutil.which("strace")
    probe = ["-qq", "-o", "/dev/null", "-e", "inject=pwrite64:error=EIO:when=999", "true"]
    if path is None:
        return False
    return subprocess.run([path, *probe], capture_output=True, check=False).returncode == 0


def found_by(fault: str, when: str = "") -> tuple[list[str], int]:
    """Run a process whose disk fails so; return what was wrong afterwards, and how often it hit a call."""
    with tempfile.TemporaryDirectory(prefix="leeward-faults-") as name:
        folder = Path(name)
        (folder / "effects").mkdir()
        argv = [sys.executable, __file__, "run", name, fault]
        if fault not in EVERYWHERE:
            call, error = fault.split(":")
            injected = f"inject={call}:error={error}:when={when}"
            traced = ["strace", "-f", "-qq", "-o", "/dev/null", "--seccomp-bpf", "-e", f"trace={call}"]
            argv = [*traced, "-e", injected, *argv]
        child = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        told = [json.loads(line) for line in child.stdout.splitlines()]
        if child.returncode == _NEVER_OPENED:
            # What a failing start left behind must be good enough for the next one.
            argv = [sys.executable, __file__, "run", name, "none"]
            child = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
            told += [json.loads(line) for line in child.stdout.splitlines()]
        problems = []
        if child.returncode:
            problems.append(f"it ended with {child.returncode}: {child.stderr[-2000:]}")
        problems += _wrong(folder, [one for one in told if "call" in one])
        problems += trio.run(_looked_at, folder)
    hit = sum("opening" in one or _REFUSED in one["text"] for one in told)
    return [f"{fault} at {when or _BROKEN}: {problem}" for problem in problems], hit


def _wrong(folder: Path, told: Sequence[dict[str, str]]) -> Iterator[str]:
    """Yield effects without a decision that others could read, and refusals that had an effect."""
    for file in (folder / "effects").iterdir():
        if file.read_text(encoding="ascii") != "1":
            yield f"{file.name} ran, and its decision could not be read"
    for one in told:
        has_effect = (folder / "effects" / one["call"]).exists()
        was_refused = _REFUSED in one["text"]
        if one["status"] == "ok" and not has_effect:
            yield f"{one['call']} is told as done, and was not"
        if was_refused and has_effect:
            yield f"{one['call']} is told as refused, and ran: {one['text']}"
        if one["status"] != "ok" and not was_refused and not one["call"].endswith("3"):
            yield f"{one['call']} failed for another reason: {one['text']}"
    calls = [one["call"] for one in told]
    if len(calls) < _CALLS or calls != [f"c{number}" for number in range(len(calls))]:
        yield "it did not make all its calls"
    elif not all((folder / "effects" / call).exists() for call in calls[-_IN_A_ROW:]):
        yield "it did not work again when the disk did"


async def _looked_at(folder: Path) -> list[str]:
    async with (
        AsyncioThread.open("look") as asyncio_thread,
        Database.open(folder / "a.db", asyncio_thread) as database,
    ):
        found = [f"the file is damaged: {line}" for line in await database.integrity()]
        audit = AuditLogger(database, Silent())
        problem = (await audit.verify()).problem
        found += [] if problem is None else [f"the chain: {problem}"]
        found += [f"{one.call} has no outcome on record" for one in await audit.unfinished("s")]
        rows = await database.read(
            "SELECT call FROM audit WHERE kind IN ('decision', 'outcome')"
            " GROUP BY call, kind HAVING count(*) > 1"
        )
        return found + [f"{call} stands there twice" for (call,) in rows]


def windows(call: str, step: int) -> Iterator[str]:
    """Yield which calls fail: three in a row, and then none; and a few in the middle, every so many."""
    times = _TIMES[call]
    for first in range(1, times - 4 * step, step):
        yield f"{first}..{first + 2}"
    for every in (2, 3, 5, 7, 11) if call == "pwrite64" else (2, 3):
        yield f"{times // 2}..{times // 2 + 4 * every}+{every}"


def main() -> int:
    """Try all faults, or make the calls of one of them."""
    if sys.argv[1:2] == ["run"]:
        _, _, folder, fault = sys.argv
        trio.run(run, Path(folder), fault)
        return 0
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    tried: list[tuple[str, str]] = [(fault, "") for fault in EVERYWHERE]
    if has_strace():
        tried += [(":".join(fault), when) for fault in INJECTED for when in windows(fault[0], step)]
    else:
        print("strace is not there, or may not be used: only what fails everywhere is tried")
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(_found, tried))
    problems = [problem for found, _ in results for problem in found]
    hits = sum(hit for _, hit in results)
    print(f"{len(tried)} processes whose disk failed, {hits} times a call or a start was refused for that")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _found(tried: tuple[str, str]) -> tuple[list[str], int]:
    return found_by(*tried)


if __name__ == "__main__":
    raise SystemExit(main())
