"""No data is lost: older files are backed up and migrated, damaged ones set aside, both reported."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database, record_hash, schema
from leeward.memory.database import backup as kept
from leeward.security.ports import RecordError
from leeward.security.session import TurnStarted

DECIDED = '{"allowed": true, "at": 2.0, "call": "c1", "digest": "d", "tool": "shell"}'
OLD_ROWS = (
    (1.0, "s", "session", None, None, '{"workspace": "/w"}', "a"),
    (2.0, "s", "decision", "c1", "shell", DECIDED, "b"),
    (3.0, "s\0é", "turn", None, None, '{"at": 3.0}', "c"),
)


class Clock:
    def now(self) -> float:
        return 7.0


def make(path: Path, version: int, rows=OLD_ROWS) -> None:
    """Make a file as a release of that version would have, with records in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.create_function("leeward_hash", -1, record_hash)
        for statement in (statement for step in schema.MIGRATIONS[:version] for statement in step):
            old.execute(statement)
        old.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        old.execute(f"PRAGMA user_version = {version}")
        old.execute("PRAGMA journal_mode = WAL")
        columns, prev = "at, session, kind, call, tool, body, id", bytes(32)
        for row in rows:
            if version == 1:
                old.execute(f"INSERT INTO audit ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            else:
                own = record_hash(prev, *row)
                old.execute(
                    f"INSERT INTO audit ({columns}, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*row, prev, own),
                )
                prev = own
        old.execute("INSERT INTO conversation (id, started, workspace) VALUES ('s', 1.0, '/w')")


def rows_of(path: Path) -> list[tuple]:
    with closing(sqlite3.connect(path)) as other:
        return other.execute(
            "SELECT at, session, kind, call, tool, body, id FROM audit ORDER BY seq"
        ).fetchall()


# ---------------------------------------------------------------------- older versions


@pytest.mark.parametrize("version", range(1, len(schema.MIGRATIONS)))
async def test_a_file_of_every_earlier_version_is_copied_and_brought_up_to_date(
    asyncio_thread: AsyncioThread, tmp_path: Path, version: int
) -> None:
    path = tmp_path / "store.db"
    make(path, version)
    path.chmod(0o644)
    async with Database.open(path, asyncio_thread) as database:
        audit = AuditLogger(database, Clock())
        records = await audit.list_records()
        assert [record.kind for record in records] == ["session", "decision", "turn"] + ["chain"] * (
            version == 1
        )
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert (await audit.verify()).problem is None
        await audit.append("s", TurnStarted(4.0))
        assert (await audit.verify(await audit.sign_head())).problem is None
        (notice,) = database.take_notices()
        assert database.take_notices() == []
        assert await database.read("SELECT id FROM conversation") == [("s",)]
    assert rows_of(path)[:3] == list(OLD_ROWS)
    copy = tmp_path / "store.db-kept" / f"version-{version}.db"
    assert str(copy) in notice
    assert rows_of(copy) == list(OLD_ROWS)
    with closing(sqlite3.connect(copy)) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (version,)
    assert copy.stat().st_mode & 0o777 == path.stat().st_mode & 0o777 == 0o600
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    assert [name.name for name in copy.parent.iterdir()] == [copy.name]


async def test_where_the_chain_began_is_on_record(asyncio_thread: AsyncioThread, tmp_path: Path) -> None:
    make(tmp_path / "a.db", 1)
    make(tmp_path / "empty.db", 1, ())
    async with Database.open(tmp_path / "a.db", asyncio_thread) as database:
        (marker,) = await AuditLogger(database, Clock()).list_records(kinds=["chain"])
        assert marker.body == {"records": 3}
        assert marker.at > 1_600_000_000
    async with Database.open(tmp_path / "empty.db", asyncio_thread) as database:
        assert await AuditLogger(database, Clock()).list_records() == []


async def test_old_rows_with_gaps_become_one_chain(asyncio_thread: AsyncioThread, tmp_path: Path) -> None:
    make(tmp_path / "a.db", 1)
    with closing(sqlite3.connect(tmp_path / "a.db")) as old, old:
        old.execute("UPDATE audit SET seq = seq * 7")
    async with Database.open(tmp_path / "a.db", asyncio_thread) as database:
        verified = await AuditLogger(database, Clock()).verify()
        assert (verified.records, verified.problem) == (4, None)


async def test_what_stands_in_the_log_only_is_in_the_copy_too(
    asyncio_thread: AsyncioThread, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    make(path, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA wal_autocheckpoint = 0")
        other.execute("INSERT INTO audit (at, session, kind, body, id) VALUES (4.0, 's', 'turn', '{}', 'd')")
        async with Database.open(path, asyncio_thread):
            pass
    assert len(rows_of(tmp_path / "a.db-kept" / "version-1.db")) == 4


async def test_without_a_copy_nothing_is_changed(
    asyncio_thread: AsyncioThread, tmp_path: Path, monkeypatch
) -> None:
    path = tmp_path / "a.db"
    make(path, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "_sync", full)
    with pytest.raises(RecordError, match=r"a\.db cannot be used: No space left on device"):
        async with Database.open(path, asyncio_thread):
            raise AssertionError
    assert rows_of(path) == list(OLD_ROWS)
    assert list((tmp_path / "a.db-kept").iterdir()) == [], "no part of a copy stays"
    monkeypatch.undo()
    async with Database.open(path, asyncio_thread) as database:
        assert len(database.take_notices()) == 1


async def test_an_earlier_copy_is_not_overwritten(asyncio_thread: AsyncioThread, tmp_path: Path) -> None:
    folder = tmp_path / "a.db-kept"
    folder.mkdir()
    (folder / "version-1.db").write_text("mine")
    (folder / "version-1.partial").write_text("half of one, from a process that was killed")
    make(tmp_path / "a.db", 1)
    async with Database.open(tmp_path / "a.db", asyncio_thread):
        pass
    assert (folder / "version-1.db").read_text() == "mine"
    assert rows_of(folder / "version-1-2.db") == list(OLD_ROWS)


async def test_processes_that_find_an_older_file_at_once_migrate_it_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make(path, 1)

    async def opener(number: int) -> None:
        async with (
            AsyncioThread.open(f"n{number}") as asyncio_thread,
            Database.open(path, asyncio_thread) as database,
        ):
            await AuditLogger(database, Clock()).append("s", TurnStarted(float(number)))

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(opener, number)
    assert len(rows_of(path)) == 3 + 1 + 6
    assert [name.name for name in (tmp_path / "a.db-kept").iterdir()] == ["version-1.db"]


# ---------------------------------------------------------------------- damaged files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of ours with some pages, in a folder of ours."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "store.db"

    async def fill() -> None:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            audit = AuditLogger(database, Clock())
            for number in range(300):
                await audit.append("s", TurnStarted(float(number)))
            await audit.sign_head()

    trio.run(fill)
    return path


def overwrite(path: Path, start: int, text: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(text)


DAMAGE: list[tuple[str, Callable[[Path], object]]] = [
    ("its tables are unreadable", lambda path: overwrite(path, 100, b"\xff" * 3996)),
    ("its beginning is zeroes, and it lies in our folder", lambda path: overwrite(path, 0, bytes(4096))),
    (
        "its beginning is rubbish, and it lies in our folder",
        lambda path: overwrite(path, 0, os.urandom(4096)),
    ),
    ("its size of a page is none", lambda path: overwrite(path, 16, b"\0\3")),
]  # fmt: skip


@pytest.mark.parametrize("damage", [row[1] for row in DAMAGE], ids=[row[0] for row in DAMAGE])
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    path: Path, damage: Callable[[Path], object]
) -> None:
    damage(path)
    content = path.read_bytes()

    async def use() -> list[str]:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            await AuditLogger(database, Clock()).append("s", TurnStarted(1.0))
            return database.take_notices()

    (notice,) = trio.run(use)
    (folder,) = (path.parent / "store.db-kept").iterdir()
    assert str(folder / "store.db") in notice and "nothing was deleted" in notice
    assert (folder / "store.db").read_bytes() == content
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(rows_of(path)) == 1
    assert trio.run(use) == [], "told once"
    assert len(rows_of(path)) == 2


def test_all_that_belongs_to_a_file_is_moved_together(path: Path) -> None:
    (path.parent / "store.db-kept").mkdir()
    for end in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + end).write_text(end)
    moved = kept.set_aside(path)
    assert sorted(name.name for name in moved.parent.iterdir()) == sorted(
        path.name + end for end in kept.SIDES
    )
    assert sorted(name.name for name in path.parent.iterdir()) == ["audit.key", "store.db-kept"]
    path.write_text("another")
    assert kept.set_aside(path).parent != moved.parent, "two in one second have places of their own"


def test_damage_found_while_it_is_used_is_looked_into_at_the_next_start(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        ((page,),) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'audit'")
    overwrite(path, (page - 1) * 4096, b"\xff" * 4096)

    async def read() -> list[str]:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            notices = database.take_notices()
            if not notices:
                assert await database.integrity() != []
                with pytest.raises(RecordError, match="the file is damaged; it was left as it is"):
                    await database.read("SELECT sum(length(body)) FROM audit")
            return notices

    assert trio.run(read) == []
    assert (path.parent / "store.db-kept" / "suspect").exists()
    assert "is damaged" in trio.run(read)[0]
    assert not (path.parent / "store.db-kept" / "suspect").exists()
    assert rows_of(path) == []


def test_a_false_suspicion_is_forgotten(path: Path) -> None:
    kept.suspect(path)

    async def use() -> list[str]:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            assert await database.integrity() == []
            return database.take_notices()

    assert trio.run(use) == []
    assert len(rows_of(path)) == 303
    assert list((path.parent / "store.db-kept").iterdir()) == []


def test_processes_that_find_the_damage_at_once_begin_one_new_file(path: Path) -> None:
    overwrite(path, 100, b"\xff" * 3996)
    told: list[str] = []

    async def opener(number: int) -> None:
        async with (
            AsyncioThread.open(f"n{number}") as asyncio_thread,
            Database.open(path, asyncio_thread, busy_seconds=30) as database,
        ):
            await AuditLogger(database, Clock()).append("s", TurnStarted(float(number)))
            told.extend(database.take_notices())

    async def all_at_once() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(opener, number)

    trio.run(all_at_once)
    assert len(told) == 1
    assert len(rows_of(path)) == 6, "nobody moved away what another had begun"


@pytest.mark.slow
def test_processes_that_find_the_damage_at_once_begin_one_new_file_however_often() -> None:
    """Here few repetitions; `make races` makes two hundred."""
    script = Path(__file__).resolve().parents[2] / "fuzz" / "begin_anew.py"
    done = subprocess.run(
        [sys.executable, script, "10"], capture_output=True, text=True, timeout=150, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


KILLED_WHILE_MOVING = """
import os, sys
from pathlib import Path
from leeward.memory.database import backup as kept
real, left = Path.rename, [int(sys.argv[2])]
def rename(path, target):
    if path.exists():
        if left[0] == 0:
            os._exit(9)
        left[0] -= 1
    return real(path, target)
Path.rename = rename
with kept.exclusive_lock(Path(sys.argv[1])):
    kept.set_aside(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("moved", range(4))
def test_a_move_that_was_killed_half_way_is_brought_to_its_end(path: Path, moved: int) -> None:
    """The log was moved first; what is left of the file may look sound without it, and is not whole."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).write_text(end)
    content = path.read_bytes()
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_MOVING, path, str(moved)], check=False)
    assert killed.returncode == 9

    async def use() -> list[str]:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            await AuditLogger(database, Clock()).append("s", TurnStarted(1.0))
            return database.take_notices()

    (notice,) = trio.run(use)
    (folder,) = (path.parent / "store.db-kept").iterdir()
    assert str(folder / "store.db") in notice and folder.suffix == ""
    assert sorted(found.name for found in folder.iterdir()) == ["store.db", "store.db-shm", "store.db-wal"]
    assert (folder / "store.db").read_bytes() == content
    assert len(rows_of(path)) == 1
    assert trio.run(use) == [], "told once"


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], threading.Thread]:
    """Start something in a thread, and return once it waits for its turn."""
    waits = threading.Event()
    monkeypatch.setattr(kept, "sleep", lambda seconds: (waits.set(), time.sleep(seconds)))

    def start(work: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert waits.wait(60)
        return thread

    return start


def test_nobody_opens_a_file_while_another_moves_it(path: Path, meanwhile) -> None:
    """Half of what stands there is not there any more, and SQLite would make it anew."""
    names: list[str] = []

    async def use() -> None:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread):
            names.append("opened")

    with kept.exclusive_lock(path):
        opener = meanwhile(lambda: trio.run(use))
        path.rename(path.with_name("moved.db"))
        assert (names, path.exists()) == ([], False)
        path.with_name("moved.db").rename(path)
    opener.join(60)
    assert names == ["opened"]
    assert len(rows_of(path)) == 303


