"""An acknowledged write is on disk, a failed one is an error, and later writes work."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from leeward.memory.database import AsyncioThread, Database, RecordRow, schema
from leeward.security.ports import RecordError

_INSERT = "INSERT INTO conversation (id, started, workspace) VALUES (?, 1.0, '/w')"
_ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


async def add(database: Database, *names: object) -> None:
    await database.write([(_INSERT, (name,)) for name in names])


async def names(database: Database) -> list[str]:
    return [name for (name,) in await database.read("SELECT id FROM conversation ORDER BY rowid")]


def on_disk(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as other:
        return [name for (name,) in other.execute("SELECT id FROM conversation ORDER BY rowid")]


@contextmanager
def held(database: Database) -> Iterator[None]:
    """Stop the thread of the connection, so that everything done in the block queues up."""
    gate = threading.Event()
    database._writer.connection.start(lambda _: gate.wait())
    try:
        yield
    finally:
        gate.set()


@asynccontextmanager
async def commits(database: Database, asyncio_thread: AsyncioThread) -> AsyncIterator[list[str]]:
    """Gather the transactions that are begun in the block."""
    log: list[str] = []

    def note(sql: str) -> None:
        if sql.startswith("BEGIN"):
            log.append(sql)

    connection = database._writer.connection
    await asyncio_thread.run(connection.set_trace_callback, note)
    yield log
    await asyncio_thread.run(connection.set_trace_callback, None)


@pytest.fixture
async def locker(database: Database) -> AsyncIterator[sqlite3.Connection]:
    """Another process, as far as SQLite can tell."""
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        yield other


async def test_only_the_owner_may_read(
    database: Database, asyncio_thread: AsyncioThread, tmp_path: Path
) -> None:
    await add(database, "a")
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["store.db", "store.db-shm", "store.db-wal"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    for path in files:
        path.chmod(0o644)
    async with Database.open(tmp_path / "store.db", asyncio_thread):
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    async with Database.open(tmp_path / "new" / "folder" / "store.db", asyncio_thread):
        assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700


async def test_opening_a_file_that_is_there_writes_nothing_and_waits_for_nobody(
    database: Database, locker: sqlite3.Connection, asyncio_thread: AsyncioThread
) -> None:
    """Whoever only looks can, while another process keeps the file locked; a new file gives pages back in
    parts.
    """
    await add(database, "a")
    assert await database.read("PRAGMA auto_vacuum") == [(2,)]
    locker.execute("BEGIN IMMEDIATE")
    log = database.path.with_name("store.db-wal")
    before = database.path.read_bytes(), log.read_bytes()
    async with Database.open(database.path, asyncio_thread, busy_seconds=0.1) as other:
        assert await names(other) == ["a"]
    assert before == (database.path.read_bytes(), log.read_bytes())


@pytest.mark.parametrize(("is_own", "mode"), [(True, 0o700), (False, 0o755)])
async def test_the_folder_of_our_own_data_is_closed_and_no_other(
    asyncio_thread: AsyncioThread, tmp_path: Path, is_own: bool, mode: int
) -> None:
    """A database may be named anywhere; only where the key lies the folder is Leeward's."""
    folder = tmp_path / "leeward"
    folder.mkdir()
    folder.chmod(0o755)
    if is_own:
        (folder / "audit.key").touch()
    async with Database.open(folder / "store.db", asyncio_thread):
        assert folder.stat().st_mode & 0o777 == mode


async def test_its_durability_was_verified(database: Database) -> None:
    for pragma, value in (
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("busy_timeout", 100),
        ("trusted_schema", 0),
        ("application_id", schema.APPLICATION_ID),
        ("user_version", len(schema.MIGRATIONS)),
    ):
        assert await database.read(f"PRAGMA {pragma}") == [(value,)]


