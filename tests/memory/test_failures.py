"""Failures of the disk, the system or another process are reported; nothing is partial; work continues."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import stat
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from leeward.memory.audit import AuditLogger, Head, hash_key
from leeward.memory.audit import key_files as new_file
from leeward.memory.audit.heads import AnchorFile
from leeward.memory.audit.key_files import write_new
from leeward.memory.database import (
    AsyncioThread,
    Database,
    Upkeep,
    Write,
    is_damage,
    reason,
    storable,
    stored_json,
)
from leeward.memory.database import backup as kept
from leeward.memory.database import connection as connection_module
from leeward.memory.database.connection import integrity, is_busy
from leeward.memory.database.writer import ReadJob
from leeward.memory.overflow import OverflowStore
from leeward.memory.sessions import SessionInUse, SessionLock
from leeward.memory.sessions import lock as session_lock
from leeward.security.ports import RecordError
from leeward.security.session import TurnStarted
from leeward.security.trust import Origin

HEADS = [Head(count, f"{count:064x}", "ab" * 32, "cd" * 64) for count in range(1, 5)]


@contextmanager
def files_up_to(size: int):
    """Let no file of this process grow beyond so many bytes: what is written over it is cut, and then
    refused.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# ------------------------------------------------------------------ the second place


@pytest.mark.parametrize("room", [0, 1, 15, 100, 250, 290, 291, 292, 400, 600])
def test_a_head_that_was_cut_is_there_as_a_whole_once_there_is_room(tmp_path: Path, room: int) -> None:
    place = AnchorFile(tmp_path / "heads")
    for head in HEADS[:3]:
        place.add(head)
    whole = sum(len(head.line()) + 1 for head in HEADS[:3])
    with (
        files_up_to(room),
        pytest.raises(RecordError, match="only a part of it could be written|File too large"),
    ):
        place.flush()
    assert place.is_behind and (tmp_path / "heads").stat().st_size == room < whole
    place.add(HEADS[3])
    place.flush()
    assert not place.is_behind
    # Every head stands there as a whole, whatever stands around it.
    found = Head.all_in((tmp_path / "heads").read_text())
    assert found[-4:] == HEADS and set(found) == set(HEADS)


def test_a_disk_without_room_keeps_heads_waiting(tmp_path: Path) -> None:
    place = AnchorFile(Path("/dev/full"))
    with pytest.raises(RecordError, match="No space left"):
        place.check()
    place.add(HEADS[0])
    with pytest.raises(RecordError, match=r"/dev/full: No space left on device; name another file"):
        place.flush()
    assert place.is_behind
    place.path = tmp_path / "heads"
    place.flush()
    assert (tmp_path / "heads").read_text() == f"{HEADS[0].line()}\n" and not place.is_behind
    nowhere = AnchorFile(None)
    nowhere.add(HEADS[0])
    nowhere.check()
    nowhere.flush()
    assert not nowhere.is_behind


def test_a_pipe_as_the_second_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "heads")
    place = AnchorFile(tmp_path / "heads")
    with pytest.raises(RecordError, match="name another file as tools.audit.heads"):
        place.check()
    assert place.heads() == []


# ------------------------------------------------------------------ files of our own


