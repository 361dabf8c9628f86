"""Outputs stored while they arrive: whole or not at all, whatever fails."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from leeward.memory.checkpoints import CheckpointStore, packed_content
from leeward.memory.database import CHUNK, AsyncioThread, Database
from leeward.memory.overflow import OverflowStore
from leeward.memory.overflow.spool import id_of
from leeward.memory.overflow.store import StoredText
from leeward.security import ports
from leeward.security.ports import RecordError
from leeward.security.trust import Origin

BIG = "".join(f"line {number} of many, é and 😀\n" for number in range(20_000))
NOISE = "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x9FFF), k=500_000)))
WEB = Origin.WEB

_WRITER = """
import random, sys, trio
from leeward.memory.database import Database, AsyncioThread
from leeward.memory.overflow import LineQuery, OverflowNotFound, OverflowStore
from leeward.security.trust import Origin
from leeward.security.ports import RecordError

class Clock:
    time = 1_000_000.0
    def now(self):
        return self.time

def noise(size, seed):
    return "".join(map(chr, random.Random(seed).choices(range(0x4E00, 0x9FFF), k=size)))

async def main(path, session, rounds):
    clock = Clock()
    async with (
        AsyncioThread.open("storage") as asyncio_thread,
        Database.open(path, asyncio_thread, busy_seconds=30) as database,
    ):
        store = OverflowStore(database, clock, max_total=4_000_000)
        print("open", flush=True)
        for number in range(rounds):
            spool, text = store.spool(session), noise(150_000, number % 3) + session * (number % 2)
            for start in range(0, len(text), 20_000):
                await spool.write(text[start:start + 20_000])
                print("wrote", flush=True)
            key = await spool.finish(Origin.WEB)
            print(key, flush=True)
            try:
                assert (await store.get(session, key, 0, len(text))).text == text
            except OverflowNotFound:
                print("evicted", flush=True)
            if number % 4 == 3:
                await store.prune()

trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def writer(path: Path, session: str, rounds: int) -> subprocess.Popen:
    argv = [sys.executable, "-W", "error", "-c", _WRITER, path, session, str(rounds)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def store(database: Database, clock) -> OverflowStore:
    return OverflowStore(database, clock)


async def count(database: Database, table: str) -> int:
    ((rows,),) = await database.read(f"SELECT count(*) FROM {table}")
    return rows


async def whole(store: OverflowStore, session: str, entry: StoredText) -> str:
    return (await store.get(session, entry.id, 0, entry.chars)).text


async def fed(spool: ports.Spool, text: str, size: int) -> None:
    for start in range(0, len(text), size):
        await spool.write(text[start : start + size])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 1),
        ("x", 1),
        (BIG, 1_000),
        (BIG, CHUNK),
        (BIG, len(BIG)),
        ("\ud83d\ude00" * CHUNK, 999),
        ("x" * 300_000, 77_777),
    ],
)
async def test_however_a_text_came_it_is_the_same_text(store: OverflowStore, text: str, size: int) -> None:
    port: ports.Spool = store.spool("s")
    await fed(port, text, size)
    key = await port.finish(WEB)
    port.abandon()
    page = await store.get("s", key, 0, len(text) + 1)
    whole = await store.entry("t", await store.put("t", text, WEB))
    assert page.text == text and page.entry.id == whole.id
    assert (page.entry.chars, page.entry.lines, page.entry.bytes) == (whole.chars, whole.lines, whole.bytes)


async def test_nobody_reads_a_text_before_its_end(store: OverflowStore, database: Database) -> None:
    spool = store.spool("s")
    await fed(spool, NOISE, 50_000)
    assert await count(database, "overflow_chunk") > 0 and await store.entries("s") == []
    assert await database.read("SELECT id FROM overflow") == [(None,)]
    key = await spool.finish(WEB)
    assert [entry.id for entry in await store.entries("s")] == [key]


async def test_what_was_kept_already_is_not_kept_twice(store: OverflowStore, database: Database) -> None:
    key = await store.put("mine", BIG, WEB)
    chunks = await count(database, "overflow_chunk")
    spool = store.spool("yours")
    await fed(spool, BIG, 10_000)
    assert await spool.finish(Origin.WORKSPACE) == key
    assert (await count(database, "overflow"), await count(database, "overflow_chunk")) == (1, chunks)
    assert (await store.entry("yours", key)).origin is Origin.WORKSPACE
    assert (await store.entry("mine", key)).origin is WEB


async def test_eight_at_once_each_get_their_own_and_the_audit_goes_first(
    store: OverflowStore, database: Database
) -> None:
    keys: dict[int, str] = {}
    texts = {number: BIG.replace("many", f"those of {number % 4}") for number in range(8)}

    async def put(number: int) -> None:
        spool = store.spool(f"s{number}")
        await fed(spool, texts[number], 30_000)
        keys[number] = await spool.finish(WEB)

    async with trio.open_nursery() as nursery:
        for number in texts:
            nursery.start_soon(put, number)
    for number, text in texts.items():
        assert (await store.get(f"s{number}", keys[number], 0, len(text))).text == text
    assert await count(database, "overflow") == 4


async def test_a_caller_who_is_cancelled_leaves_no_hole(store: OverflowStore) -> None:
    spool, text = store.spool("s"), BIG * 3
    for start in range(0, len(text), 100_000):
        with trio.CancelScope() as scope:
            scope.cancel()
            await spool.write(text[start : start + 100_000])
    key = await spool.finish(WEB)
    assert (await store.get("s", key, 0, len(text))).text == text