async def test_a_connection_that_is_not_durable_is_not_used(
    asyncio_thread: AsyncioThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leeward.memory.database.connection._PRAGMAS", ("PRAGMA synchronous = OFF",))
    with pytest.raises(RecordError, match="settings for durability do not hold"):
        async with Database.open(tmp_path / "lax.db", asyncio_thread):
            raise AssertionError


async def test_it_is_on_the_disk_when_write_returns(database: Database) -> None:
    await add(database, "a", "b")
    assert on_disk(database.path) == ["a", "b"]
    assert await names(database) == ["a", "b"]


async def test_writes_stand_in_the_order_of_the_calls_and_share_commits(
    database: Database, asyncio_thread: AsyncioThread
) -> None:
    expected = [f"n{number}" for number in range(50)]
    async with commits(database, asyncio_thread) as begun, trio.open_nursery() as nursery:
        with held(database):
            for name in expected:
                nursery.start_soon(add, database, name)
                await trio.testing.wait_all_tasks_blocked()
    assert on_disk(database.path) == expected
    assert len(begun) == 1


async def test_records_go_first_and_what_is_large_waits_in_parts(
    database: Database, asyncio_thread: AsyncioThread
) -> None:
    """A tool may be waiting for its record, while megabytes of an output are being stored."""
    log: list[str] = []
    await asyncio_thread.run(database._writer.connection.set_trace_callback, log.append)
    with held(database):
        for name in "abc":
            database.queue([(_INSERT, (name * 200_000,))])
        record = database.queue(drafts=[RecordRow(1.0, "s", "turn", None, None, "{}", "id1")])
        small = database.queue([(_INSERT, ("small",))])
    await database.written(record)
    await database.written(small)
    steps = [
        sql.split()[0] + (" record" if "INTO audit" in sql else "") for sql in log if "SELECT" not in sql
    ]
    transaction = ["BEGIN", "INSERT", "COMMIT"]
    assert steps == [
        "BEGIN",
        "INSERT record",
        "INSERT",
        "COMMIT",
        *transaction,
        "BEGIN",
        "INSERT",
        "INSERT",
        "COMMIT",
    ]
    assert [name[:1] for name in on_disk(database.path)] == ["a", "b", "c", "s"]


async def test_a_record_that_comes_late_overtakes_what_waits(
    database: Database, asyncio_thread: AsyncioThread
) -> None:
    log: list[str] = []

    def note(sql: str) -> None:
        if sql == "COMMIT" and "COMMIT" not in log:
            database.queue(drafts=[RecordRow(1.0, "s", "turn", None, None, "{}", "id1")])
        if "SELECT" not in sql:
            log.append("record" if "INTO audit" in sql else sql.split(maxsplit=1)[0])

    await asyncio_thread.run(database._writer.connection.set_trace_callback, note)
    with held(database):
        jobs = [database.queue([(_INSERT, (name * 250_000,))]) for name in "abcd"]
    for job in jobs:
        await database.written(job)
    transaction = ["BEGIN", "INSERT", "COMMIT"]
    assert log == [*transaction, "BEGIN", "record", "INSERT", "COMMIT", *transaction * 2]
    assert [name[:1] for name in on_disk(database.path)] == ["a", "b", "c", "d"]


async def test_a_bad_record_among_many_fails_alone(database: Database, asyncio_thread: AsyncioThread) -> None:
    good = [RecordRow(float(number), "s", "turn", None, None, "{}", f"id{number}") for number in range(5)]
    bad = RecordRow(9.0, "s", "turn", None, None, "\ud800", "bad")
    with held(database):
        jobs = [database.queue(drafts=[draft]) for draft in (*good[:3], bad, *good[3:])]
    for job in jobs[:3] + jobs[4:]:
        await database.written(job)
    with pytest.raises(RecordError, match="surrogates not allowed"):
        await database.written(jobs[3])
    assert await database.read("SELECT seq, id FROM audit") == [(n + 1, f"id{n}") for n in range(5)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("twice", "contradicts what is stored already"),
        (object(), "type 'object' is not supported"),
        (2**70, "too large"),
        ("\ud800", "surrogates not allowed"),
    ],
)
async def test_a_bad_record_does_not_fail_its_neighbours(
    database: Database, asyncio_thread: AsyncioThread, bad: object, reason: str
) -> None:
    await add(database, "twice")
    refused: list[str] = []

    async def add_bad() -> None:
        with pytest.raises(RecordError, match=reason) as caught:
            await add(database, "half", bad)
        refused.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        with held(database):
            for job in (lambda: add(database, "before"), add_bad, lambda: add(database, "after")):
                nursery.start_soon(job)
                await trio.testing.wait_all_tasks_blocked()
    assert await names(database) == ["twice", "before", "after"]
    assert refused[0].startswith(f"{database.path} could not be written: ")


