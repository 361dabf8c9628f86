"""Measure what a long session costs, and how long it takes to resume one. Prints a table.

    python bench/sessions.py [CALLS | --smoke]

Makes one session of so many calls (10,000) with a whole runtime on a database of its own, and records time
and memory for each tenth of it. Other load on the machine weighs on some tenths more than on others, so
between the turns of the last one a session that has just begun takes its turns, too, for comparison. Then a
fresh process resumes the session, lists all sessions and searches them; a second one forks and deletes it.
Times are of one run each.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from scale import SMOKE, scaled

from leeward import Effect, Text, tool
from leeward.runtime.app import Runtime
from leeward.runtime.config import Locations, load
from leeward.runtime.conversation.compaction import ASKED
from leeward.runtime.providers.interface import (
    CallRequested,
    ModelEvent,
    Request,
    Stopped,
    StopReason,
    TextDelta,
    Usage,
    new_call_id,
)
from leeward.runtime.sessions import delete, find, fork
from leeward.security.call import ToolCall

TURN = scaled(100, 10)  # calls in one turn
REPLY = 10  # calls in one reply
CONFIG = """
[agent]
max_turns = 1000
max_tool_calls_per_turn = 10000
max_tool_calls_per_session = 1000000
"""


@tool(effects=Effect.READ)
async def look(place: Text) -> str:
    """Look at something."""
    return f"At {place} there are {place} ships, and the ferry {place}7A leaves. " * 8


class Asking:
    """A model that asks for calls, ten at a time, until its turn is over."""

    name = "offline-like"

    def __init__(self) -> None:
        self.asked = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """Answer one request."""
        if request.messages[-1].text.startswith(ASKED):
            yield self._events("A hundred places were looked at.", 0)
        elif request.messages[-1].role == "user" or self.asked % TURN:
            yield self._events("Looking.", REPLY)
        else:
            yield self._events("Looked.", 0)

    async def _events(self, text: str, calls: int) -> AsyncIterator[ModelEvent]:
        yield TextDelta(text)
        for _ in range(calls):
            self.asked += 1
            yield CallRequested(ToolCall(new_call_id(), "look", json.dumps({"place": f"{self.asked:06}"})))
        yield Usage(1000, 100)
        yield Stopped(StopReason.TOOL_CALLS if calls else StopReason.STOP)


def places(folder: Path) -> Locations:
    """Return a home and a workspace in a folder."""
    data = folder / "data"
    found = Locations(folder / "work", folder, folder / "config", data, data / "leeward.db")
    for made in (found.workspace, found.config):
        made.mkdir(exist_ok=True)
    (found.config / "config.toml").write_text(CONFIG)
    return found


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Runtime]:
    """Open a runtime on the database in a folder."""
    where = places(folder)
    loaded = load(config_dir=where.config, environment={})
    async with Runtime.open(loaded, places=where, provider=Asking(), executors=[look]) as runtime:
        yield runtime


def resident() -> float:
    """Return the memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Spent:
    """Seconds that turns took, on the clock and of the processor."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    async def turn(self, runtime: Runtime) -> None:
        """Run a turn."""
        began, used = time.perf_counter(), time.process_time()
        await runtime.turn("look at some places, please")
        self.wall += time.perf_counter() - began
        self.processor += time.process_time() - used

    def each(self, calls: int) -> tuple[float, float]:
        """Return milliseconds of one call, where there were so many."""
        return self.wall / calls * 1000, self.processor / calls * 1000


async def build(folder: Path, calls: int) -> dict[str, Any]:
    """Make the session, and a short one beside it."""
    tenths: list[tuple[float, float, float]] = []
    turns, fresh = max(1, calls // TURN // 10), Spent()
    beside = folder / "beside"
    beside.mkdir()
    async with opened(folder) as runtime, opened(beside) as other:
        await Spent().turn(other)  # what is done once is not compared
        for tenth in range(10):
            spent = Spent()
            for turn in range(turns):
                if tenth == 9 and turn % 2:
                    await fresh.turn(other)
                await spent.turn(runtime)
                if tenth == 9 and not turn % 2:
                    await fresh.turn(other)
            tenths.append((*spent.each(turns * TURN), resident()))
        made = runtime.pipeline.session.calls_this_session
        compared = fresh.each(turns * TURN)
        return {"tenths": tenths, "fresh": compared, "calls": made, "session": runtime.session_id}


async def go_on(folder: Path, name: str) -> dict[str, Any]:
    """Resume it in a fresh process, and look around."""
    times: dict[str, Any] = {}
    async with opened(folder) as runtime:
        before = resident()

        async def timed(what: str, work: Any) -> Any:
            began, used = time.perf_counter(), time.process_time()
            done = await work
            times[what] = (time.perf_counter() - began) * 1000
            times[f"{what}, of the processor"] = (time.process_time() - used) * 1000
            return done

        left = await timed("resume", runtime.resume(name))
        times["memory of it"] = resident() - before
        times["calls"] = left.session.calls_this_session
        await timed("list", runtime.kept.catalog.sessions(50))
        await timed("search a rare word", runtime.kept.catalog.search("004711", 20))
        await timed("search a common word", runtime.kept.catalog.search("ferry", 20))
        await timed("a turn of 100 calls", runtime.turn("and one more"))
    return times


async def change(folder: Path, name: str) -> dict[str, Any]:
    """Fork it and delete it."""
    async with opened(folder) as runtime:
        found = await find(runtime.kept.catalog, name, "")
        began = time.perf_counter()
        await fork(runtime.kept, found)
        forked = time.perf_counter()
        await delete(runtime.kept, name)
        return {"fork": (forked - began) * 1000, "delete": (time.perf_counter() - forked) * 1000}


def told(*words: str) -> dict[str, Any]:
    """Run a part of this in a process of its own, and return what it printed."""
    command = [sys.executable, __file__, *words, *(["--smoke"] if SMOKE else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(words: Sequence[str]) -> None:
    """Measure, and print the table; or do one part of it and print what was measured."""
    # As the command line does: what imports made is there to stay, and not looked through again.
    gc.freeze()
    parts = {"build": build, "go_on": go_on, "change": change}
    if words and words[0] in parts:
        argument: Any = int(words[2]) if words[0] == "build" else words[2]
        print(json.dumps(trio.run(parts[words[0]], Path(words[1]), argument)))
        return
    calls = str(scaled(10_000, 100, 0))
    with tempfile.TemporaryDirectory() as folder:
        made = told("build", folder, calls)
        print(f"a session of {made['calls']} calls, in tenths:")
        for number, (each, used, memory) in enumerate(made["tenths"], start=1):
            print(f"  {number:>2}  {each:6.2f} ms per call, {used:5.2f} of the processor  {memory:6.1f} MiB")
        last = made["tenths"][-1]
        for what, held in (("first", made["tenths"][0]), ("one just begun, turn by turn", made["fresh"])):
            print(f"last tenth / {what}: {last[0] / held[0]:.2f}, of the processor {last[1] / held[1]:.2f}")
        size = (Path(folder) / "data" / "leeward.db").stat().st_size / 2**20
        print(f"database: {size:.1f} MiB")
        for part in ("go_on", "change"):
            for what, value in told(part, folder, made["session"]).items():
                unit = {"calls": "", "memory of it": "MiB"}.get(what, "ms")
                print(f"{what:<40} {value:9.1f} {unit}")


if __name__ == "__main__":
    main(sys.argv[1:])