async def test_a_part_that_could_not_be_written_makes_no_whole(
    store: OverflowStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that nobody waited for may fail unheard: the end counts what is there."""
    queue, number = database.queue, 0

    def losing(statements=(), drafts=()):
        nonlocal number
        number += 1
        kept = [one for one in statements if not one[0].startswith("INSERT INTO overflow_chunk")]
        return queue(kept if number == 2 else statements, drafts)

    monkeypatch.setattr(database, "queue", losing)
    spool = store.spool("s")
    await fed(spool, NOISE, 50_000)
    with pytest.raises(RecordError, match="before it was complete"):
        await spool.finish(WEB)
    assert await store.entries("s") == []
    await store.prune()
    assert await count(database, "overflow_chunk") == 0


async def test_a_disk_that_is_full_is_told_and_what_was_written_goes(
    store: OverflowStore, database: Database
) -> None:
    kept = await store.put("s", BIG, WEB)
    ((pages,),) = await database.read("PRAGMA page_count")
    await database.read(f"PRAGMA max_page_count = {pages + 100}")
    spool = store.spool("s")
    with pytest.raises(RecordError, match="the disk is full"):
        await fed(spool, NOISE, 50_000)
    spool.abandon()
    assert [entry.id for entry in await store.entries("s")] == [kept]
    await store.prune()
    await database.read("PRAGMA max_page_count = 1000000")
    assert (await store.get("s", await store.put("s", "room again", WEB))).text == "room again"
    assert await count(database, "overflow") == 2


async def test_the_last_of_a_disk_is_left_to_the_records(
    store: OverflowStore, database: Database, monkeypatch
) -> None:
    """An output that fills the disk would stop every call after it, and the clean-up as well."""
    kept = await store.put("s", "short", WEB)
    room = [40 << 20, 36 << 20, 31 << 20]
    disk = os.statvfs(database.path.parent)

    def shrinking(_path: Path) -> os.statvfs_result:
        free = room.pop(0) if len(room) > 1 else room[0]
        return os.statvfs_result((*disk[:1], 1, 10**9, free, free, *disk[5:]))

    monkeypatch.setattr(os, "statvfs", shrinking)
    spool = store.spool("s")
    with pytest.raises(
        RecordError, match=r"^31 MiB are left on the disk of .*, and the last 32 are for the audit"
    ):
        await fed(spool, NOISE, 50_000)
    assert [entry.id for entry in await store.entries("s")] == [kept]
    assert await count(database, "overflow_chunk") == 1, "what was written is given back at once"
    with pytest.raises(RecordError, match="31 MiB are left"):
        await store.put("s", "also too much", WEB)
    assert (await store.get("s", kept)).text == "short"
    assert await store.put("other", "short", WEB) == kept, "what is there already takes no room"
    with pytest.raises(RecordError, match="31 MiB are left"):
        await CheckpointStore(database, store._clock, 10**9).put([packed_content("h", b"x")])
    room[0] = 33 << 20
    assert (await store.get("s", await store.put("s", "room again", WEB))).text == "room again"


async def test_a_disk_that_does_not_say_how_big_it_is_is_written_to(
    store: OverflowStore, database: Database, monkeypatch
) -> None:
    disk = os.statvfs(database.path.parent)
    silent = os.statvfs_result((*disk[:2], 0, 0, 0, *disk[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: silent)
    assert (await store.get("s", await store.put("s", "text", WEB))).text == "text"

    def failing(_path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "statvfs", failing)
    with pytest.raises(RecordError, match="cannot be asked"):
        await store.put("s", "another", WEB)


async def test_a_kill_in_the_middle_leaves_nothing_that_can_be_read(
    tmp_path: Path, asyncio_thread: AsyncioThread, clock
) -> None:
    path, chance = tmp_path / "store.db", random.Random(7)
    finished: set[str] = set()
    for _ in range(5):
        with writer(path, "s", 1_000) as child:
            assert child.stdout is not None
            heard = [child.stdout.readline().strip() for _ in range(chance.randrange(2, 60))]
            child.kill()
            heard += [line.strip() for line in child.stdout.readlines() if line.endswith("\n")]
        assert child.returncode == -signal.SIGKILL
        finished |= {line for line in heard if line.startswith("of_")}
        async with Database.open(path, asyncio_thread) as database:
            store = OverflowStore(database, clock)
            kept = {entry.id: await whole(store, "s", entry) for entry in await store.entries("s")}
            assert finished <= set(kept)
            assert all(id_of(hashlib.sha256(text.encode()).digest()) == key for key, text in kept.items())
            assert await database.integrity() == []
    async with Database.open(path, asyncio_thread) as database:
        store = OverflowStore(database, clock)
        clock.time += 4_000
        await store.prune()
        assert await database.read("SELECT count(*) FROM overflow WHERE id IS NULL") == [(0,)]
        lost = "SELECT count(*) FROM overflow_chunk WHERE ref NOT IN (SELECT ref FROM overflow)"
        assert await database.read(lost) == [(0,)]


async def test_two_processes_write_evict_and_prune_one_file_at_once(
    tmp_path: Path, asyncio_thread: AsyncioThread, clock
) -> None:
    path = tmp_path / "store.db"
    children = [writer(path, name, 12) for name in ("one", "two")]
    for child in children:
        out, err = child.communicate(timeout=120)
        assert (child.returncode, err) == (0, "")
        assert sum(line.startswith("of_") for line in out.splitlines()) == 12
    async with Database.open(path, asyncio_thread) as database:
        assert await database.integrity() == []
        store = OverflowStore(database, clock)
        for session in ("one", "two"):
            for entry in await store.entries(session):
                assert len(await whole(store, session, entry)) == entry.chars
        await store.prune(retention_days=-1)
        assert await count(database, "overflow_chunk") == 0
