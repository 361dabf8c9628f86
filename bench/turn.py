"""Measure what a turn costs with everything on, against a loop with nothing around it. Prints a table.

    python bench/turn.py [ROUNDS | --smoke]

Starts the server of `model_server.py` in a process of its own and gives the same work to the floors in
`floor.py` and to Leeward, each in a fresh process and in turns, so that both meet the same machine. The
figures are the best of the rounds, because a disturbance can only slow a round down; compare ratios, not
milliseconds.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from scale import scaled

HERE = Path(__file__).parent
TOKENS = scaled(20_000, 200)
STEPS = scaled(400, 12)
Told = dict[str, Any]


@contextmanager
def served() -> Iterator[str]:
    """Run the model server and return its base URL."""
    with subprocess.Popen(
        [sys.executable, HERE / "model_server.py"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def told(script: str, *words: str) -> Told:
    """Run one of the scripts beside this one, and return what it printed."""
    done = subprocess.run(
        [sys.executable, HERE / script, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(words)}: {done.stderr}")
    found: Told = json.loads(done.stdout)
    return found


def floor(url: str, transport: str, model: str, count: int = 1) -> Told:
    """Measure a floor."""
    return told("floor.py", transport, url, model, str(count))


def loaded(url: str, model: str, count: int = 1, way: str = "") -> Told:
    """Measure Leeward."""
    return told("loaded.py", url, model, str(count), way)


def per_step(found: Told, clock: int, part: slice = slice(None)) -> float:
    """Return the median milliseconds between two steps; clock 0 is the process's CPU, 1 the wall."""
    marks = [mark[clock] for mark in found["marks"]]
    between = [(after - before) * 1e3 for before, after in pairwise(marks)]
    return float(statistics.median(between[part]))


