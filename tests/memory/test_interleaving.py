"""Several writers on one audit, in any order, with failures: one chain, every record once."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.memory.audit import AuditLogger, Head
from leeward.memory.database import AsyncioThread, Database
from leeward.security.call import Status
from leeward.security.ports import RecordError
from leeward.security.session import Decided, Event, Finished, TurnStarted

SESSIONS = ("s", "t", "ü \ud800")
WRITER, SESSION = st.integers(0, 1), st.sampled_from(SESSIONS)
STEP = st.one_of(
    st.tuples(st.just("append"), WRITER, SESSION, st.integers(1, 4)),
    st.tuples(st.just("together"), st.lists(st.tuples(WRITER, st.integers(1, 3)), min_size=2, max_size=6)),
    st.tuples(st.sampled_from(["cancelled", "read-only", "locked", "again", "unsayable"]), WRITER, SESSION),
    st.tuples(st.sampled_from(["head", "reopen", "end"]), WRITER, SESSION),
    st.tuples(st.just("prune"), WRITER, st.integers(0, 9)),
)


class Clock:
    def now(self) -> float:
        return 1_000_000.0


@dataclass
class Writers:
    """Two connections to one file, each with its logger, and what must stand in the file for each session."""

    folder: Path
    asyncio_thread: AsyncioThread
    stack: list[AsyncExitStack] = field(default_factory=list)
    databases: list[Database] = field(default_factory=list)
    audits: list[AuditLogger] = field(default_factory=list)
    said: dict[str, list[Event]] = field(default_factory=lambda: {session: [] for session in SESSIONS})
    heads: list[Head] = field(default_factory=list)
    number: float = 0.0

    async def open(self, which: int) -> None:
        stack = AsyncExitStack()
        database = await stack.enter_async_context(
            Database.open(self.folder / "store.db", self.asyncio_thread, busy_seconds=0.05)
        )
        for known, new in (
            (self.stack, stack),
            (self.databases, database),
            (self.audits, AuditLogger(database, Clock())),
        ):
            known[which : which + 1] = [new]

    def events(self, count: int) -> list[Event]:
        found: list[Event] = []
        for _ in range(count):
            self.number += 1
            call = f"c{self.number:g}"
            found.append(
                (
                    TurnStarted(self.number),
                    Decided(self.number, call, "shell", "d", True, arguments='{"a":"é"}'),
                    Finished(self.number, call, "shell", "d", Status.OK),
                )[int(self.number) % 3]
            )
        return found

    async def append(self, which: int, session: str, count: int) -> None:
        events = self.events(count)
        await self.audits[which].append(session, *events)
        self.said[session] += events

    async def together(self, tasks) -> None:
        """Each writes to a session of its own, so that the order within each is known."""
        async with trio.open_nursery() as nursery:
            for place, (which, count) in enumerate(tasks):
                session = f"together{place}"
                self.said.setdefault(session, [])
                nursery.start_soon(self.append, which, session, count)

    async def cancelled(self, which: int, session: str) -> None:
        """Whoever gave up and does not know makes sure by asking for the same again."""
        events = self.events(2)
        with trio.CancelScope() as scope:
            scope.cancel()
            await self.audits[which].append(session, *events)
        await self.again_with(which, session, events)

    async def again(self, which: int, session: str) -> None:
        events = self.events(2)
        await self.audits[which].append(session, events[0])
        await self.again_with(which, session, events[1:])
        self.said[session].insert(-1, events[0])

    async def again_with(self, which: int, session: str, events) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(lambda: self.audits[which].append(session, *events))
        self.said[session] += events

    async def refused(self, which: int, session: str) -> list[Event]:
        events = self.events(2)
        with pytest.raises(RecordError):
            await self.audits[which].append(session, *events)
        return events

    async def read_only(self, which: int, session: str) -> None:
        await self.databases[which].read("PRAGMA query_only = ON")
        events = await self.refused(which, session)
        await self.databases[which].read("PRAGMA query_only = OFF")
        await self.again_with(which, session, events)

    async def locked(self, which: int, session: str) -> None:
        with closing(sqlite3.connect(self.folder / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            events = await self.refused(which, session)
            other.execute("ROLLBACK")
        await self.again_with(which, session, events)

    async def unsayable(self, which: int, session: str) -> None:
        """What JSON cannot say spoils nothing that is written at the same time."""
        with pytest.raises(RecordError, match="cannot be written as JSON"):
            await self.audits[which].append(session, TurnStarted(float("inf")))
        await self.append(which, session, 1)

    async def head(self, which: int, _: str) -> None:
        self.heads.append(await self.audits[which].sign_head())

    async def end(self, which: int, session: str) -> None:
        await self.audits[which].end_session(session)
        self.heads.append((await self.audits[which].heads())[-1])

    async def reopen(self, which: int, _: str) -> None:
        await self.stack[which].aclose()
        await self.open(which)

    async def prune(self, which: int, number: int) -> None:
        if not self.heads:
            return
        head = self.heads[number % len(self.heads)]
        before = {session: await self.audits[which].events_of(session) for session in self.said}
        ((first,),) = await self.databases[which].read("SELECT min(seq) FROM audit")
        assert await self.audits[which].prune(head) == max(0, head.count - first + 1)
        for session, events in before.items():
            left = await self.audits[1 - which].events_of(session)
            assert left == events[len(events) - len(left) :], "what is cut is the beginning, of every session"
            self.said[session] = left
        self.heads = [one for one in self.heads if one.count >= head.count]

    async def check(self) -> None:
        for which, audit in enumerate(self.audits):
            for session, events in self.said.items():
                assert await audit.events_of(session) == events, (which, session)
        found = await self.audits[0].verify()
        assert found.problem is None, found.problem
        # Every head that was handed out still is one of this chain, whoever asks.
        for place, head in enumerate(self.heads):
            assert (await self.audits[place % 2].verify(head)).problem is None
        rows = await self.databases[0].read(
            "SELECT min(seq), max(seq), count(*), count(DISTINCT id) FROM audit"
        )
        first, last, count, names = rows[0]
        assert not count or (last - first + 1 == count == names)


async def scenario(steps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncioThread.open("test") as asyncio_thread:
            writers = Writers(Path(folder), asyncio_thread)
            for which in range(2):
                await writers.open(which)
            try:
                for what, *arguments in steps:
                    await getattr(writers, what.replace("-", "_"))(*arguments)
                    await writers.check()
            finally:
                for stack in writers.stack:
                    await stack.aclose()


@settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(STEP, max_size=10))
@example(
    [
        ("together", [(0, 3), (1, 3), (0, 2), (1, 1)]),
        ("head", 0, "s"),
        ("append", 1, "s", 2),
        ("prune", 1, 0),
        ("append", 0, "s", 1),
    ]
)
@example(
    [
        ("locked", 0, "s"),
        ("read-only", 1, "s"),
        ("cancelled", 0, "t"),
        ("end", 1, "s"),
        ("reopen", 0, "s"),
        ("again", 0, "t"),
    ]
)
@example(
    [
        ("append", 0, "s", 4),
        ("head", 1, "s"),
        ("head", 0, "s"),
        ("prune", 0, 1),
        ("prune", 0, 0),
        ("head", 1, "s"),
        ("prune", 1, 1),
    ]
)
def test_whoever_writes_when_there_is_one_chain_with_all_of_it(steps):  # fmt: skip
    trio.run(scenario, steps)