async def test_a_full_disk_is_told_and_passes(database: Database) -> None:
    await add(database, "before")
    ((used,),) = await database.read("PRAGMA page_count")
    await database.read(f"PRAGMA max_page_count = {used + 2}")
    for _ in range(3):
        with pytest.raises(RecordError, match="could not be written: the disk is full"):
            await add(database, "small", "x" * 100_000)
    assert await names(database) == ["before"]
    await database.read("PRAGMA max_page_count = 100000")
    await add(database, "small", "x" * 100_000)
    assert [name[:6] for name in on_disk(database.path)] == ["before", "small", "xxxxxx"]


async def test_a_read_only_file_is_told_and_passes(database: Database) -> None:
    await database.read("PRAGMA query_only = ON")
    with pytest.raises(RecordError, match="could not be written: it is read-only"):
        await add(database, "a")
    await database.read("PRAGMA query_only = OFF")
    await add(database, "b")
    assert on_disk(database.path) == ["b"]


async def test_a_locked_file_is_told_once_for_all_and_passes(
    database: Database, asyncio_thread: AsyncioThread, locker: sqlite3.Connection
) -> None:
    locker.execute("BEGIN IMMEDIATE")
    refused: list[str] = []

    async def refuse(name: str) -> None:
        with pytest.raises(RecordError, match="another process keeps it locked"):
            await add(database, name)
        refused.append(name)

    async with commits(database, asyncio_thread) as begun:
        async with trio.open_nursery() as nursery:
            with held(database):
                for number in range(20):
                    nursery.start_soon(refuse, f"n{number}")
                await trio.testing.wait_all_tasks_blocked()
    assert (len(refused), len(begun)) == (20, 1)
    locker.execute("ROLLBACK")
    await add(database, "later")
    assert on_disk(database.path) == ["later"]


async def test_a_short_lock_is_waited_for(database: Database, locker: sqlite3.Connection) -> None:
    await database.read("PRAGMA busy_timeout = 5000")
    locker.execute("BEGIN IMMEDIATE")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(add, database, "patient")
        await trio.testing.wait_all_tasks_blocked()
        locker.execute("COMMIT")
    assert on_disk(database.path) == ["patient"]


@pytest.mark.parametrize("early", [True, False])
async def test_a_cancelled_caller_leaves_its_record_in(
    database: Database, locker: sqlite3.Connection, early: bool
) -> None:
    await database.read("PRAGMA busy_timeout = 5000")
    locker.execute("BEGIN IMMEDIATE")
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            if early:
                scope.cancel()
            nursery.start_soon(add, database, "mine")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught, "it does not wait for the lock"
    assert on_disk(database.path) == []
    locker.execute("ROLLBACK")
    await add(database, "next")
    assert on_disk(database.path) == ["mine", "next"]


async def test_closing_writes_what_is_queued(asyncio_thread: AsyncioThread, tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with Database.open(tmp_path / "store.db", asyncio_thread) as database:
            scope.cancel()
            for name in ("a", "b", "c"):
                with pytest.raises(trio.Cancelled):
                    await add(database, name)
    assert on_disk(tmp_path / "store.db") == ["a", "b", "c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.db"], "closed properly"
    for again in (add(database, "d"), names(database)):
        with pytest.raises(RecordError, match="is closed"):
            await again


async def test_an_endless_query_is_interrupted_and_writes_are_not(database: Database) -> None:
    for seconds in (0, 0.001, 0.05):
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(seconds) as scope:
                nursery.start_soon(add, database, f"beside {seconds}")
                await database.read(_ENDLESS)
            assert scope.cancelled_caught
    assert len(await names(database)) == 3


async def test_a_bad_query_is_told(database: Database) -> None:
    with pytest.raises(RecordError, match="could not be read: no such table: nowhere"):
        await database.read("SELECT * FROM nowhere")
    assert await database.read("SELECT ?", ("x",)) == [("x",)]


async def test_no_read_sees_what_is_not_committed(database: Database, asyncio_thread: AsyncioThread) -> None:
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append(await names(database))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(add, database, f"a{number}", f"b{number}")
            nursery.start_soon(look)
    assert all(len(rows) % 2 == 0 for rows in seen)


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        other.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_foreign, "the file is a database of another program"),
        (_newer, "the file has version 99, and this program knows versions up to"),
        (lambda path: path.write_bytes(b"no database at all " * 300), "the file is damaged or no database"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000), "the file is damaged"),
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "it is no ordinary file"),
    ],
)
async def test_what_is_not_ours_is_refused_and_left_alone(
    asyncio_thread: AsyncioThread, tmp_path: Path, make, reason: str
) -> None:
    path = tmp_path / "store.db"
    make(path)
    if path.is_file():
        path.chmod(0o644)
    before = path.is_file() and (path.read_bytes(), path.stat().st_mode)
    with pytest.raises(RecordError, match=reason):
        async with Database.open(path, asyncio_thread):
            raise AssertionError
    assert before == (path.is_file() and (path.read_bytes(), path.stat().st_mode))
    assert [found.name for found in tmp_path.iterdir()] == ["store.db"]


