"""Tampering with the audit is detected, and where the chain does not fit is named."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.audit import AuditLogger, Head
from leeward.memory.audit.heads import ChainFault, Fault
from leeward.memory.audit.signing import Signer
from leeward.memory.database import GENESIS, AsyncioThread, Database, record_hash
from leeward.security.call import Status
from leeward.security.session import ConversationCleared, Decided, Finished, TurnStarted

COLUMNS = "at, session, kind, call, tool, body, id"
Tamper = Callable[[sqlite3.Connection], object]


class Clock:
    def now(self) -> float:
        return 7.0


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> tuple[Path, Head]:
    """A folder with an audit of 17 records, the 8th and the last of them heads, and the last head."""
    folder = tmp_path_factory.mktemp("audited")

    async def write() -> Head:
        async with (
            AsyncioThread.open("x") as asyncio_thread,
            Database.open(folder / "a.db", asyncio_thread) as database,
        ):
            audit = AuditLogger(database, Clock())
            await audit.start_session("s", "/w", "c")
            for number in range(3):
                call = f"c{number}"
                await audit.append("s", Decided(1.0, call, "shell", "d", True, arguments='{"a":"é"}'))
                await audit.append("s", Finished(2.0, call, "shell", "d", Status.OK))
            await audit.sign_head()
            await audit.append("s", *(TurnStarted(float(number)) for number in range(7)))
            await audit.end_session("s")
            return (await audit.heads())[-1]

    return folder, trio.run(write)


@pytest.fixture
def folder(audited: tuple[Path, Head], tmp_path: Path) -> Path:
    shutil.copytree(audited[0], tmp_path / "copy")
    return tmp_path / "copy"


async def found(folder: Path, anchor: Head | None = None) -> ChainFault | None:
    async with (
        AsyncioThread.open("x") as asyncio_thread,
        Database.open(folder / "a.db", asyncio_thread) as database,
    ):
        return (await AuditLogger(database, Clock()).verify(*([anchor] if anchor else ()))).problem


def tampered(folder: Path, tamper: Tamper) -> None:
    with closing(sqlite3.connect(folder / "a.db", isolation_level=None)) as connection:
        tamper(connection)


def run(sql: str, *values: object) -> Tamper:
    return lambda connection: connection.execute(sql, values)


def both(*steps: Tamper) -> Tamper:
    return lambda connection: [step(connection) for step in steps]


def swap(one: int, other: int, columns: str = f"{COLUMNS}, prev, hash") -> Tamper:
    """Exchange the contents of two rows."""

    def tamper(connection: sqlite3.Connection) -> None:
        rows = {
            seq: connection.execute(f"SELECT {columns} FROM audit WHERE seq = ?", (seq,)).fetchone()
            for seq in (one, other)
        }
        assignments = ", ".join(f"{column} = ?" for column in columns.split(", "))
        if "id" in columns.split(", "):
            connection.execute("UPDATE audit SET id = 'away' WHERE seq = ?", (other,))
        connection.execute(f"UPDATE audit SET {assignments} WHERE seq = ?", (*rows[other], one))
        connection.execute(f"UPDATE audit SET {assignments} WHERE seq = ?", (*rows[one], other))

    return tamper


def shift(behind: int, by: int) -> Tamper:
    """Move all rows behind one up or down, so that no number is missing."""
    return both(
        run("UPDATE audit SET seq = -seq - ? WHERE seq > ?", by, behind),
        run("UPDATE audit SET seq = -seq WHERE seq < 0"),
    )


def put(seq: int, prev: str = "x", whole: bool = True) -> Tamper:
    """Put a row in, chained to the one before if it is whole."""

    def tamper(connection: sqlite3.Connection) -> None:
        tip = connection.execute("SELECT hash FROM audit WHERE seq = ?", (seq - 1,)).fetchone()[0]
        prev_ = tip if prev == "tip" else b"\1" * 32
        texts = ("s", "turn", None, None, '{"at":9.0}', f"new{seq}")
        own = record_hash(prev_, 9.0, *texts) if whole else b"\2" * 32
        connection.execute(
            f"INSERT INTO audit (seq, {COLUMNS}, prev, hash) VALUES (?, 9.0, ?, ?, ?, ?, ?, ?, ?, ?)",
            (seq, *texts, prev_, own),
        )

    return tamper


def rechain(first: int) -> Tamper:
    """Make the chain whole again from a row on, as somebody can who has read how it is made."""

    def tamper(connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT hash FROM audit WHERE seq = ?", (first - 1,)).fetchone()
        tip = row[0] if row else GENESIS
        for seq, *columns in connection.execute(
            f"SELECT seq, {COLUMNS} FROM audit WHERE seq >= ? ORDER BY seq", (first,)
        ).fetchall():
            own = record_hash(tip, *columns)
            connection.execute("UPDATE audit SET prev = ?, hash = ? WHERE seq = ?", (tip, own, seq))
            tip = own

    return tamper


def signed_by_another(connection: sqlite3.Connection) -> None:
    """Sign the last head anew with a key of one's own."""
    (database,) = {row[2] for row in connection.execute("PRAGMA database_list")}
    ((seq, prev),) = connection.execute("SELECT seq, prev FROM audit ORDER BY seq DESC LIMIT 1")
    head = Signer(Path(database).with_name("another.key")).sign(seq - 1, prev.hex())
    connection.execute("UPDATE audit SET body = ? WHERE seq = ?", (head.body(), seq))
    rechain(seq)(connection)