@pytest.mark.parametrize("broken", ["open", "write", "fsync", "hardlink"])
def test_a_new_file_is_whole_or_not_there_and_leaves_no_draft(
    tmp_path: Path, monkeypatch, broken: str
) -> None:
    path = tmp_path / "folder" / "key"

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    if broken == "write":
        with files_up_to(10), pytest.raises(OSError, match="too large"):
            write_new(path, b"x" * 100)
    else:
        target = Path if broken == "hardlink" else new_file.os
        monkeypatch.setattr(target, "hardlink_to" if broken == "hardlink" else broken, fail)
        with pytest.raises(OSError, match="Input/output error"):
            write_new(path, b"x" * 100)
        monkeypatch.undo()
    assert not list((tmp_path / "folder").iterdir())
    write_new(path, b"x" * 100)
    write_new(path, b"of somebody slower")
    assert path.read_bytes() == b"x" * 100 and [one.name for one in path.parent.iterdir()] == ["key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o640), "may be read by others; run: chmod 600"),
        (lambda path: path.chmod(0o604), "may be read by others"),
        (lambda path: path.write_bytes(b"x" * 31), "is damaged; move it away, and a new one is made"),
        (lambda path: path.write_bytes(b"x" * 33), "is damaged"),
        (lambda path: path.write_bytes(b""), "is damaged"),
        (lambda path: (path.unlink(), path.mkdir(mode=0o700)), "cannot be used|is damaged"),
        (lambda path: (path.unlink(), path.symlink_to("hash.key")), "cannot be used"),
        (lambda path: (path.unlink(), path.symlink_to("gone/key")), "cannot be used"),
    ],
)
def test_a_key_of_hashes_that_cannot_be_used_is_told_and_never_replaced(
    tmp_path: Path, spoil, why: str
) -> None:
    key = hash_key(tmp_path)
    assert key == hash_key(tmp_path) and len(key) == 32
    spoil(tmp_path / "hash.key")
    before = (tmp_path / "hash.key").lstat().st_ino
    with pytest.raises(RecordError, match=why):
        hash_key(tmp_path)
    assert (tmp_path / "hash.key").lstat().st_ino == before


def test_a_folder_that_takes_no_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="with which hashes on record are made, cannot be used"):
        hash_key(tmp_path / "file" / "data")


# ------------------------------------------------------------------ locks of sessions


def test_a_lock_that_others_take_away_again_and_again_is_given_up(tmp_path: Path, monkeypatch) -> None:
    tries = []

    def removed(handle: int, path: Path) -> bool:
        tries.append(handle)
        return False

    monkeypatch.setattr(session_lock, "_is_still", removed)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(SessionInUse, match="is being opened by several at once"):
        SessionLock.take(tmp_path / "x.db", "s")
    assert len(tries) == 100 and len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_no_number_in_a_lock_names_nobody(tmp_path: Path) -> None:
    held = SessionLock.take(tmp_path / "x.db", "s")
    path = tmp_path / f"x.db{session_lock.LOCKS}" / "s"
    with pytest.raises(SessionInUse, match=f"by process {os.getpid()}"):
        SessionLock.take(tmp_path / "x.db", "s")
    path.write_bytes(b"\xff\x1b[31m; rm -rf\n")
    with pytest.raises(SessionInUse, match="is open already, elsewhere$"):
        SessionLock.take(tmp_path / "x.db", "s")
    path.unlink()
    held.release()
    held.release()
    again = SessionLock.take(tmp_path / "x.db", "s")
    again.release(is_settled=False)
    assert path.read_text() == f"{os.getpid()}\n", "what is not settled is found by whoever starts next"


# ------------------------------------------------------------------ what SQLite says


@pytest.mark.parametrize(
    ("code", "words", "busy", "damage"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full", False, False),
        (
            sqlite3.SQLITE_IOERR_WRITE,
            "the disk reported an input/output error, or has no room left",
            False,
            False,
        ),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "another process keeps it locked", True, False),
        (sqlite3.SQLITE_LOCKED_SHAREDCACHE, "another process keeps it locked", True, False),
        (sqlite3.SQLITE_CORRUPT_INDEX, "the file is damaged; it was left as it is", False, True),
        (sqlite3.SQLITE_NOTADB, "the file is damaged or no database", False, True),
        (sqlite3.SQLITE_READONLY_DBMOVED, "it is read-only", False, False),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, "the file cannot be opened", False, False),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, "the record contradicts what is stored already", False, False),
        (sqlite3.SQLITE_TOOBIG, "the record is too large", False, False),
        (sqlite3.SQLITE_MISMATCH, "said so", False, False),
        (None, "said so", False, False),
    ],
)
def test_each_kind_of_failure_is_told_in_words(
    code: int | None, words: str, busy: bool, damage: bool
) -> None:
    error = sqlite3.OperationalError("said so")
    if code is not None:
        error.sqlite_errorcode = code
    assert reason(error).startswith(words) and reason(error).count("said so") == 1
    assert (is_busy(error), is_damage(error)) == (busy, damage)
    assert reason(OSError(errno.EDQUOT, "quota")).startswith("quota") and not is_damage(None)