async def test_a_folder_that_cannot_be_made_is_told(asyncio_thread: AsyncioThread, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"file/store\.db cannot be used: "):
        async with Database.open(tmp_path / "file" / "store.db", asyncio_thread):
            raise AssertionError


async def test_an_older_file_grows_and_a_failing_step_changes_nothing(
    asyncio_thread: AsyncioThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, first = tmp_path / "store.db", schema.MIGRATIONS
    async with Database.open(path, asyncio_thread) as database:
        await add(database, "kept")
    bad = ("CREATE TABLE extra (x)", "CREATE TABLE extra (x)")
    monkeypatch.setattr(schema, "MIGRATIONS", (*first, bad))
    for _ in range(2):
        with pytest.raises(RecordError, match="table extra already exists"):
            async with Database.open(path, asyncio_thread):
                raise AssertionError
    assert list((tmp_path / "store.db-kept").iterdir()) == [], (
        "nothing came of it, so there is nothing to keep"
    )
    monkeypatch.setattr(schema, "MIGRATIONS", (*first, ("CREATE TABLE extra (x)",), ("DROP TABLE extra",)))
    async with Database.open(path, asyncio_thread) as database:
        assert await names(database) == ["kept"]
        assert await database.read("PRAGMA user_version") == [(len(first) + 2,)]
    monkeypatch.setattr(schema, "MIGRATIONS", first)
    with pytest.raises(RecordError, match="written by a later release"):
        async with Database.open(path, asyncio_thread):
            raise AssertionError


async def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    async def opener(name: str) -> None:
        async with (
            AsyncioThread.open(name) as asyncio_thread,
            Database.open(tmp_path / "store.db", asyncio_thread) as database,
        ):
            await add(database, name)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(opener, f"n{number}")
    assert sorted(on_disk(tmp_path / "store.db")) == [f"n{number}" for number in range(8)]


async def until(condition) -> None:
    with trio.fail_after(30):
        while not condition():
            await trio.sleep(0.005)


async def test_when_the_loop_dies_nothing_is_lost_nobody_hangs_and_no_thread_stays(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with (
        AsyncioThread.open("doomed") as asyncio_thread,
        Database.open(tmp_path / "store.db", asyncio_thread) as database,
    ):
        await add(database, "a")
        asyncio_thread.call_soon(lambda: asyncio_thread._loop.stop())
        await until(lambda: not asyncio_thread.alive)
        await add(database, "b")
        assert await names(database) == ["a", "b"]
    await until(lambda: all("Trio" in thread.name for thread in set(threading.enumerate()) - before))
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"], "the file was closed properly"
    assert on_disk(tmp_path / "store.db") == ["a", "b"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_any_end_of_the_block_closes_the_file(tmp_path: Path, error: type[BaseException]) -> None:
    async def main() -> None:
        async with (
            AsyncioThread.open("storage") as asyncio_thread,
            Database.open(tmp_path / "a.db", asyncio_thread) as database,
        ):
            await add(database, "a")
            raise error

    before = threading.enumerate()
    with pytest.raises(error):
        trio.run(main)
    deadline = time.monotonic() + 30
    while threading.enumerate() != before and time.monotonic() < deadline:
        time.sleep(0.001)
    assert threading.enumerate() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