TABLE = [
    # ---- one flipped byte, in each column
    (
        "a letter of a body", run("UPDATE audit SET body = replace(body, 'shell', 'shelk') WHERE seq = 4"), 4,
        Fault.CHANGED,
    ),
    (
        "a byte that makes the text none",
        run(
            "UPDATE audit SET body = CAST(CAST(substr(body, 1, 5) AS BLOB) || x'ff' || CAST(substr(body, 7) "
            "AS BLOB) AS TEXT) WHERE seq = 4"
        ),
        4, Fault.CHANGED,
    ),
    ("a time", run("UPDATE audit SET at = at + 0.5 WHERE seq = 5"), 5, Fault.CHANGED),
    ("a session", run("UPDATE audit SET session = 't' WHERE seq = 5"), 5, Fault.CHANGED),
    ("a kind", run("UPDATE audit SET kind = 'outcom' WHERE seq = 5"), 5, Fault.CHANGED),
    ("a call", run("UPDATE audit SET call = 'd1' WHERE seq = 5"), 5, Fault.CHANGED),
    ("a call that is gone", run("UPDATE audit SET call = NULL WHERE seq = 5"), 5, Fault.CHANGED),
    ("a call that comes from nowhere", run("UPDATE audit SET call = '' WHERE seq = 9"), 9, Fault.CHANGED),
    ("a tool", run("UPDATE audit SET tool = 'shelk' WHERE seq = 5"), 5, Fault.CHANGED),
    (
        "call and tool run together", run("UPDATE audit SET call = 'c1s', tool = 'hell' WHERE seq = 5"), 5,
        Fault.CHANGED,
    ),
    ("an id", run("UPDATE audit SET id = id || 'x' WHERE seq = 5"), 5, Fault.CHANGED),
    (
        "a previous hash",
        run(
            "UPDATE audit SET prev = CAST(iif(substr(prev, 1, 1) = x'01', x'02', x'01') || substr(prev, 2) "
            "AS BLOB) WHERE seq = 5"
        ),
        5, Fault.CHANGED,
    ),
    (
        "a hash",
        run(
            "UPDATE audit SET hash = CAST(iif(substr(hash, 1, 1) = x'01', x'02', x'01') || substr(hash, 2) "
            "AS BLOB) WHERE seq = 5"
        ),
        5, Fault.CHANGED,
    ),
    ("the first record", run("UPDATE audit SET body = '{}' WHERE seq = 1"), 1, Fault.CHANGED),
    ("the last but the head", run("UPDATE audit SET body = '{} ' WHERE seq = 16"), 16, Fault.CHANGED),
    (
        "the same bytes as another type", run("UPDATE audit SET call = CAST(call AS BLOB) WHERE seq = 5"), 5,
        Fault.CHANGED,
    ),
    (
        "a hash that is a text",
        run("UPDATE audit SET hash = '01234567890123456789012345678901' WHERE seq = 5"), 5, Fault.CHANGED,
    ),
    # ---- one deleted row
    ("one is gone", run("DELETE FROM audit WHERE seq = 5"), 5, Fault.MISSING),
    ("the first is gone", run("DELETE FROM audit WHERE seq = 1"), 1, Fault.MISSING),
    ("many are gone", run("DELETE FROM audit WHERE seq BETWEEN 5 AND 9"), 5, Fault.MISSING),
    (
        "one is gone, and the others moved up", both(run("DELETE FROM audit WHERE seq = 5"), shift(5, -1)), 5,
        Fault.OUT_OF_PLACE,
    ),
    (
        "the first is gone, and the others moved up",
        both(run("DELETE FROM audit WHERE seq = 1"), shift(1, -1)), 1, Fault.OUT_OF_PLACE,
    ),
    ("a head is gone", run("DELETE FROM audit WHERE seq = 8"), 8, Fault.MISSING),
    ("all before a head are gone", run("DELETE FROM audit WHERE seq < 8"), 1, Fault.MISSING),
    # ---- two swapped
    ("two neighbours", swap(4, 5), 4, Fault.OUT_OF_PLACE),
    ("two from afar", swap(3, 14), 3, Fault.OUT_OF_PLACE),
    ("the contents of two, their hashes left", swap(3, 14, COLUMNS), 3, Fault.CHANGED),
    ("the bodies of two, all else left", swap(3, 5, "body"), 3, Fault.CHANGED),
    ("a head and another", swap(8, 9), 8, Fault.OUT_OF_PLACE),
    # ---- one put in
    ("put in, with any hash", both(shift(4, 1), put(5, whole=False)), 5, Fault.CHANGED),
    ("put in, chained to nothing", both(shift(4, 1), put(5)), 5, Fault.OUT_OF_PLACE),
    ("put in, chained to the one before", both(shift(4, 1), put(5, "tip")), 6, Fault.OUT_OF_PLACE),
    ("put in, chained, its hash wrong", both(shift(4, 1), put(5, "tip", whole=False)), 5, Fault.CHANGED),
    ("added to the end, chained to nothing", put(18), 18, Fault.OUT_OF_PLACE),
    ("added to the end, with any hash", put(18, whole=False), 18, Fault.CHANGED),
    # ---- changed, and the chain made anew: the heads know
    (
        "changed and chained anew", both(run("UPDATE audit SET tool = 'none' WHERE seq = 4"), rechain(4)), 8,
        Fault.HEAD,
    ),
    (
        "deleted and chained anew", both(run("DELETE FROM audit WHERE seq = 10"), shift(10, -1), rechain(10)),
        16, Fault.HEAD,
    ),
    (
        "changed behind a head", both(run("UPDATE audit SET at = 3.5 WHERE seq = 12"), rechain(12)), 17,
        Fault.HEAD,
    ),
    # ---- a head replaced
    (
        "a head by an older one",
        run("UPDATE audit SET body = (SELECT body FROM audit WHERE seq = 8) WHERE seq = 17"), 17, Fault.HEAD,
    ),
    (
        "a head by an older one, chained anew",
        both(
            run("UPDATE audit SET body = (SELECT body FROM audit WHERE seq = 8) WHERE seq = 17"), rechain(17),
        ),
        17, Fault.HEAD,
    ),
    (
        "a head by nothing", both(run("UPDATE audit SET body = '{}' WHERE seq = 17"), rechain(17)), 17,
        Fault.HEAD,
    ),
    (
        "a head by no JSON", both(run("UPDATE audit SET body = '[' WHERE seq = 17"), rechain(17)), 17,
        Fault.HEAD,
    ),
    (
        "a head by one that is about another count",
        run("UPDATE audit SET body = json_set(body, '$.count', 15) WHERE seq = 17"), 17, Fault.SIGNATURE,
    ),
    (
        "a letter of a signature",
        run(
            "UPDATE audit SET body = json_set(body, '$.signature', replace(json_extract(body, "
            "'$.signature'), 'a', 'b')) WHERE seq = 17"
        ),
        17, Fault.SIGNATURE,
    ),
    ("a head signed with another key", signed_by_another, 17, Fault.SIGNATURE),
    ("the time of a head", run("UPDATE audit SET at = 1.0 WHERE seq = 17"), 17, Fault.CHANGED),
]  # fmt: skip


