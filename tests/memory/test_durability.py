"""Several processes on one file, killed at any moment: every acknowledged write is there."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
import trio

from leeward.memory.audit import AuditLogger, Verified
from leeward.memory.audit.signer import SIGN_EVERY
from leeward.memory.database import GENESIS, AsyncioThread, Database, record_hash

_APPENDER = """
import sys, trio
from leeward.memory.audit import AuditLogger
from leeward.memory.database import Database, AsyncioThread
from leeward.security.session import TurnStarted

class Clock:
    def now(self):
        return 0.0

async def main(path, session, callers, count):
    async with AsyncioThread.open("storage") as thread, Database.open(path, thread) as database:
        audit = AuditLogger(database, Clock())

        async def caller(first):
            for number in range(first, count, callers):
                await audit.append(session, TurnStarted(float(number)))
                print(number, flush=True)

        print("open", flush=True)
        async with trio.open_nursery() as nursery:
            for first in range(callers):
                nursery.start_soon(caller, first)
        {ending}

trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""


@contextmanager
def appender(
    path: Path, session: str, callers: int, count: int, ending: str = ""
) -> Iterator[subprocess.Popen]:
    script = _APPENDER.replace("{ending}", ending)
    argv = [sys.executable, "-W", "error", "-c", script, path, session, str(callers), str(count)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def numbers(path: Path, session: str) -> list[float]:
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = other.execute(
            "SELECT at FROM audit WHERE session = ? AND kind = 'turn' ORDER BY seq", (session,)
        )
        return [at for (at,) in rows]


def test_two_processes_append_to_one_new_file_at_once(tmp_path: Path) -> None:
    path, count = tmp_path / "store.db", 100
    with ExitStack() as stack:
        children = {name: stack.enter_context(appender(path, name, 4, count)) for name in ("one", "two")}
        for child in children.values():
            _, err = child.communicate(timeout=60)
            assert (child.returncode, err) == (0, "")
    for name in children:
        found = numbers(path, name)
        assert sorted(found) == [float(number) for number in range(count)]
        for caller in range(4):
            own = [number for number in found if number % 4 == caller]
            assert own == sorted(own), "the records of one caller stand in its order"
    assert [left.name for left in tmp_path.iterdir()] == ["store.db"]


def test_eight_processes_make_one_chain(tmp_path: Path) -> None:
    """All at once, each with several callers: every record is there, and chained, and signed."""
    path, processes, count = tmp_path / "store.db", 8, 500
    with ExitStack() as stack:
        children = [stack.enter_context(appender(path, f"s{name}", 4, count)) for name in range(processes)]
        for child in children:
            _, err = child.communicate(timeout=120)
            assert (child.returncode, err) == (0, "")
    for name in range(processes):
        assert sorted(numbers(path, f"s{name}")) == [float(number) for number in range(count)]
    with closing(sqlite3.connect(path)) as other:
        rows = other.execute(
            "SELECT seq, prev, hash, at, session, kind, call, tool, body, id FROM audit ORDER BY seq"
        ).fetchall()
    signed = processes * (count // SIGN_EVERY)
    assert [row[0] for row in rows] == list(range(1, processes * count + signed + 1))
    tip = GENESIS
    for _, prev, own, *columns in rows:
        assert prev == tip
        tip = record_hash(prev, *columns)
        assert own == tip

    async def verified() -> Verified:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            return await AuditLogger(database, _Clock()).verify()

    found = trio.run(verified)
    assert (found.records, found.heads, found.problem) == (len(rows), signed, None)


class _Clock:
    def now(self) -> float:
        return 0.0


@pytest.mark.parametrize("callers", [1, 8])
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path, callers: int) -> None:
    path, chance = tmp_path / "store.db", random.Random(callers)
    for attempt in range(3):
        session = f"s{attempt}"
        with appender(path, session, callers, 1_000_000) as child:
            assert child.stdout is not None
            heard = [child.stdout.readline() for _ in range(chance.randrange(2, 120))]
            child.kill()
            heard += child.stdout.readlines()
        assert child.returncode == -signal.SIGKILL
        acknowledged = {float(line) for line in heard if line.endswith("\n") and line != "open\n"}
        found = numbers(path, session)
        assert acknowledged <= set(found)
        assert len(found) == len(set(found)) <= len(acknowledged) + callers


async def test_the_file_is_usable_after_a_kill(tmp_path: Path, asyncio_thread: AsyncioThread, clock) -> None:
    path = tmp_path / "store.db"
    with appender(path, "killed", 8, 1_000_000) as child:
        assert child.stdout is not None
        [child.stdout.readline() for _ in range(20)]
        child.kill()
    async with Database.open(path, asyncio_thread) as database:
        events = await AuditLogger(database, clock).events_of("killed")
        assert len(events) >= 19
        assert await database.read("PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise SystemExit('gone')", "gone"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGINT); await trio.sleep_forever()",
            "KeyboardInterrupt",
        ),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_process_whose_body_fails_ends_and_has_written_everything(
    tmp_path: Path, ending: str, error: str
) -> None:
    path = tmp_path / "store.db"
    with appender(path, "s", 2, 6, ending) as child:
        _, err = child.communicate(timeout=60)
    assert err.strip().endswith(error)
    assert sorted(numbers(path, "s")) == [0, 1, 2, 3, 4, 5]
    assert [left.name for left in tmp_path.iterdir()] == ["store.db"], "the file was closed properly"