def test_nobody_closes_a_file_while_another_moves_it(path: Path, meanwhile) -> None:
    """SQLite removes the log of a file by its name, and by then it may be that of another."""

    async def use(close: threading.Event, opened: threading.Event) -> None:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            await AuditLogger(database, Clock()).append("s", TurnStarted(1.0))
            opened.set()
            await trio.to_thread.run_sync(close.wait)

    close, opened = threading.Event(), threading.Event()
    user = threading.Thread(target=trio.run, args=(use, close, opened), daemon=True)
    user.start()
    assert opened.wait(60)
    log = path.with_name("store.db-wal")
    with kept.exclusive_lock(path):
        meanwhile(close.set).join(60)
        assert log.exists()
    user.join(60)
    assert not user.is_alive()
    assert not log.exists()


async def test_a_turn_that_does_not_come_is_not_waited_for_for_ever(
    asyncio_thread: AsyncioThread, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(kept, "_TURN_SECONDS", 0)
    with (
        kept.exclusive_lock(tmp_path / "a.db"),
        pytest.raises(RecordError, match="another process has locked its folder"),
    ):
        async with Database.open(tmp_path / "a.db", asyncio_thread):
            raise AssertionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"notes of mine, no database " * 300, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_of_somebody_else_is_not_moved(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)

    async def use() -> None:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread):
            raise AssertionError

    with pytest.raises(
        RecordError, match="the file is damaged or no database; it was left as it is|is damaged"
    ):
        trio.run(use)
    assert path.read_bytes() == content
    assert [found.name for found in tmp_path.iterdir()] == ["notes.txt"]


def test_a_program_that_still_has_the_damaged_file_does_no_harm_to_the_new_one(path: Path) -> None:
    """SQLite removes the side files of a database when it is closed, by their names."""
    old = sqlite3.connect(path)
    old.execute("SELECT count(*) FROM audit").fetchone()
    moved = kept.set_aside(path)

    async def use() -> None:
        async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
            audit = AuditLogger(database, Clock())
            await audit.append("s", TurnStarted(1.0))
            old.execute("INSERT INTO conversation (id, started, workspace) VALUES ('late', 1.0, '/w')")
            old.commit()
            old.close()
            await audit.append("s", TurnStarted(2.0))

    trio.run(use)
    assert len(rows_of(path)) == 2
    assert len(rows_of(moved)) == 303


async def test_integrity_tells_what_is_wrong(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as other, other:
        other.execute(
            "INSERT INTO entry (session, turn, role, content, origin, at) VALUES ('nobody', 1, 'user', "
            "'', 'person', 1.0)"
        )
    async with AsyncioThread.open("x") as asyncio_thread, Database.open(copy, asyncio_thread) as database:
        (line,) = await database.integrity()
        assert "entry" in line and "conversation" in line
