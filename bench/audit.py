"""Measure what the audit costs: absolute figures of one run, on this machine's disk.

    python bench/audit.py [RECORDS | --smoke]

Every commit is on the disk before it counts, in both: one caller is compared with `sqlite3` alone, in the
same thread, writing to the same table with the same settings.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import trio
from scale import scaled

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database
from leeward.security.session import Decided

_INSERT = (
    "INSERT INTO audit (at, session, kind, call, tool, body, id, prev, hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, zeroblob(32), zeroblob(32))"
)
# What a decision about a command looks like: a few hundred bytes of arguments and of words.
_DECIDED = Decided(
    at=0.0,
    call="call_0123456789abcdef",
    tool="shell",
    digest="d" * 64,
    allowed=True,
    arguments='{"command":"git log --oneline -5 -- src/leeward/security","timeout":30}',
    approver="rule 3",
    judged=1.0,
    asker="model",
    model="openai:gpt-x",
    trust="trusted",
    trust_from="built in",
)


class Clock:
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


def alone(folder: Path, body: str, records: int) -> float:
    """Return seconds per insert and commit of `sqlite3` in this thread."""
    with closing(sqlite3.connect(folder / "alone.db", isolation_level=None)) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        times = []
        for number in range(records):
            began = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                _INSERT, (time.time(), "s", "decision", f"c{number}", "shell", body, f"id{number}")
            )
            connection.execute("COMMIT")
            times.append(time.perf_counter() - began)
    return _typical(times)


async def by_callers(audit: AuditLogger, callers: int, records: int) -> tuple[float, float]:
    """Return seconds per append as a caller waits for it, and appends per second of all together."""
    times: list[float] = []
    events = [replace(_DECIDED, at=time.time(), call=f"c{callers}_{number}") for number in range(records)]

    async def caller(first: int) -> None:
        for event in events[first::callers]:
            began = time.perf_counter()
            await audit.append("s", event)
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for first in range(callers):
            nursery.start_soon(caller, first)
    return _typical(times), records / (time.perf_counter() - began)


async def measure(folder: Path, records: int) -> None:
    """Append, verify, and print what it took."""
    async with AsyncioThread.open("storage") as asyncio_thread:
        path = folder / "alone.db"
        async with Database.open(path, asyncio_thread) as database:
            await AuditLogger(database, Clock()).append("s", _DECIDED)
            ((body,),) = await database.read("SELECT body FROM audit")
        path.with_name("audit.db").write_bytes(path.read_bytes())
        own = alone(folder, body, records)
        print(f"one insert and commit, sqlite3 alone      {own * 1e6:8.0f} µs")
        async with Database.open(folder / "audit.db", asyncio_thread) as database:
            audit = AuditLogger(database, Clock())
            await audit.sign_head()
            one, rate = await by_callers(audit, 1, records)
            print(
                f"one append, one caller                    {one * 1e6:8.0f} µs   {one / own:.1f} x sqlite3"
            )
            print(f"appends per second, one caller            {rate:8.0f}")
            for callers in (2, 8, 32):
                latency, more = await by_callers(audit, callers, max(records, scaled(200, 4) * callers))
                print(
                    f"appends per second, {callers:2} callers            {more:8.0f}"
                    f"   {more / rate:.1f} x one; each waits {latency * 1e6:.0f} µs"
                )
            await verified(audit, database)


async def verified(audit: AuditLogger, database: Database) -> None:
    """Verify all that was written, and print how long that takes and how large it is."""
    began = time.perf_counter()
    found = await audit.verify(await audit.sign_head())
    seconds = time.perf_counter() - began
    assert found.problem is None, found.problem
    await database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    ((bodies,),) = await database.read("SELECT sum(length(body)) FROM audit")
    print(f"verified per second                       {found.records / seconds:8.0f}   of {found.records}")
    size = (await trio.Path(database.path).stat()).st_size
    print(
        f"bytes on disk per record                  {size / found.records:8.0f}"
        f"   {bodies / found.records:.0f} of them its body"
    )


def _typical(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]


def main() -> int:
    """Measure, in a folder of its own."""
    records = scaled(2_000, 40, 0)
    with tempfile.TemporaryDirectory() as name:
        trio.run(measure, Path(name), records)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
