"""What a start reports about a crash, and what an end records."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.memory.audit import Head
from leeward.memory.checkpoints import CheckpointStore, Revision, Version, packed_content
from leeward.memory.database import AsyncioThread, Database
from leeward.memory.sessions import LOCKS
from leeward.runtime.app import Runtime
from leeward.runtime.clock import SystemClock
from leeward.runtime.config import Locations, load
from leeward.runtime.events import Alert
from leeward.security.call import Status
from leeward.security.kinds import Effect
from leeward.security.ports import RecordError
from leeward.tools.declare import Text, tool

KILLED = """
import os, signal, sys, trio
from pathlib import Path
from leeward.runtime.config import Locations, load
from leeward.runtime.app import Runtime
from leeward.security.kinds import Effect
from leeward.tools.declare import Text, tool

@tool(effects=Effect.READ)
async def deadly(what: Text) -> str:
    "Kill the process."
    os.kill(os.getpid(), signal.SIGKILL)

async def main(folder):
    loaded = load(config_dir=folder / "config", environment={"LEEWARD_TOOLS__SHELL__TRIAL": "off"})
    work, config, data = (folder / name for name in ("work", "config", "data"))
    places = Locations(work, folder, config, data, data / "leeward.db")
    async with Runtime.open(loaded, executors=[deadly], places=places) as runtime:
        print(runtime.session_id, flush=True)
        await runtime.call("deadly", {"what": "the release"})

