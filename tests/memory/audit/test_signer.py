"""Signed heads: when they are made, with which key, where they go, and where the audit may be cut."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from leeward.memory.audit import AuditLogger, Head
from leeward.memory.audit.heads import Fault
from leeward.memory.audit.signer import SIGN_EVERY
from leeward.memory.audit.signing import Signer, is_signed
from leeward.memory.database import AsyncioThread, Database, RecordRow
from leeward.security.ports import RecordError
from leeward.security.session import TurnStarted


@pytest.fixture
def audit(database: Database, clock) -> AuditLogger:
    return AuditLogger(database, clock)


async def turns(audit: AuditLogger, count: int) -> None:
    await audit.append("s", *(TurnStarted(float(number)) for number in range(count)))


# ---------------------------------------------------------------------- when


async def test_a_head_is_about_all_records_before_it(audit: AuditLogger, database: Database) -> None:
    empty = await audit.sign_head()
    assert (empty.count, empty.hash) == (0, "00" * 32)
    await turns(audit, 5)
    head = await audit.sign_head()
    ((tip,),) = await database.read("SELECT lower(hex(hash)) FROM audit WHERE seq = 6")
    assert (head.count, head.hash) == (6, tip)
    assert is_signed(head)
    assert await audit.heads() == [empty, head]
    assert await audit.heads(limit=1) == [head]
    assert (await audit.verify(empty)).problem is None


async def test_the_earlier_name_signs_too_and_warns(audit: AuditLogger) -> None:
    with pytest.warns(DeprecationWarning, match="call sign_head of AuditLogger, not head") as warned:
        head = await audit.head()
    assert [one.filename for one in warned] == [__file__]
    assert await audit.heads() == [head]


async def test_heads_can_be_looked_for_by_their_time(audit: AuditLogger, clock) -> None:
    clock.time = 100.0
    early = await audit.sign_head()
    clock.time = 200.0
    late = await audit.sign_head()
    assert await audit.heads(before=150.0) == [early]
    assert await audit.heads() == [early, late]
    assert await audit.heads(before=50.0) == await audit.heads(limit=0) == []


async def test_each_writer_signs_after_so_many_records_and_at_the_end(audit: AuditLogger) -> None:
    await audit.start_session("s", "/w", "c")
    for _ in range(SIGN_EVERY - 1):
        await turns(audit, 1)
    assert await audit.heads() == []
    await turns(audit, 1)
    assert len(await audit.heads()) == 1
    await turns(audit, 2 * SIGN_EVERY)
    assert len(await audit.heads()) == 2
    await audit.end_session("s")
    assert [head.count for head in await audit.heads()] == [
        SIGN_EVERY + 1,
        3 * SIGN_EVERY + 2,
        3 * SIGN_EVERY + 4,
    ]
    assert [record.kind for record in await audit.list_records("s", kinds=["session", "ended"])] == [
        "session",
        "ended",
    ]
    assert (await audit.verify()).problem is None


async def test_two_writers_at_once_sign_what_stands_there(
    audit: AuditLogger, database: Database, asyncio_thread: AsyncioThread, clock
) -> None:
    async with Database.open(database.path, asyncio_thread, busy_seconds=30) as other:
        second = AuditLogger(other, clock)
        await database.read("PRAGMA busy_timeout = 30000")

        async def write(logger: AuditLogger) -> None:
            for _ in range(30):
                await turns(logger, 3)
                await logger.sign_head()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, audit)
            nursery.start_soon(write, second)
        verified = await audit.verify()
        assert (verified.records, verified.heads, verified.problem) == (240, 60, None)


# ---------------------------------------------------------------------- the key


def test_the_key_is_made_once_closed_to_others_and_used_again(tmp_path: Path) -> None:
    path = tmp_path / "data" / "audit.key"
    assert Signer(path).public() is None
    first = Signer(path).sign(1, "ab" * 32)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [name.name for name in path.parent.iterdir()] == ["audit.key"]
    assert Signer(path).public() == first.key
    path.chmod(0o644)
    assert Signer(path).sign(1, "ab" * 32) == first
    assert path.stat().st_mode & 0o777 == 0o600


def test_processes_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from leeward.memory.audit.signing import Signer;"
        "print(Signer(Path(sys.argv[1])).sign(1, 'ab' * 32).key)"
    )
    with ExitStack() as stack:
        argv = [sys.executable, "-c", script, tmp_path / "k"]
        children = [
            stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) for _ in range(4)
        ]
        assert len({child.communicate(timeout=60)[0] for child in children}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("no key"),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(os.urandom(100_000)),
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        lambda path: path.write_text(_rsa()),
    ],
)
async def test_a_key_that_is_none_is_told_and_stops_no_record(
    audit: AuditLogger, database: Database, spoil
) -> None:
    key = database.path.with_name("audit.key")
    spoil(key)
    await audit.start_session("s", "/w", "c")
    await turns(audit, 2 * SIGN_EVERY)
    with pytest.raises(RecordError, match=r"audit\.key cannot be used, so the audit cannot be signed"):
        await audit.sign_head()
    with pytest.raises(RecordError, match="cannot be signed"):
        await audit.end_session("s")
    records = await audit.list_records(limit=1000)
    assert len(records) == 2 * SIGN_EVERY + 2
    assert records[-1].kind == "ended", "it ended all the same"
    key.rmdir() if key.is_dir() else key.unlink()
    assert (await audit.verify()).problem is None
    assert (await audit.sign_head()).count == 2 * SIGN_EVERY + 2


def _rsa() -> str:
    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


# ---------------------------------------------------------------------- the second place


@pytest.fixture
async def elsewhere(database: Database, clock, tmp_path: Path) -> AsyncIterator[AuditLogger]:
    (tmp_path / "other").mkdir()
    yield AuditLogger(database, clock, heads=tmp_path / "other" / "heads")


async def test_every_head_is_added_to_the_file_elsewhere(elsewhere: AuditLogger, tmp_path: Path) -> None:
    file = tmp_path / "other" / "heads"
    await elsewhere.start_session("s", "/w", "c")
    assert file.read_text() == ""
    assert file.stat().st_mode & 0o777 == 0o600
    for _ in range(SIGN_EVERY + 2):
        await turns(elsewhere, 1)
    assert file.read_text().count("\n") == 1, "a process that is killed has left its heads there"
    await elsewhere.sign_head()
    await elsewhere.end_session("s")
    heads = [Head.parse(line) for line in file.read_text().splitlines()]
    assert heads == await elsewhere.heads()
    assert len(heads) == 3
    for head in heads:
        assert (await elsewhere.verify(head)).problem is None


async def test_a_file_elsewhere_that_cannot_be_written_is_told_before_anything_runs(
    database: Database, clock, tmp_path: Path
) -> None:
    audit = AuditLogger(database, clock, heads=tmp_path / "nowhere" / "heads")
    with pytest.raises(RecordError, match=r"could not be written to .*nowhere/heads: No such file"):
        await audit.start_session("s", "/w", "c")
    assert await audit.list_records() == []


async def test_heads_that_could_not_be_written_elsewhere_are_written_later(
    elsewhere: AuditLogger, tmp_path: Path
) -> None:
    folder, away = tmp_path / "other", tmp_path / "away"
    await elsewhere.start_session("s", "/w", "c")
    folder.rename(away)
    await turns(elsewhere, SIGN_EVERY)
    await turns(elsewhere, SIGN_EVERY)
    with pytest.raises(RecordError, match="could not be written to"):
        await elsewhere.sign_head()
    away.rename(folder)
    await elsewhere.end_session("s")
    heads = [Head.parse(line) for line in (folder / "heads").read_text().splitlines()]
    assert heads == await elsewhere.heads()
    assert len(heads) == 4


# ---------------------------------------------------------------------- cutting at a head


async def test_the_audit_is_cut_at_a_signed_head_only(audit: AuditLogger, database: Database) -> None:
    await turns(audit, 9)
    first = await audit.sign_head()
    await turns(audit, 5)
    second = await audit.sign_head()
    await turns(audit, 5)
    mine = Signer(database.path.with_name("mine")).sign(second.count, second.hash)
    for wrong in (mine, Head(3, "ab" * 32, first.key, first.signature), Head(99, *("ab",) * 3)):
        with pytest.raises(RecordError, match="can only be cut at a signed head that is on record"):
            await audit.prune(wrong)
    assert await audit.prune(second) == 15
    records = await audit.list_records()
    assert [record.kind for record in records] == ["head", *["turn"] * 5, "pruned", "head"]
    assert records[-2].body == {"records": 15, "count": 15, "hash": second.hash}
    verified = await audit.verify(second)
    assert (verified.records, verified.heads, verified.problem) == (8, 2, None)
    assert (await audit.verify(first)).problem is None, "what it is about was pruned, and that was signed"
    assert await audit.prune(second) == 0
    assert len(await audit.list_records()) == 8
    with pytest.raises(RecordError, match="can only be cut"):
        await audit.prune(first)
    third = await audit.sign_head()
    await turns(audit, 3)
    assert await audit.prune(third) == 8
    assert (await audit.verify(second)).problem is None


async def test_who_cuts_without_a_signature_is_found(audit: AuditLogger, database: Database) -> None:
    await turns(audit, 9)
    await audit.sign_head()
    await turns(audit, 9)
    await audit.sign_head()
    await database.write([("DELETE FROM audit WHERE seq <= 9", ())])
    problem = (await audit.verify()).problem
    assert problem is not None
    assert (problem.seq, problem.kind) == (1, Fault.MISSING)
    told = '{"count":9,"hash":"","records":9}'
    await database.write(drafts=[RecordRow(1.0, "", "pruned", None, None, told, "x")])
    assert (await audit.verify()).problem == problem, "it is not enough to say so"


async def test_a_cut_further_than_was_told_is_found(audit: AuditLogger, database: Database) -> None:
    heads = []
    for _ in range(4):
        await turns(audit, 4)
        heads.append(await audit.sign_head())
    await audit.prune(heads[1])
    await database.write([("DELETE FROM audit WHERE seq <= ?", (heads[2].count,))])
    problem = (await audit.verify()).problem
    assert problem is not None
    assert (problem.seq, problem.kind) == (1, Fault.MISSING)


async def test_a_pruning_that_cannot_be_written_changes_nothing(
    audit: AuditLogger, database: Database
) -> None:
    await turns(audit, 9)
    head = await audit.sign_head()
    await database.read("PRAGMA query_only = ON")
    with pytest.raises(RecordError, match="read-only"):
        await audit.prune(head)
    await database.read("PRAGMA query_only = OFF")
    assert len(await audit.list_records()) == 10
    assert (await audit.verify(head)).problem is None


# ---------------------------------------------------------------------- where the chain is broken


@pytest.mark.parametrize("hash_", ["x'01'", "'a text of thirty-two characters.'"])
async def test_nothing_is_chained_to_what_is_no_hash(
    audit: AuditLogger, database: Database, hash_: str
) -> None:
    await turns(audit, 2)
    await database.read("PRAGMA ignore_check_constraints = ON")
    await database.write([(f"UPDATE audit SET hash = {hash_} WHERE seq = 2", ())])
    with pytest.raises(RecordError, match="record 2 of the audit carries no hash"):
        await turns(audit, 1)
    assert len(await audit.list_records()) == 2


async def test_the_signature_is_what_openssl_would_say(audit: AuditLogger, database: Database) -> None:
    """Anybody can check a head without this program."""
    head = await audit.sign_head()
    key = load_pem_private_key(database.path.with_name("audit.key").read_bytes(), None).public_key()
    key.verify(
        bytes.fromhex(head.signature), b"leeward audit head 1\0" + f"{head.count} {head.hash}".encode()
    )
    with closing(sqlite3.connect(database.path)) as other, other:
        assert other.execute("SELECT json_extract(body, '$.key') FROM audit").fetchone() == (head.key,)