def test_a_look_that_is_kept_from_looking_finds_no_damage(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE a (b)")
        connection.set_progress_handler(lambda: 1, 1)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            integrity(connection)
        connection.set_progress_handler(None, 1)
        assert integrity(connection) == []


async def test_a_file_that_others_keep_locked_is_waited_for_and_then_told(
    tmp_path: Path, asyncio_thread: AsyncioThread, monkeypatch
) -> None:
    """Switching to the log is refused at once where another has the file; it is asked for until it
    is free.
    """
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RecordError, match="another process keeps it locked"):
            async with Database.open(path, asyncio_thread, busy_seconds=0.05):
                pytest.fail("it cannot be opened")
        release = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
        release.start()
        async with Database.open(path, asyncio_thread, busy_seconds=20) as database:
            assert await database.read("PRAGMA journal_mode") == [("wal",)]
        release.join()
    monkeypatch.setattr(connection_module, "_TRIES", 0)
    with pytest.raises(RecordError, match="its settings for durability do not hold"):
        async with Database.open(tmp_path / "new.db", asyncio_thread):
            pytest.fail("it cannot be relied upon")


async def test_an_error_nobody_thought_of_is_told_to_all_who_wait_and_the_next_are_served(
    database: Database, monkeypatch
) -> None:
    """Whatever comes up in the thread: nobody hangs, and nothing of what failed counts."""
    ends: list[str] = []

    async def write(number: int) -> None:
        try:
            await database.write(
                [
                    (
                        "INSERT INTO conversation (id, started, workspace, used) VALUES (?, 1, '/w', 1)",
                        (f"s{number}",),
                    )
                ]
            )
            ends.append("written")
        except RecordError as error:
            ends.append(str(error))

    async def read() -> None:
        try:
            await database.read("SELECT 1")
            ends.append("read")
        except RecordError as error:
            ends.append(str(error))

    def broken(*_: object) -> None:
        raise MemoryError("no more")

    monkeypatch.setattr("leeward.memory.database.writer.transact", broken)
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(write, number)
            nursery.start_soon(read)
    assert sum("no more" in end for end in ends) >= 5 and len(ends) == 6
    monkeypatch.undo()
    ends.clear()
    await write(9)
    assert ends == ["written"] and await database.read("SELECT id FROM conversation") == [("s9",)]


def test_whoever_was_told_already_is_not_told_twice() -> None:
    for job in (Write(), ReadJob("SELECT 1", ())):
        job.give_up(ValueError("first"))
        job.succeed(None)
        job.fail("later", OSError(errno.EIO, "second"))
        with pytest.raises(ValueError, match="first"):
            job.future.result()


async def test_whatever_is_asked_of_a_closed_file_is_refused_in_words(
    tmp_path: Path, asyncio_thread: AsyncioThread
) -> None:
    async with Database.open(tmp_path / "x.db", asyncio_thread) as database:
        pass
    for ask in (lambda: database.write(), lambda: database.read("SELECT 1"), lambda: database.integrity()):
        with pytest.raises(RecordError, match="is closed"):
            await ask()
    with pytest.raises(RecordError, match="is closed"):
        database.queue()