def one_shot(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Time an answer from the start of the process to its exit, and the CPU it takes."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        config = home / ".config/leeward/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[[llm.providers]]\nname = "bench"\nbase_url = "{url}"\n', encoding="utf-8")
        (home / "work").mkdir()
        leeward = [
            str(Path(sys.executable).with_name("leeward")),
            "-p",
            "go",
            "--model",
            "bench:answer",
            "--quiet",
        ]
        commands = {
            "floor": [sys.executable, str(HERE / "floor.py"), "httpx", url, "answer"],
            "leeward": leeward,
        }
        found: dict[str, list[tuple[float, float]]] = {"floor": [], "leeward": []}
        for _ in range(scaled(3 * rounds + 1, 2)):
            for which, command in commands.items():
                found[which].append(_ran(command, home))
    for clock, word in ((1, "wall"), (0, "CPU")):
        base, ours = (min(one[clock] for one in found[which][1:]) for which in commands)
        yield f"one-shot answer, start to exit, {word}", ratio(ours * 1e3, base * 1e3, "ms", 1.8)


def commands(_: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Time two commands that need no model against an interpreter that does nothing."""
    leeward = str(Path(sys.executable).with_name("leeward"))
    nothing = [str(Path(sys.executable).resolve()), "-c", "pass"]
    asked = {"--version": 2.5, "check read {}": 8.0}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "work").mkdir()
        found: dict[str, list[float]] = {}
        for _round in range(scaled(5 * rounds, 2)):
            found.setdefault("", []).append(_ran(nothing, home)[1])
            for words in asked:
                found.setdefault(words, []).append(_ran([leeward, *words.split()], home, check=False)[1])
    base = min(found[""])
    for words, aim in asked.items():
        yield (
            f"leeward {words}, wall, against python -c pass",
            ratio(min(found[words]) * 1e3, base * 1e3, "ms", aim),
        )


def shell(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Compare calls of `shell` with the same line in the same sandbox."""
    runs = [loaded(url, "answer", scaled(40, 2), "shell") for _ in range(rounds)]
    ours, base = (min(statistics.median(run[way]) for run in runs) * 1e3 for way in ("through", "alone"))
    allowed = f"{base:.1f} ms of the line itself ({runs[0]['level']}) + 6"
    yield "shell step, wall", f"{ours:.1f} ms against {allowed}: {_met(ours <= base + 6)}"


def _ran(command: list[str], home: Path, *, check: bool = True) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    around = {"HOME": str(home), "PATH": os.environ["PATH"]}
    subprocess.run(
        command, cwd=home / "work", env=around, stdin=subprocess.DEVNULL, capture_output=True, check=check
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def steps(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Measure 50 calls of a function that does nothing, one after the other."""
    model = "steps-50:nothing"
    runs = [(floor(url, "httpx", model), loaded(url, model)) for _ in range(rounds)]
    commit = min(ours["commit"] for _, ours in runs) * 1e3
    base, ours = (min(per_step(run[side], 1) for run in runs) for side in (0, 1))
    allowed = f"2 x {base:.2f} + a commit of {commit:.2f} = {2 * base + commit:.2f} ms"
    yield "tool-call step, wall", f"{ours:.2f} ms against {allowed}: {_met(ours <= 2 * base + commit)}"
    base, ours = (min(per_step(run[side], 0) for run in runs) for side in (0, 1))
    yield "tool-call step, CPU (that of its commits, too)", ratio(ours, base, "ms", 2)
    peak = [statistics.median(run[side]["peak_kib"] for run in runs) / 1024 for side in (0, 1)]
    yield "peak memory of 50 steps", ratio(peak[1], peak[0], "MiB", 2)


def stream(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Measure the CPU of a long answer, per 1,000 tokens."""
    model = f"stream-{TOKENS}"
    ways: dict[str, tuple[Callable[[], Told], float]] = {
        "headless": (lambda: loaded(url, model, 1, "headless"), 1.3),
        "rendered": (lambda: loaded(url, model, 1, "rendered"), 2.0),
    }
    runs: dict[str, list[float]] = {}
    for _ in range(rounds):
        runs.setdefault("floor", []).append(_per_thousand(floor(url, "httpx", model)))
        for way, (run, _aim) in ways.items():
            runs.setdefault(way, []).append(_per_thousand(run()))
    base = min(runs["floor"])
    for way, (_run, aim) in ways.items():
        yield f"CPU per 1,000 of {TOKENS:,} tokens, {way}", ratio(min(runs[way]), base, "ms", aim)


def _per_thousand(found: Told) -> float:
    assert found["text"] >= TOKENS * len(" token")
    return float(found["cpu"]) / (TOKENS / 1000) * 1e3


def growth(url: str, rounds: int) -> Iterator[tuple[str, str]]:
    """Compare the last quarter of a long turn with the first."""
    for clock, word in ((1, "wall"), (0, "CPU")):
        ratios: list[float] = []
        for _ in range(rounds):
            found = loaded(url, f"steps-{STEPS}:nothing")
            last, first = slice(-STEPS // 4, None), slice(STEPS // 4)
            ratios.append(per_step(found, clock, last) / per_step(found, clock, first))
        middle = statistics.median(ratios)
        yield (
            f"last quarter of {STEPS} steps against the first, {word}",
            f"{middle:.2f} x: {_met(middle <= 1.1)}",
        )


def ratio(ours: float, base: float, unit: str, aim: float) -> str:
    """Put a figure, its floor, their ratio and its aim into words."""
    return (
        f"{ours:.2f} {unit} against {base:.2f}: {ours / base:.2f} x, aim {aim:g}: {_met(ours <= aim * base)}"
    )


def _met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def main() -> int:
    """Measure everything and print a line for each figure as soon as it is known."""
    rounds = scaled(3, 1, 0)
    load, version = os.getloadavg()[0], sys.version.split()[0]
    print(f"{os.cpu_count()} CPUs, load {load:.1f}, Python {version}, the best of {rounds} rounds")
    with served() as url:
        for part in (one_shot, commands, steps, shell, stream, growth):
            for name, figure in part(url, rounds):
                print(f"{name:52} {figure}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
