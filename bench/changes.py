"""Measure what it costs to find what a trial run changed, and to keep it.

    python bench/changes.py [FILES [CHANGED] | --smoke]

Figures only; nothing is asserted. The upper is a folder that looks like one. Of ten files in it six hold
something else than in the workspace, two are new, one is removed, and one was only opened.
"""

from __future__ import annotations

import os
import stat
import statistics
import tempfile
import time
from pathlib import Path

import trio
from scale import scaled

from leeward.memory.checkpoints import CheckpointStore
from leeward.memory.database import AsyncioThread, Database
from leeward.runtime.clock import SystemClock
from leeward.security.policy import Policy
from leeward.tools.files import DirHandle, Guard
from leeward.tools.sandbox import Changes, Keeping, changes_of

_BUDGET = 64 * 1024 * 1024
_SIZE = 4_000
_NEVER = 1 << 62


def _path(number: int) -> str:
    return f"d{number % 10}/f{number}.txt"


def _workspace(root: Path, files: int) -> None:
    for number in range(files):
        path = root / _path(number)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(os.urandom(_SIZE))


def _upper(upper: Path, root: Path, changed: int) -> None:
    """Change files, of ten: six, two that are new, one that is removed, one that was only opened."""
    upper.chmod(stat.S_IMODE(root.stat().st_mode))
    for number in range(changed):
        path = upper / _path(number)
        path.parent.mkdir(exist_ok=True, parents=True)
        match number % 10:
            case 0:
                os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
            case 1 | 2:
                path.with_suffix(".new").write_bytes(os.urandom(_SIZE))
            case 3:
                path.write_bytes((root / _path(number)).read_bytes())
            case _:
                path.write_bytes(os.urandom(_SIZE))


def _found(root: Path, upper: Path, repeats: int) -> Changes:
    handles = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (upper, root)]
    try:
        taken = []
        for _ in range(repeats):
            began = time.perf_counter()
            found = changes_of(handles[0], DirHandle(handles[1]), _NEVER)
            taken.append((time.perf_counter() - began) * 1000)
        entries = sum(1 for _ in upper.rglob("*"))
        what = f"{len(found.changes)} changes found among {entries} entries of an upper"
        print(f"{what:<56} {statistics.median(taken):9.2f} ms")
        return found
    finally:
        for handle in handles:
            os.close(handle)


async def _kept(folder: Path, root: Path, upper: Path, changes: Changes) -> None:
    async with AsyncioThread.open("bench") as thread, Database.open(folder / "store.db", thread) as database:
        store = CheckpointStore(database, SystemClock(), 8 * _BUDGET)
        keeping = Keeping(store, Guard(Policy(str(root), str(folder))), _BUDGET, folder / "journals")
        handles = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (upper, root)]
        began = time.perf_counter()
        await keeping.keep(handles[0], DirHandle(handles[1]), changes, session="s", call="c", tool="shell")
        print(f"{f'{len(changes.changes)} changes kept':<56} {(time.perf_counter() - began) * 1000:9.2f} ms")
        for handle in handles:
            os.close(handle)


def _main(folder: Path, files: int, many: int) -> None:
    root = folder / "ws"
    root.mkdir()
    _workspace(root, files)
    print(f"a workspace of {files} files of {_SIZE} bytes")
    for changed, repeats in ((11, 50), (many, 3)):
        upper = folder / f"upper{changed}"
        upper.mkdir()
        _upper(upper, root, changed)
        changes = _found(root, upper, repeats)
        trio.run(_kept, folder, root, upper, changes)
        # What is removed has to be there for the next.
        _workspace(root, files)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        _main(Path(made).resolve(), scaled(5_000, 100, 0), scaled(1_000, 50, 1))
