"""Measure how many lines a second `leeward check --batch` answers. Prints one JSON line.

python bench/batch.py [LINES | --smoke]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from scale import scaled

_CALLS = (
    {"tool": "read", "args": {"path": "src/main.py"}},
    {
        "tool": "fetch",
        "args": {"url": "https://docs.example.com/guide"},
        "said": "see https://docs.example.com/",
    },
    {"tool": "shell", "args": {"command": "git status"}},
    {"tool": "read_overflow", "args": {"id": "../etc/passwd"}},
    {"tool": "write", "args": {"path": "notes.txt", "content": "a few words"}, "seen": ["web"]},
    {"tool": "grep", "args": {"pattern": "TODO", "path": "."}},
)


def _lines(count: int) -> Iterator[str]:
    return (json.dumps(call) for call in islice(cycle(_CALLS), count))


def main() -> int:
    """Time a batch, and the start of the process on its own, and print the difference."""
    count = scaled(20_000, 100, 0)
    command = [str(Path(sys.executable).with_name("leeward")), "check", "--batch"]
    with tempfile.TemporaryDirectory() as folder:
        calls, nothing = Path(folder, "calls.jsonl"), Path(folder, "nothing.jsonl")
        calls.write_text("".join(f"{line}\n" for line in _lines(count)), encoding="utf-8")
        nothing.write_text("", encoding="utf-8")
        seconds = {}
        for file in (nothing, calls):
            began = time.perf_counter()
            done = subprocess.run([*command, str(file)], cwd=folder, capture_output=True, check=True)
            seconds[file.stem] = time.perf_counter() - began
    answered = done.stdout.count(b"\n")
    rate = answered / (seconds["calls"] - seconds["nothing"])
    told = {"lines": answered, "start_seconds": round(seconds["nothing"], 3), "lines_per_second": round(rate)}
    print(json.dumps(told))
    return 0 if answered == count else 1


if __name__ == "__main__":
    raise SystemExit(main())