trio.run(main, Path(sys.argv[1]))
"""


@tool(effects=Effect.READ)
async def harmless(what: Text) -> str:
    """Say it again."""
    return what


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("config", "data", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "config" / "config.toml").write_text(f'[tools.audit]\nheads = "{tmp_path}/heads"\n')
    return tmp_path


@asynccontextmanager
async def opened(folder: Path, told: list[str]):
    loaded = load(config_dir=folder / "config", environment={"LEEWARD_TOOLS__SHELL__TRIAL": "off"})
    places = Locations(
        folder / "work", folder, folder / "config", folder / "data", folder / "data" / "leeward.db"
    )

    def hear(event) -> None:
        if isinstance(event, Alert):
            told.append(event.message)

    async with Runtime.open(loaded, executors=[harmless], places=places, listener=hear) as runtime:
        yield runtime


def locks(folder: Path) -> list[str]:
    return [path.name for path in (folder / "data").glob(f"*{LOCKS}/*")]


async def test_a_call_whose_process_was_killed_is_told_at_the_next_start_and_not_repeated(
    folder: Path,
) -> None:
    child = subprocess.run(
        [sys.executable, "-c", KILLED, folder], capture_output=True, text=True, timeout=60, check=False
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    session = child.stdout.strip()
    assert locks(folder) == [session]
    told: list[str] = []
    async with opened(folder, told) as runtime:
        (line,) = told
        assert (
            line.startswith("unknown outcome: deadly") and "the release" in line and "not run again" in line
        )
        outcome = (await runtime.audit.list_records(session, kinds=["outcome"]))[-1]
        assert (outcome.tool, outcome.body["status"]) == ("deadly", Status.UNKNOWN)
        decisions = await runtime.audit.list_records(kinds=["decision"])
        assert [record.session for record in decisions] == [session], "nothing ran it again"
        assert (await runtime.audit.verify()).problem is None
    again: list[str] = []
    async with opened(folder, again):
        pass
    assert again == [], "it is told once"


async def test_a_session_that_ends_is_signed_and_leaves_nothing_open(folder: Path) -> None:
    async with opened(folder, []) as runtime:
        await runtime.call("harmless", {"what": "x"})
        first = runtime.session_id
        assert locks(folder) == [first]
        await runtime.new_session()
        assert [record.kind for record in await runtime.audit.list_records(first)][-2:] == ["ended", "head"]
        second = runtime.session_id
    assert locks(folder) == []
    heads = [Head.parse(line) for line in (folder / "heads").read_text().splitlines()]
    told: list[str] = []
    async with opened(folder, told) as runtime:
        assert await runtime.audit.heads() == heads
        assert len(heads) == 2
        assert [record.kind for record in await runtime.audit.list_records(second)][-2:] == ["ended", "head"]
        for head in heads:
            assert (await runtime.audit.verify(head)).problem is None
    assert told == []
    assert {path.stat().st_mode & 0o077 for path in (folder / "data").rglob("*")} == {0}


async def test_a_session_that_is_cancelled_ends_all_the_same(folder: Path) -> None:
    with trio.CancelScope() as scope:
        async with opened(folder, []) as runtime:
            session = runtime.session_id
            scope.cancel()
            await trio.sleep_forever()
    assert locks(folder) == []
    async with opened(folder, []) as runtime:
        assert [record.kind for record in await runtime.audit.list_records(session)][-2:] == ["ended", "head"]


async def test_a_session_whose_end_cannot_be_written_is_looked_after_by_the_next(folder: Path) -> None:
    told: list[str] = []
    async with opened(folder, told) as runtime:
        session = runtime.session_id
        await runtime.kept.audit._database.read("PRAGMA query_only = ON")
    assert any("it is read-only" in line for line in told)
    assert locks(folder) == [session]
    told = []
    async with opened(folder, told):
        assert session not in locks(folder)
    assert told == [], "none of its calls is open"


async def test_a_damaged_database_is_told_and_a_new_one_begun(folder: Path) -> None:
    async with opened(folder, []):
        pass
    with (folder / "data" / "leeward.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)
    told: list[str] = []
    async with opened(folder, told) as runtime:
        result = await runtime.call("harmless", {"what": "x"})
        assert result.outcome.status is Status.OK
    (line,) = told
    assert "is damaged" in line and "leeward.db-kept/damaged-" in line


async def test_heads_that_cannot_be_written_elsewhere_are_told_before_anything_runs(folder: Path) -> None:
    (folder / "config" / "config.toml").write_text(f'[tools.audit]\nheads = "{folder}/nowhere/heads"\n')
    with pytest.raises(RecordError, match="name another file as tools.audit.heads"):
        async with opened(folder, []):
            raise AssertionError
    assert locks(folder) == []


@pytest.mark.parametrize("theirs", [None, "theirs"])
async def test_changes_that_were_being_kept_are_finished_or_taken_back_before_anything_else(folder, theirs):
    work, told = folder / "work", []
    (work / "old").write_text("was")
    versions = {}
    async with (
        AsyncioThread.open("t") as thread,
        Database.open(folder / "data" / "leeward.db", thread) as database,
    ):
        store = CheckpointStore(database, SystemClock(), 1 << 20)
        for content in (b"was", b"becomes"):
            digest = hashlib.sha256(content).hexdigest()
            versions[content] = Version("file", 0o644, len(content), digest, mtime=5_000_000_000)
            await store.put([packed_content(digest, content)])
        (work / "old").chmod(0o644)
        changes = [
            Revision(b"new", None, versions[b"becomes"]),
            Revision(b"old", versions[b"was"], versions[b"becomes"]),
        ]  # fmt: skip
        await store.begin("s", str(work.resolve()), "c", "shell", "m" * 32, changes)
    # Half of it was done, with what it would have exchanged still there under its other name.
    (work / "new").write_text("becomes")
    (work / "new").chmod(0o644)
    (work / f".leeward-{'m' * 32}-1.tmp").write_text("becomes")
    (work / f".leeward-{'m' * 32}-1.tmp").chmod(0o644)
    if theirs is not None:
        (work / "old").write_text(theirs)
    async with opened(folder, told):
        found = {path.name: path.read_text() for path in work.iterdir()}
    assert found == ({"old": theirs} if theirs else {"old": "becomes", "new": "becomes"})
    (line,) = [line for line in told if "being kept" in line]
    assert ("taken back" if theirs else "are complete") in line
    told.clear()
    async with opened(folder, told):
        assert [line for line in told if "being kept" in line] == []