async def test_what_nobody_touched_is_whole(audited: tuple[Path, Head], folder: Path) -> None:
    async with (
        AsyncioThread.open("x") as asyncio_thread,
        Database.open(folder / "a.db", asyncio_thread) as database,
    ):
        audit = AuditLogger(database, Clock())
        verified = await audit.verify()
        assert (verified.records, verified.heads, verified.problem) == (17, 2, None)
        assert verified.head == audited[1]
        assert verified.head.count == 16
        for head in await audit.heads():
            assert await audit.verify(head) == verified
            assert await audit.verify(Head.parse(f" {head.line()}\n")) == verified
        await audit.append("s", ConversationCleared(1.0))
        assert (await audit.verify(audited[1])).problem is None, "what came later is no cut"


@pytest.mark.parametrize(("tamper", "seq", "kind"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
async def test_tampering_is_found_and_named(folder: Path, tamper: Tamper, seq: int, kind: Fault) -> None:
    tampered(folder, tamper)
    problem = await found(folder)
    assert problem is not None
    assert (problem.seq, problem.kind) == (seq, kind), problem
    assert str(seq) in problem.message or kind is Fault.MISSING


CUTS = [
    ("the last", run("DELETE FROM audit WHERE seq = 17"), None),
    ("the last head and what it signed", run("DELETE FROM audit WHERE seq > 10"), 11),
    ("all", run("DELETE FROM audit"), 1),
    (
        "cut, and written anew",
        both(run("DELETE FROM audit WHERE seq > 12"), *(put(seq, "tip") for seq in range(13, 20))), 8,
    ),
    (
        "all of it written anew",
        both(run("DELETE FROM audit WHERE seq > 1"), *(put(seq, "tip") for seq in range(2, 20))), 1,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tamper", "first"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS])
async def test_a_cut_end_shows_where_a_head_was_kept_elsewhere(
    audited: tuple[Path, Head], folder: Path, tamper: Tamper, first: int | None
) -> None:
    tampered(folder, tamper)
    assert await found(folder) is None, "nothing in the file can tell"
    problem = await found(folder, audited[1])
    if first is None:
        assert problem is None, "the head that was kept is about all records but itself"
    else:
        assert problem is not None
        assert (problem.seq, problem.kind) == (first, Fault.CUT)


async def test_a_head_from_elsewhere_must_be_right_itself(audited: tuple[Path, Head], folder: Path) -> None:
    head = audited[1]
    forged = Signer(folder / "mine.key").sign(head.count, head.hash)
    for wrong in (
        Head(head.count, head.hash, head.key, "0" * 128),
        Head(head.count - 1, head.hash, head.key, head.signature),
        Head(head.count, "0" * 64, head.key, head.signature),
        Head(head.count, head.hash, "f" * 64, head.signature),
        forged,
    ):
        problem = await found(folder, wrong)
        assert problem is not None
        assert problem.kind is Fault.SIGNATURE


async def test_without_its_key_no_head_is_believed(folder: Path) -> None:
    (folder / "audit.key").unlink()
    problem = await found(folder)
    assert problem is not None
    assert (problem.seq, problem.kind) == (8, Fault.SIGNATURE)
    assert "audit.key is missing" in problem.message
    assert not (folder / "audit.key").exists(), "looking makes none"


@pytest.mark.parametrize("seed", range(40))
async def test_any_flipped_byte_of_the_file_is_found_or_changes_nothing(folder: Path, seed: int) -> None:
    """Wherever it hits: a record, a page, an index, a part that nobody reads."""
    chance = random.Random(seed)
    path = folder / "a.db"
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute("SELECT * FROM audit").fetchall()
        # Half of them where the records stand: most of a small file is empty.
        pages = (
            [
                page
                for (page,) in connection.execute(
                    "SELECT pageno FROM dbstat WHERE name = 'audit' AND pagetype = 'leaf'"
                )
            ]
            if _has_dbstat(connection)
            else []
        )
    place = chance.randrange(4096, len(content))
    if pages and seed % 2:
        place = (chance.choice(pages) - 1) * 4096 + chance.randrange(4096)
    content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    try:
        problem = await found(folder)
    except Exception as error:  # the file is no database any more: it is refused in words
        assert "cannot be" in str(error) or "could not be" in str(error)
        return
    if problem is None and not list(folder.glob("a.db-kept/damaged-*")):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT * FROM audit NOT INDEXED ORDER BY seq").fetchall() == before


def _has_dbstat(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1 FROM dbstat LIMIT 1")
    except sqlite3.OperationalError:
        return False
    return True


async def test_a_long_audit_is_walked_page_by_page(folder: Path) -> None:
    async with (
        AsyncioThread.open("x") as asyncio_thread,
        Database.open(folder / "a.db", asyncio_thread) as database,
    ):
        audit = AuditLogger(database, Clock())
        await audit.append("s", *(TurnStarted(float(number)) for number in range(1000)))
        pages: list[int] = []
        read = database.read

        async def counted(sql, values=()):
            rows = await read(sql, values)
            if "LIMIT" in sql:
                pages.append(len(rows))
            return rows

        database.read = counted
        assert (await audit.verify()).records == 1018
        assert max(pages) <= 256
        assert sum(pages) == 1018


# ---------------------------------------------------------------------- heads as text


def test_a_head_is_read_back_from_its_line_and_its_record(tmp_path: Path) -> None:
    head = Signer(tmp_path / "k").sign(12, "ab" * 32)
    assert Head.parse(head.line()) == Head.of_body(head.body()) == head
    assert "\n" not in head.line()
    assert json.loads(head.body())["count"] == 12


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")))
@example("leeward-head 1 -1 " + "a" * 64 + " " + "a" * 64 + " " + "a" * 128)
@example("leeward-head 2 1 " + "a" * 64 + " " + "a" * 64 + " " + "a" * 128)
@example("leeward-head 1 ١ " + "a" * 64 + " " + "a" * 64 + " " + "a" * 128)
@example('{"count": true, "hash": 1, "key": null, "signature": []}')
@example('{"count": 1e400, "hash": "", "key": "", "signature": ""}')
@example("[" * 5000)
def test_what_is_no_head_is_not_taken_for_one(text: str) -> None:
    for read in (Head.parse, Head.of_body):
        try:
            head = read(text)
        except ValueError:
            continue
        assert Head.parse(head.line()) == head


# ---------------------------------------------------------------------- the hash

_TEXTS = st.lists(st.none() | st.text(max_size=8), min_size=6, max_size=6)


@given(st.binary(min_size=32, max_size=32), st.floats(allow_nan=False), _TEXTS, _TEXTS)
@example(GENESIS, -0.0, ["s", "k", None, "", "b", "i"], ["s", "k", "", None, "b", "i"])
@example(GENESIS, 1.0, ["ab", "c", None, None, "", "i"], ["a", "bc", None, None, "", "i"])
def test_two_records_have_two_hashes_and_a_stored_one_keeps_its_own(
    prev: bytes, at: float, texts: list, others: list
) -> None:
    own = record_hash(prev, at, *texts)
    assert (own == record_hash(prev, at, *others)) == (texts == others)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (at REAL, a TEXT, b TEXT, c TEXT, d TEXT, e TEXT, f TEXT)")
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", (at, *texts))
        (row,) = connection.execute("SELECT * FROM t")
        assert record_hash(prev, *row) == own


def test_the_obvious_wrong_hash_takes_two_records_for_one(planted) -> None:
    pairs = (
        ((None, ""), ("", None)),
        (("c1s", "hell"), ("c1", "shell")),
    )
    for one, other in pairs:
        records = [("s", "outcome", *columns, "{}", "i") for columns in (one, other)]
        assert len({planted("chain").record_hash(GENESIS, 1.0, *record) for record in records}) == 1
        assert len({record_hash(GENESIS, 1.0, *record) for record in records}) == 2


async def test_the_obvious_wrong_look_at_the_chain_finds_no_change(planted, folder: Path) -> None:
    is_chained = planted("chain").is_chained
    missed = set()
    for name, tamper, *_ in TABLE:
        shutil.copy(folder / "a.db", folder / "kept.db")
        tampered(folder, tamper)
        with closing(sqlite3.connect(folder / "a.db")) as connection:
            if is_chained(connection.execute("SELECT prev, hash FROM audit ORDER BY seq").fetchall()):
                missed.add(name)
        shutil.copy(folder / "kept.db", folder / "a.db")
    assert {
        "a letter of a body",
        "the first is gone",
        "the bodies of two, all else left",
        "changed and chained anew",
    } <= missed
