"""Measure many sessions in one runtime, against loops with nothing around them. Prints a table.

    python bench/many.py [ROUNDS | --smoke]

The server of `model_server.py` answers 200 conversations of 5 calls at once, held by the floors of `floor.py`
(h11 with a connection each; one httpx client) and by sessions of one runtime, each in a fresh process and in
turns. Then sessions are opened and closed one after the other, and one session makes 10,000 calls.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import trio
from scale import scaled
from turn import Told, floor, ratio, served, told

SESSIONS = scaled(200, 3)
OPENED = scaled(300, 5)
CALLS = scaled(10_000, 40)
STEPS = "steps-5:nothing"
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> float:
    """Return the memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / 2**20


def clocks() -> tuple[float, float]:
    """Return the seconds of this process's CPU and of the wall."""
    return time.process_time(), time.perf_counter()


def passed(since: tuple[float, float]) -> tuple[float, float]:
    """Return how many seconds of CPU and of the wall went by."""
    cpu, wall = clocks()
    return cpu - since[0], wall - since[1]


@asynccontextmanager
async def runtime(folder: Path, url: str) -> AsyncIterator[object]:
    """Open a runtime whose sessions have one tool more, which does nothing."""
    from loaded import CONFIG, nothing  # noqa: PLC0415 - floors load nothing of it

    from leeward.runtime.app import Runtime  # noqa: PLC0415
    from leeward.runtime.config import Locations, load  # noqa: PLC0415

    config, data, workspace = folder / "config", folder / "data", folder / "work"
    for made in (config, data, workspace):
        made.mkdir()
    (config / "config.toml").write_text(CONFIG.format(url=url, model=STEPS), encoding="utf-8")
    loaded = load(config_dir=config, environment={})
    places = Locations(workspace, folder, config, data, data / "leeward.db")
    async with Runtime.open(loaded, executors=[nothing], places=places) as opened:
        yield opened


async def at_once(url: str, count: int) -> dict[str, float]:
    """Open so many sessions, hold a conversation in each at once, and close them."""
    with tempfile.TemporaryDirectory() as name:
        async with runtime(Path(name), url) as shared, AsyncExitStack() as stack:
            await shared.turn("go")  # type: ignore[attr-defined] - what is loaded at first use is loaded
            gc.collect()
            before, began = resident(), clocks()
            opened = [await stack.enter_async_context(shared.session()) for _ in range(count)]  # type: ignore[attr-defined]
            opening = passed(began)
            gc.collect()
            opened_mib, began = resident(), clocks()
            async with trio.open_nursery() as nursery:
                for session in opened:
                    nursery.start_soon(session.turn, "go")
            held = passed(began)
            assert all(len(session.conversation.messages) == 12 for session in opened)
            gc.collect()
            held_mib, began = resident(), clocks()
            await stack.aclose()
            closing = passed(began)
    return {
        "cpu": held[0],
        "wall": held[1],
        "around_cpu": opening[0] + closing[0],
        "opened_mib": (opened_mib - before) / count,
        "held_mib": (held_mib - before) / count,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def one_by_one(url: str, count: int) -> dict[str, float]:
    """Open and close so many sessions, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        async with runtime(Path(name), url) as shared:
            began = clocks()
            for _ in range(count):
                async with shared.session():  # type: ignore[attr-defined]
                    pass
            cpu, wall = passed(began)
    return {"cpu": cpu / count, "wall": wall / count}


async def long(url: str, count: int) -> dict[str, list[float]]:
    """Make so many calls in one session, and return how long each took."""
    marks = []
    with tempfile.TemporaryDirectory() as name:
        async with runtime(Path(name), url) as session:
            for number in range(count):
                marks.append(clocks())
                result = await session.call("nothing", {"n": number})  # type: ignore[attr-defined]
                assert result.outcome.status == "ok", result
            marks.append(clocks())
    return {
        "cpu": [after[0] - before[0] for before, after in pairwise(marks)],
        "wall": [after[1] - before[1] for before, after in pairwise(marks)],
    }


def sessions(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Compare sessions at once with the floors."""
    runs: list[tuple[Told, ...]] = []
    for _ in range(rounds):
        ours = told("many.py", "at_once", url, str(SESSIONS))
        runs.append((floor(url, "h11", STEPS, SESSIONS), ours, floor(url, "httpx", STEPS, SESSIONS)))
    for clock, word, aim in (("cpu", "CPU", 20), ("wall", "wall", 20)):
        h11, ours, httpx = (min(run[side][clock] for run in runs) for side in range(3))
        figure = ratio(ours / SESSIONS * 1e3, h11 / SESSIONS * 1e3, "ms a session", aim)
        yield (
            f"{SESSIONS} sessions x 5 calls at once, {word}",
            f"{figure} (httpx {httpx / SESSIONS * 1e3:.1f})",
        )
    found = [run[1] for run in runs]
    yield (
        "  opening and closing them, CPU",
        f"{min(one['around_cpu'] for one in found) / SESSIONS * 1e3:.1f} ms each",
    )
    for when, word in (("opened_mib", "when opened"), ("held_mib", "after 5 calls")):
        yield f"  memory of each, {word}", _at_most(min(one[when] for one in found), 1, "MiB")
    yield "  peak memory of the process", f"{min(one['peak_mib'] for one in found):.0f} MiB"


def turnover(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Measure how many sessions can be opened and closed in a second."""
    runs = [told("many.py", "one_by_one", url, str(OPENED)) for _ in range(rounds)]
    rate = 1 / min(run["wall"] for run in runs)
    cpu = min(run["cpu"] for run in runs) * 1e3
    met = "met" if rate >= 60 else "MISSED"
    yield (
        "sessions opened and closed, one after the other",
        f"{rate:.0f} a second, {cpu:.1f} ms CPU each, aim 60: {met}",
    )


def growth(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Compare the last tenth of a long session with the first."""
    runs = [told("many.py", "long", url, str(CALLS)) for _ in range(max(1, rounds // 3))]
    tenth = max(1, CALLS // 10)
    for clock in ("wall", "cpu"):
        ratios = [
            statistics.median(run[clock][-tenth:]) / statistics.median(run[clock][:tenth]) for run in runs
        ]
        middle = statistics.median(run[clock][-1] for run in runs)
        yield f"last tenth of {CALLS:,} calls against the first, {clock}", _at_most(min(ratios), 1.1, "x")
        del middle


def _at_most(found: float, aim: float, unit: str) -> str:
    return f"{found:.2f} {unit}, aim {aim:g}: {'met' if found <= aim else 'MISSED'}"


def main() -> int:
    """Print a line for each figure as soon as it is known, or measure one thing as the command line says."""
    parts = {"at_once": at_once, "one_by_one": one_by_one, "long": long}
    if len(sys.argv) > 3:
        part, url, count = sys.argv[1:4]
        print(json.dumps(trio.run(parts[part], url, int(count))))
        return 0
    rounds = scaled(3, 1, 0)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, the best of {rounds} rounds")
    with served() as url:
        for measure in (sessions, turnover, growth):
            for name, figure in measure(url, rounds):
                print(f"{name:56} {figure}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
