"""Measure searching, reading and changing files; the search is compared with `grep -r`. Prints one JSON line.

python bench/files.py [MEGABYTES | --smoke]

A tree of source-like files is generated, both searches go through it in turn, and the best of their times are
compared. Nothing is judged here: the figures are what the tools themselves cost.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from scale import scaled

from leeward.security.call import Cleared, ToolCall, ToolExecutor
from leeward.security.judge import read_call
from leeward.security.policy import Policy
from leeward.tools.files import Files, Guard, WriteTools
from leeward.tools.search import Search
from leeward.tools.survey import Surveyor

_PATTERNS = ("needle_that_is_not_there", "[a-z]+_needle[0-9]", "(?i)needle_nowhere", "ab_[a-z]{3} .*zz")
_ROUNDS = scaled(5, 1)
_CALLS = scaled(300, 20)
_BIG = scaled(2 * 1024**3, 1024**2)


def _tree(root: Path, size: int) -> int:
    """Write about so many bytes of source-like files, and return how many files that are."""
    chosen = random.Random(7)  # noqa: S311 — the same tree every time
    letters = "abcdefghijklmnopqrstuvwxyz_"
    words = ["".join(chosen.choices(letters, k=chosen.randint(2, 10))) for _ in range(3_000)]
    lines = [" ".join(chosen.choices(words, k=chosen.randint(2, 12))) + "\n" for _ in range(20_000)]
    files = written = 0
    while written < size:
        wanted = int(min(2_000_000, chosen.lognormvariate(9, 1.3)))
        text = "".join(chosen.choices(lines, k=wanted // 40 + 1))
        file = root / f"d{files % 50}" / f"e{files // 50 % 20}" / f"f{files}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written += len(text)
        files += 1
    return files


async def _call(executor: ToolExecutor, policy: Policy, arguments: dict[str, object]) -> str:
    """Survey a call and run it, as the pipeline does with one that is allowed."""
    specs = {spec.name: spec for spec in executor.specs()}
    call = ToolCall("1", next(iter(specs)), json.dumps(arguments))
    action = await read_call(call, specs, policy, Surveyor(policy=policy))

    async def nowhere(_: str) -> None: ...

    return (await executor.execute(Cleared(action, trio.current_time() + 600, nowhere))).text


async def _seconds(run: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await run()
    return time.perf_counter() - began


async def _searched(policy: Policy) -> dict[str, dict[str, float]]:
    grep = Search(Guard(policy)).tools()[1]
    told = {}
    for pattern in _PATTERNS:
        ours, theirs = [], []
        for _ in range(_ROUNDS):
            ours.append(await _seconds(lambda: _call(grep, policy, {"pattern": pattern})))  # noqa: B023
            theirs.append(await _seconds(lambda: _grep(pattern, policy.workspace)))  # noqa: B023
        told[pattern] = {
            "seconds": round(min(ours), 3),
            "grep_seconds": round(min(theirs), 3),
            "ratio": round(min(ours) / min(theirs), 2),
        }
    return told


async def _grep(pattern: str, folder: str) -> None:
    """Run the system's grep, in the plain language of bytes, which is the fastest it has."""
    words = ["-i", "-E", pattern.removeprefix("(?i)")] if pattern.startswith("(?i)") else ["-E", pattern]
    command = ["grep", "-r", "-n", "-I", *words, folder]
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", "")}
    await trio.run_process(command, env=environment, stdout=subprocess.DEVNULL, check=False)


async def _changed(policy: Policy) -> dict[str, int]:
    """Return how many calls a second each tool answers, on a file of 20 KB."""
    guard = Guard(policy)
    read, _ = Files(guard).tools()
    write, edit, _ = WriteTools(guard).tools()
    text = "".join(f"line {number} of the file\n" for number in range(900))
    calls: dict[str, tuple[ToolExecutor, Callable[[int], dict[str, object]]]] = {
        "read": (read, lambda _: {"path": "f.txt"}),
        "write": (write, lambda number: {"path": "f.txt", "content": f"{text}{number}\n"}),
        "edit": (
            edit,
            lambda number: {
                "path": "f.txt",
                "old_string": f"\n{number + _CALLS - 1}\n" if not number else f"\n{number - 1}\n",
                "new_string": f"\n{number}\n",
            },
        ),
    }
    await _call(write, policy, {"path": "f.txt", "content": text})
    told = {}
    for name, (executor, arguments) in calls.items():
        began = time.perf_counter()
        for number in range(_CALLS):
            await _call(executor, policy, arguments(number))
        told[f"{name}s_per_second"] = round(_CALLS / (time.perf_counter() - began))
    return told


async def _far_into_a_big_file(policy: Policy) -> dict[str, float]:
    """Read at the end of a file of 2 GiB, which is never held as a whole."""
    _big_file(Path(policy.workspace, "big"))
    read, _ = Files(Guard(policy)).tools()
    seconds = await _seconds(lambda: _call(read, policy, {"path": "big", "offset": 999_999}))
    return {"gigabytes_passed_per_second": round(_BIG / 1e9 / seconds, 2)}


def _big_file(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"a line of it\n" * 1_000)
        file.truncate(_BIG)


async def _figures(size: int, root: Path) -> dict[str, object]:
    (root / "tree").mkdir()
    (root / "small").mkdir()
    files = _tree(root / "tree", size)
    searched = await _searched(Policy(str(root / "tree"), str(root)))
    small = Policy(str(root / "small"), str(root))
    changed = await _changed(small)
    return {"files": files, "search": searched, **changed, **await _far_into_a_big_file(small)}


def main() -> int:
    """Measure, and print what was measured."""
    if shutil.which("grep") is None:
        sys.stderr.write("grep is not installed, so there is nothing to compare with\n")
        return 2
    megabytes = scaled(200, 2, 0)
    with tempfile.TemporaryDirectory() as folder:
        told = trio.run(_figures, megabytes * 1_000_000, Path(os.path.realpath(folder)))
    print(json.dumps({"megabytes": megabytes, **told}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
