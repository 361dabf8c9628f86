"""Measure what it costs to pass every gate, and what the durable audit adds.

Prints the median time per call, in microseconds, of the same call: reading and judging alone; the whole
pipeline around a tool that does nothing, with an audit that keeps nothing; and the same with the real audit,
one durable commit before and one after the call.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from scale import scaled
from silent import NoAudit, Silent

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database
from leeward.memory.overflow import OverflowStore
from leeward.security.call import ToolCall
from leeward.security.kinds import Effect
from leeward.security.pipeline import Pipeline
from leeward.security.policy import CallLimits, Policy
from leeward.security.ports import Audit, Ports
from leeward.security.session import Session, TurnStarted
from leeward.tools.composite import CompositeExecutor
from leeward.tools.declare import Text, WorkspacePath, tool
from leeward.tools.survey import Surveyor

ROUNDS = scaled(15, 1)
CALLS = scaled(100, 10)


@tool(effects=Effect.READ)
async def nothing(path: WorkspacePath, note: Text) -> str:
    """Do nothing."""
    return note


def _pipeline(workspace: str, audit: Audit, store: OverflowStore) -> Pipeline:
    silent = Silent()
    ports = Ports(
        executor=CompositeExecutor([nothing]),
        surveyor=Surveyor(),
        approver=None,  # type: ignore[arg-type]  # a reading tool asks nobody
        audit=audit,
        store=store,
        clock=silent,
        observer=silent,
    )
    limits = CallLimits(per_turn=10**9, per_session=10**9, repeats=10**9)
    return Pipeline(Session("bench", Policy(workspace, workspace, calls=limits)), ports)


async def _median(step: Callable[[ToolCall], Awaitable[object]]) -> float:
    """Return the median over rounds of the mean time per call, in microseconds."""
    rounds: list[float] = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        for index in range(CALLS):
            await step(ToolCall(f"c{number}-{index}", "nothing", '{"path": "notes.txt", "note": "hello"}'))
        rounds.append((time.perf_counter() - began) / CALLS * 1e6)
    return statistics.median(rounds)


async def main() -> None:
    """Measure the three in one process and print a line each."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            AsyncioThread.open("storage") as asyncio_thread,
            Database.open(Path(folder) / "bench.db", asyncio_thread) as database,
        ):
            store = OverflowStore(database, Silent())
            bare = _pipeline(folder, NoAudit(), store)
            durable = _pipeline(folder, AuditLogger(database, Silent()), store)
            await durable.note(TurnStarted(0.0))

            async def judged(call: ToolCall) -> object:
                return bare.judge.rule(await bare.judge.read(call))

            figures = {
                "read and judge, every gate": await _median(judged),
                "whole call, without an audit": await _median(bare.run),
                "whole call, durable audit": await _median(durable.run),
            }
    for name, micros in figures.items():
        print(f"{name:32} {micros:10.1f} µs per call")


if __name__ == "__main__":
    trio.run(main)
