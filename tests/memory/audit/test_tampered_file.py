"""Tampering around the records (key, anchor file, an older database) is detected."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from leeward.memory.audit import AuditLogger, Head, heads_in
from leeward.memory.audit.heads import ChainFault, Fault
from leeward.memory.audit.signer import SIGN_EVERY
from leeward.memory.database import GENESIS, AsyncioThread, Database, record_hash
from leeward.memory.database.chain import append
from leeward.memory.sessions import LOCKS, SessionLock
from leeward.security.ports import RecordError
from leeward.security.session import Decided, TurnStarted
from loading import rows_beside

ROWS = rows_beside(__file__)

SWALLOWED = (
    "CREATE TRIGGER quiet BEFORE INSERT ON audit WHEN new.kind = 'decision' BEGIN SELECT raise(IGNORE); END"
)
TAKEN_OUT = (
    "CREATE TRIGGER quiet AFTER INSERT ON audit WHEN new.kind = 'decision'"
    " BEGIN DELETE FROM audit WHERE seq = new.seq; END"
)
ALLOWED = Decided(1.0, "c1", "shell", "d1", True, arguments='{"command":"ls"}')


class Clock:
    def now(self) -> float:
        return 7.0


@pytest.fixture
def audit(database: Database, clock) -> AuditLogger:
    return AuditLogger(database, clock)


async def turns(audit: AuditLogger, count: int) -> None:
    await audit.append("s", *(TurnStarted(float(number)) for number in range(count)))


async def problem_of(audit: AuditLogger, *anchors: Head) -> ChainFault:
    found = (await audit.verify(*anchors)).problem
    assert found is not None
    return found


# ---------------------------------------------------------------------- records that would not be there


@pytest.mark.parametrize("trigger", [SWALLOWED, TAKEN_OUT])
async def test_a_decision_that_the_file_swallows_is_not_recorded_and_so_not_run(
    audit: AuditLogger, database: Database, trigger: str
) -> None:
    """Somebody changes the schema while a session is open: its calls are refused, as on a full disk."""
    await turns(audit, 2)
    with closing(sqlite3.connect(database.path)) as other:
        other.execute(trigger)
    with pytest.raises(RecordError, match="tampered with"):
        await audit.append("s", ALLOWED)
    await turns(audit, 1)
    with closing(sqlite3.connect(database.path)) as other:
        other.execute("DROP TRIGGER quiet")
    await audit.append("s", ALLOWED)
    assert (await audit.verify()).problem is None


@pytest.mark.parametrize("trigger", [SWALLOWED, TAKEN_OUT])
async def test_the_obvious_wrong_append_loses_the_decision_without_a_word(
    planted, audit: AuditLogger, database: Database, trigger: str
) -> None:
    draft = audit._drafting.of_event("s", ALLOWED)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute(trigger)
        planted("chain").append(other, [draft])
        assert other.execute("SELECT count(*) FROM audit").fetchone() == (0,)
        with pytest.raises(sqlite3.IntegrityError, match="tampered with"):
            append(other, [draft])


async def test_the_same_record_twice_is_no_lost_one(audit: AuditLogger, database: Database) -> None:
    draft = audit._drafting.of_event("s", ALLOWED)
    await database.write(drafts=[draft, draft])
    await database.write(drafts=[draft])
    assert len(await audit.list_records()) == 1


async def test_a_file_with_a_trigger_is_not_opened(asyncio_thread: AsyncioThread, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with Database.open(path, asyncio_thread):
        pass
    with closing(sqlite3.connect(path)) as other:
        other.execute(SWALLOWED)
    before = path.read_bytes()
    with pytest.raises(RecordError, match=r"triggers into it.* quiet; .*DROP TRIGGER"):
        async with Database.open(path, asyncio_thread):
            pass
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TRIGGER quiet")
        other.execute("CREATE VIEW mine AS SELECT * FROM audit")
        other.execute("CREATE INDEX mine_too ON audit (tool)")
        other.execute("ANALYZE")
    async with Database.open(path, asyncio_thread) as database:
        assert (await AuditLogger(database, Clock()).verify()).problem is None, (
            "what only reads is the person's"
        )


# ---------------------------------------------------------------------- around the records

AROUND = ROWS["around"]


@pytest.mark.parametrize("statements", AROUND.values(), ids=list(AROUND))
async def test_what_is_read_by_others_must_show_what_is_on_record(
    audit: AuditLogger, database: Database, statements: list[str]
) -> None:
    await audit.append("s", ALLOWED)
    await audit.sign_head()
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)
    problem = await problem_of(audit)
    assert (problem.seq, problem.kind) == (0, Fault.FILE), problem


async def test_an_index_that_leaves_a_record_out_is_found(audit: AuditLogger, database: Database) -> None:
    await audit.append("s", ALLOWED)
    await audit.sign_head()
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        ((root, sql),) = other.execute("SELECT rootpage, sql FROM sqlite_master WHERE name = 'audit_by_call'")
        other.execute("CREATE INDEX other ON audit (call) WHERE call > 'd'")
        ((empty,),) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'other'")
        other.execute("PRAGMA writable_schema = ON")
        other.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'audit_by_call'", (empty,))
        other.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'other'", (root,))
    assert await audit.show("c1") == []
    problem = await problem_of(audit)
    assert (problem.seq, problem.kind) == (0, Fault.FILE), sql
    assert "audit_by_call" in problem.message


@pytest.mark.parametrize("seq", [0, -1, -(2**63)])
async def test_a_record_before_the_first_is_found(audit: AuditLogger, database: Database, seq: int) -> None:
    """`why` and the views would show it."""
    await audit.append("s", ALLOWED)
    await audit.sign_head()
    texts = ("s", "decision", "forged", "shell", "{}", "new")
    own = record_hash(GENESIS, 1.0, *texts)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute(
            "INSERT INTO audit (seq, at, session, kind, call, tool, body, id, prev, hash)"
            " VALUES (?, 1.0, ?, ?, ?, ?, ?, ?, ?, ?)",
            (seq, *texts, GENESIS, own),
        )
    problem = await problem_of(audit)
    assert (problem.seq, problem.kind) == (seq, Fault.OUT_OF_PLACE)


async def test_a_number_at_the_end_of_all_numbers_is_found(audit: AuditLogger, database: Database) -> None:
    await turns(audit, 3)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("UPDATE audit SET seq = ? WHERE seq = 3", (2**63 - 1,))
        other.execute("UPDATE audit SET body = '{}' WHERE seq = 2")
    problem = await problem_of(audit)
    assert (problem.seq, problem.kind) == (2, Fault.CHANGED)


# ---------------------------------------------------------------------- an older file over a newer one


async def test_an_older_file_that_was_gone_on_with_shows_by_the_heads_before(
    asyncio_thread: AsyncioThread, tmp_path: Path
) -> None:
    """The newest head was signed behind the older copy, so it alone shows nothing."""
    path, heads = tmp_path / "a.db", tmp_path / "heads"

    async def session(turn: int) -> None:
        async with Database.open(path, asyncio_thread) as database:
            audit = AuditLogger(database, Clock(), heads=heads)
            await audit.start_session(f"s{turn}", "/w", "c")
            await turns(audit, 3)
            await audit.end_session(f"s{turn}")

    await session(1)
    shutil.copyfile(path, tmp_path / "old.db")
    await session(2)
    shutil.copyfile(tmp_path / "old.db", path)
    async with Database.open(path, asyncio_thread) as database:
        assert (await problem_of(AuditLogger(database, Clock()), *heads_in(heads))).kind is Fault.CUT
    await session(3)
    async with Database.open(path, asyncio_thread) as database:
        audit = AuditLogger(database, Clock(), heads=heads)
        first, second, third = await audit.heads_elsewhere()
        assert (await audit.verify(first, third)).problem is None
        problem = await problem_of(audit, *await audit.heads_elsewhere())
        assert (problem.seq, problem.kind) == (first.count + 1, Fault.CUT)
        assert (await problem_of(audit, second)).kind is Fault.CUT


async def test_heads_elsewhere_are_read_also_beside_what_a_full_disk_left(
    audit: AuditLogger, tmp_path: Path
) -> None:
    heads = [await audit.sign_head() for _ in range(3)]
    first, second, third = (head.line() for head in heads)
    file = tmp_path / "heads"
    file.write_text(f"{first}\n{second[:90]}{second}\n\nnothing\n{third}", encoding="ascii")
    assert heads_in(file) == heads
    assert (await audit.verify(*heads_in(file))).problem is None
    assert await audit.heads_elsewhere() == [], "none were named"


# ---------------------------------------------------------------------- what nobody tampered with


async def test_a_pruning_between_two_pages_is_no_finding(audit: AuditLogger, database: Database) -> None:
    await turns(audit, 600)
    head = await audit.sign_head()
    await turns(audit, 10)
    read = database.read
    pages: list[str] = []

    async def pruned_meanwhile(sql, values=()):
        rows = await read(sql, values)
        if "LIMIT" in sql and "hash" in sql:
            pages.append(sql)
            if len(pages) == 1:
                database.read = read
                await audit.prune(head)
                database.read = pruned_meanwhile
        return rows

    database.read = pruned_meanwhile
    verified = await audit.verify()
    assert verified.problem is None
    assert len(pages) > 2


async def test_how_much_is_signed_is_counted(audit: AuditLogger) -> None:
    assert (await audit.verify()).unsigned == 0
    await turns(audit, 5)
    assert (await audit.verify()).unsigned == 5
    head = await audit.sign_head()
    assert (await audit.verify()).unsigned == 0
    await turns(audit, 3)
    assert (await audit.verify()).unsigned == 3
    await audit.prune(head)
    verified = await audit.verify()
    assert (verified.records, verified.unsigned) == (6, 0), "a head, three, that it was pruned, and a head"


def killed(database: Database, session: str) -> None:
    """Leave a lock behind as a process does that is killed."""
    SessionLock.take(database.path, session).release(is_settled=False)


async def test_the_next_start_signs_what_a_killed_process_left(
    audit: AuditLogger, database: Database
) -> None:
    await turns(audit, SIGN_EVERY - 1)
    assert await audit.unknown_outcomes() == []
    assert (await audit.verify()).unsigned == SIGN_EVERY - 1, "nobody was killed"
    killed(database, "s")
    await audit.unknown_outcomes()
    verified = await audit.verify()
    assert (verified.unsigned, verified.heads) == (0, 1)
    await turns(audit, 2)
    killed(database, "s")
    await audit.unknown_outcomes()
    assert (await audit.verify()).unsigned == 0
    assert database.take_notices() == []


TAMPERED: dict[str, Callable[[sqlite3.Connection], object]] = {
    "behind the last head": lambda file: file.execute("UPDATE audit SET at = 9.5 WHERE seq = 6"),
    "the last head": lambda file: file.execute("UPDATE audit SET at = 9.5 WHERE seq = 4"),
    "one is gone": lambda file: file.execute("DELETE FROM audit WHERE seq = 5"),
}


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=list(TAMPERED))
async def test_what_was_tampered_with_is_not_signed_and_told(
    audit: AuditLogger, database: Database, tamper: Callable[[sqlite3.Connection], object]
) -> None:
    await turns(audit, 3)
    await audit.sign_head()
    await turns(audit, 3)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        tamper(other)
    killed(database, "s")
    assert await audit.unknown_outcomes() == []
    assert len(await audit.heads()) == 1
    (notice,) = database.take_notices()
    assert "not as it was written" in notice
    assert "audit verify" in notice
    assert not list(database.path.with_name(database.path.name + LOCKS).iterdir()), "it was settled"


def test_a_start_after_a_kill_costs_the_rest_only(tmp_path: Path) -> None:
    """However long the audit is, only what is behind the newest head is read again."""

    async def main() -> int:
        async with (
            AsyncioThread.open("x") as asyncio_thread,
            Database.open(tmp_path / "a.db", asyncio_thread) as database,
        ):
            audit = AuditLogger(database, Clock())
            await turns(audit, 1000)
            await audit.sign_head()
            await turns(audit, 7)
            killed(database, "s")
            read, rows = database.read, 0

            async def counted(sql, values=()):
                nonlocal rows
                found = await read(sql, values)
                rows += len(found)
                return found

            database.read = counted
            await audit.unknown_outcomes()
            return rows

    assert trio.run(main) < 20
