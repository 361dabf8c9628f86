"""Measure what confining a program costs, when its output comes, and how soon it is gone when cancelled.

For every level that works here, in milliseconds: a run of `true` from call to result against a bare spawn,
with the scans of the workspace before and after shown apart; the time to the first output; and how long a
cancel takes until nothing of a hostile tree is left, over random cancels (`process.py 200` by default). The
last line of a level says how many processes were left behind, which must be none.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import trio
from scale import scaled

from leeward.security.policy import Policy
from leeward.tools.process import environment
from leeward.tools.sandbox import Sandbox, SandboxSettings, open_sandbox

RUNS = scaled(40, 2)
DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
if os.fork(): time.sleep(60)
os.setsid()
if os.fork(): os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""
HOSTILE = (
    "echo ready; sleep 60",
    "trap '' TERM; echo ready; while :; do sleep 0.05; done",
    "setsid sh -c 'trap \"\" TERM HUP; echo ready; sleep 60; sleep 60' & sleep 60",
    f"{sys.executable} -I -S -c '{DAEMON}'",
    "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; echo ready; wait",
)


def spread(times: list[float]) -> dict[str, float]:
    """Return the median, the 95th of a hundred, and the worst, in milliseconds."""
    ordered = sorted(times)
    at = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return {
        name: round(1e3 * value, 1)
        for name, value in zip(
            ("median", "p95", "worst"), (statistics.median(ordered), at, ordered[-1]), strict=True
        )
    }


async def timed(times: int, work: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """Run something several times and return how long it took."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        found.append(time.perf_counter() - began)
    return spread(found)


async def bare() -> None:
    """Start the smallest of programs as anybody would, and wait for it."""
    await trio.to_thread.run_sync(
        lambda: subprocess.run(["/bin/true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    )


def carrying(mark: str) -> Iterator[int]:
    """Yield the processes whose environment carries a mark."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                yield int(folder.name)


class Bench:
    """One sandbox that is measured."""

    def __init__(self, sandbox: Sandbox, mark: str) -> None:
        self.sandbox = sandbox
        self.env = {**environment("/nonexistent", os.environ), "MARK": mark}
        self.mark = mark

    async def run(self, script: str, on_chunk: Callable[[str], Awaitable[None]] | None = None) -> None:
        """Run a line to its end."""
        await self.sandbox.run(
            ["/bin/sh", "-c", script],
            cwd=self.sandbox.confinement.workspace,
            env=self.env,
            deadline=trio.current_time() + 60,
            max_bytes=10_000,
            on_chunk=on_chunk,
        )

    async def first_output(self) -> float:
        """Return how long it takes from the call to the first output."""
        came: list[float] = []

        async def on_chunk(_: str) -> None:
            came.append(time.perf_counter())

        began = time.perf_counter()
        await self.run("echo first", on_chunk)
        return came[0] - began

    async def cancel(self, script: str, wait: float) -> float:
        """Cancel a hostile line a while after it is at its worst, and return how long its end took."""
        began = 0.0
        ready = trio.Event()

        async def on_chunk(_: str) -> None:
            ready.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run, script, on_chunk)
            with trio.move_on_after(wait):
                await ready.wait()
                await trio.sleep(wait / 10)
            began = time.perf_counter()
            nursery.cancel_scope.cancel()
        return time.perf_counter() - began

    async def cancels(self, count: int) -> dict[str, object]:
        """Cancel many lines at random moments; say how long that took, and what was left."""
        chance = random.Random(1)  # noqa: S311 — any order will do, the same each time
        times = [await self.cancel(chance.choice(HOSTILE), chance.uniform(0.0, 0.3)) for _ in range(count)]
        return {"cancel_ms": spread(times), "cancels": count, "left_behind": len(list(carrying(self.mark)))}


def settings_for(level: str, folder: Path) -> SandboxSettings:
    """Return what a sandbox in a folder of its own needs to know."""
    real = folder.resolve()
    for name in ("ws", "home"):
        (real / name).mkdir()
    tools = Path(__file__).resolve().parents[1] / "tools"
    prefixes = (str(Path(sys.prefix).resolve()), str(Path(sys.base_prefix).resolve()), str(tools))
    policy = Policy(str(real / "ws"), str(real / "home"))
    return SandboxSettings(policy, str(real / "aside"), level, prefixes=prefixes)


async def measure(level: str, folder: Path, cancels: int) -> dict[str, object]:
    """Return the figures of one level."""
    settings = settings_for(level, folder)
    began = time.perf_counter()
    async with open_sandbox(settings) as sandbox:
        opened = time.perf_counter() - began
        if sandbox.level != level:
            return {"level": level, "not_here": "; ".join(sandbox.weaker_because)}
        bench = Bench(sandbox, uuid.uuid4().hex)
        spawn = await timed(RUNS, lambda: bench.run(":"))
        firsts = spread([await bench.first_output() for _ in range(RUNS)])
        looks = await timed(RUNS, lambda: trio.to_thread.run_sync(sandbox.look))
        told = {
            "level": level,
            "open_ms": round(1e3 * opened, 1),
            "run_ms": spawn,
            "of_that_one_look_ms": looks,
        }
        return {**told, "first_output_ms": firsts, **await bench.cancels(cancels)}


async def main() -> int:
    """Measure every level and print a line for each."""
    cancels = scaled(200, 2, 0)
    print(json.dumps({"level": "bare spawn", "run_ms": await timed(RUNS, bare)}))
    left = 0
    for level in ("bubblewrap", "landlock", "none"):
        with tempfile.TemporaryDirectory() as folder:
            figures = await measure(level, Path(folder), cancels)
        print(json.dumps(figures), flush=True)
        left += int(str(figures.get("left_behind", 0)))
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(trio.run(main))
