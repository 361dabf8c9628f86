"""Grants are read without any trace while other processes work."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from leeward.memory import grants as standing
from leeward.memory.audit import AuditLogger
from leeward.memory.database import Database
from leeward.memory.grants import GrantStore, standing_grants
from leeward.security.ports import RecordError
from leeward.security.session import Grant, Granted, Scope

_KILLED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute("UPDATE lasting_grant SET pattern = '/w/killed'")
os._exit(0)
"""


def grant(name: str, workspace: str | None = "/w", until: float | None = None) -> Granted:
    scope = Scope.EVERYWHERE if workspace is None else Scope.WORKSPACE
    return Granted(1.0, Grant(name, "write", "/w/*", scope, until), workspace)


@pytest.fixture
async def path(asyncio_thread, tmp_path, clock) -> Path:
    """A database with four grants that nobody has open."""
    where = tmp_path / "a b?#%" / "store.db"
    async with Database.open(where, asyncio_thread) as database:
        audit = AuditLogger(database, clock)
        events = [grant("g_1"), grant("g_2", None), grant("g_3", "/other"), grant("g_4", until=500.0)]
        await audit.append("s", *events)
    return where


def names(path: Path, now: float = 1000.0) -> list[str]:
    return [one.grant.id for one in standing_grants(path, "/w", now)]


def everything(folder: Path) -> dict[str, tuple]:
    return {one.name: (one.stat().st_mtime_ns, one.read_bytes()) for one in folder.iterdir() if one.is_file()}


async def test_what_holds_here_and_everywhere_is_read_and_nothing_is_left(path) -> None:
    before = everything(path.parent)
    assert names(path) == ["g_1", "g_2"]
    assert names(path, 499.0) == ["g_1", "g_2", "g_4"]
    assert everything(path.parent) == before


def test_where_there_is_no_database_nothing_holds_and_none_is_made(tmp_path) -> None:
    assert names(tmp_path / "nowhere" / "store.db") == []
    assert list(tmp_path.iterdir()) == []


async def test_what_others_have_just_written_is_seen_and_they_are_not_held_up(
    path, asyncio_thread, clock
) -> None:
    async with Database.open(path, asyncio_thread, busy_seconds=0.0) as database:
        await database.write([("UPDATE lasting_grant SET workspace = '/w' WHERE id = ?", ("g_3",))])
        assert names(path) == ["g_1", "g_2", "g_3"]
        held = await GrantStore(database, clock).holding_in("/w")
        assert [one.grant.id for one in held] == names(path, clock.time)
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            assert names(path) == ["g_1", "g_2", "g_3"], "nor does it wait for one who writes"


async def test_what_a_killed_process_left_is_read_and_left_as_it_is(path) -> None:
    subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=True, timeout=30)
    before = everything(path.parent)
    assert {f"store.db{end}" for end in ("", "-wal", "-shm")} <= set(before)
    assert [one.grant.match for one in standing_grants(path, "/w", 1000.0)] == ["/w/killed"] * 2
    assert everything(path.parent) == before


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"x" * 5000), "damaged|database"),
        (lambda path: _run(path, "PRAGMA application_id = 7"), "another program"),
        (lambda path: _run(path, "PRAGMA user_version = 9999"), "later release"),
    ],
)
async def test_what_cannot_be_read_is_said(path, spoil, why) -> None:
    spoil(path)
    with pytest.raises(RecordError, match=why):
        names(path)


async def test_an_empty_log_that_was_left_behind_is_no_obstacle(path) -> None:
    path.with_name("store.db-wal").touch()
    before = everything(path.parent)
    assert names(path) == ["g_1", "g_2"] and everything(path.parent) == before


async def test_what_changes_all_the_time_is_said(path, monkeypatch) -> None:
    def read(*_args, **_kind) -> list:
        os.utime(path, ns=(next(times), next(times)))
        return []

    times = iter(range(1, 1000))
    monkeypatch.setattr(standing, "_read", read)
    with pytest.raises(RecordError, match="keep writing"):
        names(path)


async def test_where_no_grant_names_a_folder_the_root_is_meant(path) -> None:
    _run(path, "ALTER TABLE lasting_grant DROP COLUMN folder", "PRAGMA user_version = 7")
    assert names(path) == ["g_1", "g_2"]
    assert {one.grant.folder for one in standing_grants(path, "/w", 1000.0)} == {None}


async def test_one_of_an_earlier_release_may_have_none(path) -> None:
    _run(path, "DROP TABLE lasting_grant", "PRAGMA user_version = 1")
    assert names(path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
async def test_a_closed_file_is_said(path) -> None:
    path.chmod(0)
    with pytest.raises(RecordError):
        names(path)


def _run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