async def test_room_is_given_back_as_far_as_others_let_it(tmp_path: Path, database: Database, clock) -> None:
    store, upkeep = OverflowStore(database, clock), Upkeep(database)
    noise = os.urandom(300_000).hex()
    for number in range(8):
        await store.put("s", f"{number}{noise}", Origin.WEB)
    clock.time += 30 * 86_400
    with closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM overflow").fetchone()
        before = await upkeep.status()
        await store.prune()
        await upkeep.vacuum()
        assert reader.execute("SELECT count(*) FROM overflow").fetchone() == (8,), (
            "whoever reads goes on reading"
        )
        assert not (await upkeep.status()).damage
        reader.execute("ROLLBACK")
    await upkeep.vacuum()
    after = await upkeep.status()
    assert (
        after.file_bytes < before.pages * before.page_size / 4 and after.free_pages == 0 and not after.damage
    )
    assert before.kept.texts == 8 and after.kept.texts == 0 and after.written_per_byte is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leeward.memory.database.maintenance._BYTES", "SELECT no_such_table")
        blind = await upkeep.status()
    assert {table.bytes for table in blind.tables} == {None} and blind.kept.disk_bytes is None
    assert [table.rows for table in blind.tables] == [table.rows for table in after.tables]


# ------------------------------------------------------------------ copies, and what is set aside


@pytest.mark.parametrize("broken", ["fsync", "open", "rename", "size"])
def test_a_copy_is_whole_or_not_there(tmp_path: Path, monkeypatch, broken: str) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE a (b)")
        connection.executemany("INSERT INTO a VALUES (?)", [("x" * 1000,)] * 100)
        connection.commit()

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if broken == "size":
        with files_up_to(20_000), pytest.raises(sqlite3.Error):
            kept.copy(path, 3)
    else:
        monkeypatch.setattr(Path if broken == "rename" else kept.os, broken, fail)
        with pytest.raises(OSError, match="No space left"):
            kept.copy(path, 3)
        monkeypatch.undo()
    assert not list((tmp_path / f"x.db{kept.BACKUP_SUFFIX}").iterdir())
    where = [kept.copy(path, 3), kept.copy(path, 3)]
    assert [one.name for one in where] == ["version-3.db", "version-3-2.db"]
    with closing(sqlite3.connect(where[1])) as copy:
        assert copy.execute("SELECT count(*) FROM a").fetchone() == (100,)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_cannot_be_set_aside_as_a_whole_stays_usable(tmp_path: Path, monkeypatch, at: int) -> None:
    """The log goes first: beside a new file it would be taken for that one's. What was moved is not lost."""
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"x.db{end}").write_text(end)
    real, moved = Path.rename, []

    def rename(path: Path, target: Path) -> Path:
        if path.exists():
            moved.append(path.name)
            if len(moved) == at + 1:
                raise OSError(errno.EIO, "Input/output error")
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="Input/output"):
        kept.set_aside(tmp_path / "x.db")
    assert moved[: at + 1] == ["x.db-shm", "x.db-wal", "x.db"][: at + 1]
    monkeypatch.undo()
    assert (tmp_path / "x.db").exists(), "the file itself goes last of all"
    where = kept.set_aside(tmp_path / "x.db")
    everything = {
        path.name: path.read_text() for path in where.parent.parent.rglob("x.db*") if path.is_file()
    }
    assert (
        everything == {"x.db": "", "x.db-wal": "-wal", "x.db-shm": "-shm"}
        and not (tmp_path / "x.db").exists()
    )


# ------------------------------------------------------------------ what a record can hold


@given(st.text(st.characters(), max_size=20))
def test_any_text_can_be_stored_and_a_stored_one_stays(text: str) -> None:
    once = storable(text)
    is_plain = not any("\ud800" <= char <= "\udfff" for char in text)
    assert storable(once) == once == once.encode().decode() and (once == text) is is_plain


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {"a": [float("-inf")]}, {"a": {1, 2}}, {("a",): 1}, b"x"]
)
async def test_what_json_cannot_say_leaves_no_record(database: Database, clock, value: object) -> None:
    with pytest.raises(RecordError, match="cannot be written as JSON"):
        stored_json(value)
    audit = AuditLogger(database, clock)
    with pytest.raises(RecordError, match="cannot be written as JSON"):
        await audit.start_session("s", "/w", "c", {"told": value})
    await audit.append("s", TurnStarted(1.0))
    assert [record.kind for record in await audit.list_records()] == ["turn"]
