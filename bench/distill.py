"""Measure the output filters: what they save, that they lose nothing, and how fast they are. Prints tables.

    python bench/distill.py [--smoke]

Saved are characters of the golden outputs below `tests/tools/distill/`; the aim is a median of 70 % over the
rules. In each of these outputs lines that matter are planted at random places, and all must be found again.
Speed is that of one strategy over a log, from the first piece to the text that is shown, the guard included;
the factor is against `str.splitlines` on the same text in the same run. Hostile outputs are measured at a
size and at twice that: what is linear takes no more than twice as long. Times are the processor's, so that a
busy machine does not count.
"""

from __future__ import annotations

import statistics
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scale import SMOKE, scaled

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
from leeward.tools.distill import Engine, RuleSet, built_in_rules
from loading import load_module

_OUTPUTS: Any = load_module(Path(__file__).parents[1] / "tests/tools/distill/outputs.py")
_MIB = 1024 * 1024
_SEEDS = range(scaled(20, 2))
_ROUNDS = scaled(7, 2)
_AIMS = {"strip_noise": 20.0, "truncate": 20.0, "dedup": 2.0}
_STRATEGIES = {
    "strip_noise": '{ kind = "strip_noise", patterns = ["^DEBUG ", "heartbeat$"] }',
    "truncate": '{ kind = "truncate", max_lines = 1000, head = 300, tail = 100 }',
    "dedup": '{ kind = "dedup", scope = "all" }',
}


def _engine(strategy: str) -> Engine:
    text = f'[[rules]]\nname = "it"\nmatch.any = true\nstrategy = {strategy}\n'
    return Engine(RuleSet().with_file(tomllib.loads(text), "yours")[0])


def _seconds(work: Callable[[], object]) -> float:
    """Return how long the quickest of a few rounds takes."""
    took = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def _run(engine: Engine, text: str) -> None:
    distillation = engine.begin(None)
    for start in range(0, len(text), 64 * 1024):
        distillation.feed(text[start : start + 64 * 1024])
    distillation.finish(0, 50_000)


def _savings() -> None:
    saved = {}
    for rule in built_in_rules().rules:
        before = after = 0
        for case in _OUTPUTS.CASES:
            if case.rule == rule:
                before += len(case.text)
                after += len(_OUTPUTS.distilled(case.command, case.text, case.exit, Engine()).text)
        saved[rule] = 1 - after / before
    print(f"{'rule':<18}{'saved':>8}")
    for rule, share in sorted(saved.items(), key=lambda item: item[1]):
        print(f"{rule:<18}{share:>8.1%}")
    print(f"{'median':<18}{statistics.median(saved.values()):>8.1%}   aim 70 %\n")


def _planted() -> None:
    planted = found = 0
    for case in _OUTPUTS.CASES:
        for seed in _SEEDS:
            text, lines = _OUTPUTS.planted(case.text, seed)
            shown = _OUTPUTS.distilled(case.command, text, case.exit, Engine(), 10**9).text.split("\n")
            planted += len(lines)
            found += sum(_OUTPUTS.is_shown(line, shown) for line in lines)
    print(f"lines planted {planted}, found again {found} ({found / planted:.2%}, aim 100 %)\n")


def _log(size: int) -> str:
    kinds = ("DEBUG", "INFO", "INFO", "INFO")
    lines, length, number = [], 0, 0
    while length < size:
        number += 1
        clock = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        line = (
            f"{kinds[number % 4]} 2026-01-02T{clock}Z worker[{number % 97}]: item {number % 13} of the batch"
            f" from 10.0.{number % 7}.{number % 250} is stored"
        )
        lines.append(line)
        length += len(line) + 1
    return "\n".join([*lines, ""])


def _speed() -> None:
    text = _log(scaled(_MIB, 64 * 1024))
    size = len(text) / 1e6
    floor = _seconds(text.splitlines)
    print(f"{'strategy':<18}{'MB/s':>8}{'aim':>6}{'x splitlines':>14}")
    for name, strategy in _STRATEGIES.items():
        engine = _engine(strategy)
        took = _seconds(lambda engine=engine: _run(engine, text))  # type: ignore[misc]
        print(f"{name:<18}{size / took:>8.1f}{_AIMS[name]:>6.0f}{took / floor:>14.1f}")
    took = _seconds(lambda: _run(Engine(), text))
    print(f"{'(rule long)':<18}{size / took:>8.1f}{'':>6}{took / floor:>14.1f}\n")


def _hostile() -> None:
    size = scaled(20, 1) * _MIB // 2
    texts = {
        "one line": lambda n: "x" * n,
        "one line of errors": lambda n: "error: x, " * (n // 10),
        "short lines": lambda n: "a\n" * (n // 2),
        "lines of one kind": lambda n: "error: a\n" * (n // 9),
        "brackets": lambda n: "[[[[((((" * (n // 9) + "\n" + "at (((((a.b:1\n" * (n // 20),
        "places": lambda n: "a.b:1: x\n" * (n // 9),
        "frames": lambda n: "error: y\n --> a.b:1:1\n  |\n" * (n // 25),
        "diffs": lambda n: "diff --git a/x b/x\n+y\n" * (n // 22),
        "look-alikes": lambda n: "[… lines 1 to 9 left out]\n" * (n // 26),
    }
    engine = Engine()
    commands = ("ruff check .", "cargo clippy", "git diff", "pytest", "journalctl")
    print(f"{'hostile output':<20}{'s':>8}{'twice it':>10}{'factor':>8}")
    for name, make in texts.items():
        once, twice = make(size // 2), make(size)
        halves = [_seconds_of(engine, command, once) for command in commands]
        wholes = [_seconds_of(engine, command, twice) for command in commands]
        print(f"{name:<20}{sum(halves):>8.2f}{sum(wholes):>10.2f}{sum(wholes) / sum(halves):>8.1f}")


def _seconds_of(engine: Engine, command: str, text: str) -> float:
    began = time.process_time()
    _OUTPUTS.distilled(command, text, 1, engine)
    return time.process_time() - began


if __name__ == "__main__":
    _savings()
    _planted()
    _speed()
    _hostile()
    print("smoke: the figures above are of small outputs" if SMOKE else "")
