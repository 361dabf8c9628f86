"""Measure what a checkpoint costs: the first look at a workspace, the usual one, and an undo.

    python bench/checkpoints.py [FILES [BYTES] | --smoke]

Figures only; nothing is asserted. The workspace is made in a temporary folder, BYTES is the size of a file.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from scale import scaled

from leeward.memory.checkpoints import CheckpointStore
from leeward.memory.database import AsyncioThread, Database
from leeward.runtime.clock import SystemClock
from leeward.security.action import ActionBuilder
from leeward.security.call import Action, ToolCall
from leeward.security.kinds import Effect
from leeward.security.outcome import Output
from leeward.security.policy import Policy
from leeward.tools.checkpoints import Checkpoints, SnapshotLimits
from leeward.tools.declare import schema_tool
from leeward.tools.files import Guard

_CAP = 64 * 1024 * 1024


def _tree(root: Path, files: int, size: int) -> None:
    for number in range(files):
        folder = root / f"d{number % 100}" / f"e{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        content = os.urandom(size // 4) + b"some text that compresses\n" * (size // 35)
        (folder / f"f{number}.txt").write_bytes(content)


async def _nothing(*_: object) -> None:
    await trio.lowlevel.checkpoint()


def _command(policy: Policy) -> Action:
    tool = schema_tool("shell", "runs", {"type": "object", "properties": {}}, _nothing, effects=Effect.ALL)
    return ActionBuilder.of(ToolCall("1", "shell", json.dumps({})), {"shell": tool.specs()[0]}).read(
        policy, {}
    )


@asynccontextmanager
async def _timed(what: str) -> AsyncIterator[None]:
    began = time.perf_counter()
    yield
    print(f"{what:<52} {(time.perf_counter() - began) * 1000:9.1f} ms")


async def _main(folder: Path, files: int, size: int) -> None:
    root = folder / "ws"
    _tree(root, files, size)
    policy = Policy(str(root), str(folder))
    action = _command(policy)
    print(f"{files} files of {size} bytes")
    async with (
        AsyncioThread.open("bench") as asyncio_thread,
        Database.open(folder / "store.db", asyncio_thread) as database,
    ):
        store = CheckpointStore(database, SystemClock(), 8 * _CAP)
        points = Checkpoints(store, Guard(policy), SnapshotLimits(_CAP), lambda: "s", print)
        async with _timed("what a question says, before the first command"):
            await points.uncovered(action)
        async with _timed("the first command: all is read and kept"), points.around(action) as came:
            came(Output(""))
        await trio.sleep(0.1)
        async with _timed("the second, once more: what was too young"), points.around(action) as came:
            came(Output(""))
        for _ in range(3):
            async with _timed("a command that changes nothing, both looks"), points.around(action) as came:
                came(Output(""))
        async with _timed("a command that changes 50 files, both looks"), points.around(action) as came:
            for path in list(root.rglob("*.txt"))[:50]:
                path.write_text("changed")
            came(Output(""))
        async with _timed("undo of 50 files"):
            await points.turn(undo=True, force=False, record=_nothing)
    print(f"the database: {(folder / 'store.db').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        trio.run(_main, Path(made).resolve(), scaled(5_000, 100, 0), scaled(8_000, 1_000, 1))
