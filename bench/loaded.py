"""The same work as in `floor.py`, done by Leeward: all gates, the durable audit, the transcript.

    python bench/loaded.py URL MODEL [CONVERSATIONS] [headless|rendered|shell]

Prints what it measured as JSON, in the words of `floor.py`. With `shell` the calls are of that tool, so many
as CONVERSATIONS says, each beside the same line in the same sandbox without anything around it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TextIO

import trio

from leeward.memory.database import AsyncioThread, Database
from leeward.runtime.app import Runtime
from leeward.runtime.config import Locations, load
from leeward.runtime.events import CallEnded, RunEvent, Text
from leeward.runtime.model import open_model
from leeward.runtime.options import Options
from leeward.runtime.printer import Printer
from leeward.runtime.repl.render import Renderer
from leeward.runtime.repl.screen import Screen
from leeward.runtime.script import RunPrinter
from leeward.runtime.script.script import ScriptStep
from leeward.security.call import Status
from leeward.security.kinds import Effect
from leeward.tools.declare import tool
from leeward.tools.process import environment

CONFIG = """
[agent]
max_turns = 1000
max_tool_calls_per_turn = 10000
max_tool_calls_per_session = 10000
[llm]
model = "bench:{model}"
[[llm.providers]]
name = "bench"
base_url = "{url}"
[[permissions.rules]]
tool = "shell"
match = "echo *"
action = "allow"
"""
LINE = "echo {}"


@tool(effects=Effect.READ)
async def nothing(n: int) -> str:
    """Do nothing."""
    return str(n)


class Marks:
    """Listens to one session, hands on what it hears, and notes when each call was done."""

    def __init__(self, others: Callable[[RunEvent], None] | None = None) -> None:
        self.marks: list[tuple[float, float]] = []
        self.text = 0
        self._others = others

    def __call__(self, event: RunEvent) -> None:
        """Take in an event."""
        if isinstance(event, Text):
            self.text += len(event.text)
        elif isinstance(event, CallEnded):
            self.marks.append((time.process_time(), time.perf_counter()))
        if self._others is not None:
            self._others(event)


class Paper:
    """A terminal of which nobody reads what it shows."""

    size = (100, 40)
    obeys = True

    def __init__(self, file: TextIO) -> None:
        self.write = file.write


def listener(way: str) -> Callable[[RunEvent], None] | None:
    """Return what `leeward -p` or the chat does with what it hears, its output thrown away."""
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    if way == "rendered":
        return Renderer(Screen(Paper(nowhere)))
    account = RunPrinter(Printer(Options(prompt="go"), nowhere, nowhere))
    account.begin(ScriptStep(0, "go"), None)
    return account.hear


@asynccontextmanager
async def sessions(folder: Path, url: str, model: str, heard: list[Marks]) -> AsyncIterator[list[Runtime]]:
    """Open a session for each listener; they share the model's connections and the database file."""
    config, data, workspace = folder / "config", folder / "data", folder / "work"
    for made in (config, data, workspace):
        made.mkdir()
    (config / "config.toml").write_text(CONFIG.format(url=url, model=model), encoding="utf-8")
    loaded = load(config_dir=config, environment={})
    places = Locations(workspace, folder, config, data, data / "leeward.db")
    async with AsyncExitStack() as stack:
        provider = (await stack.enter_async_context(open_model(loaded.config))).provider
        opened = []
        for marks in heard:
            session = Runtime.open(
                loaded, executors=[nothing], provider=provider, places=places, listener=marks
            )
            opened.append(await stack.enter_async_context(session))
        yield opened


async def commit_seconds(folder: Path) -> float:
    """Return the median time of one durable commit, made and waited for as the audit's are."""
    times = []
    row = (
        "INSERT INTO audit (at, session, kind, call, tool, body, id, prev, hash)"
        " VALUES (0, 's', 'bench', 'c', 't', ?, ?, zeroblob(32), zeroblob(32))"
    )
    async with (
        AsyncioThread.open("commits") as asyncio_thread,
        Database.open(folder / "commits.db", asyncio_thread) as database,
    ):
        for number in range(200):
            began = time.perf_counter()
            await database.write([(row, ("x" * 400, str(number)))])
            times.append(time.perf_counter() - began)
    return sorted(times)[len(times) // 2]


async def held(url: str, model: str, count: int, way: str) -> dict[str, object]:
    """Hold so many conversations at once and return what they took."""
    with tempfile.TemporaryDirectory() as name:
        heard = [Marks(listener(way) if way else None) for _ in range(count)]
        cpu, wall = time.process_time(), time.perf_counter()
        async with sessions(Path(name), url, model, heard) as opened:
            ready = time.process_time(), time.perf_counter()
            async with trio.open_nursery() as nursery:
                for runtime in opened:
                    nursery.start_soon(runtime.turn, "go")
            done = time.process_time(), time.perf_counter()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "cpu": done[0] - ready[0],
            "wall": done[1] - ready[1],
            "opening_cpu": ready[0] - cpu,
            "opening_wall": ready[1] - wall,
            "peak_kib": peak,
            "marks": heard[0].marks,
            "text": heard[0].text,
            "steps": sum(len(marks.marks) + 1 for marks in heard),
            "commit": await commit_seconds(Path(name)),
        }


async def shell(url: str, model: str, count: int, _: str) -> dict[str, object]:
    """Run a line by calls of the tool and by the sandbox alone, in turn; return what they took."""
    through, alone = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as name:
        async with sessions(Path(name), url, model, [Marks()]) as (runtime,):
            sandbox = runtime.sandbox
            env, folder = environment(name, os.environ), sandbox.confinement.workspace
            for number in range(count + 1):
                line = LINE.format(number)
                began = time.perf_counter()
                result = await runtime.call("shell", {"command": line})
                middle = time.perf_counter()
                assert result.outcome.status is Status.OK, result.shown
                await sandbox.run(
                    ["/bin/sh", "-c", line],
                    cwd=folder,
                    env=env,
                    deadline=trio.current_time() + 60,
                    max_bytes=10_000,
                )
                through.append(middle - began)
                alone.append(time.perf_counter() - middle)
    return {"level": str(sandbox.level), "through": through[1:], "alone": alone[1:]}


def main() -> int:
    """Hold conversations as the command line says, and print what they took."""
    url, model, *more = sys.argv[1:]
    count, way = int(more[0]) if more else 1, more[1] if len(more) > 1 else ""
    print(json.dumps(trio.run(shell if way == "shell" else held, url, model, count, way)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
