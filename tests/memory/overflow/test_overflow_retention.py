"""Deletion of outputs: too old, over the budget, or unfinished; no reader sees a partial one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio

from leeward.memory.database import CHUNK, Database
from leeward.memory.overflow import LineQuery, OverflowNotFound, OverflowStore
from leeward.memory.overflow import spool as spool_module
from leeward.memory.overflow.retention import TRANSACTION, _ranges
from leeward.security.ports import RecordError
from leeward.security.trust import Origin

BIG = "".join(f"line {number} of many, é and 😀\n" for number in range(20_000))
DAY = 86_400
WEB = Origin.WEB


def noise(size: int, seed: int = 0) -> str:
    """A text that hardly gets shorter."""
    return "".join(map(chr, random.Random(seed).choices(range(0x4E00, 0x9FFF), k=size)))


@pytest.fixture
def store(database: Database, clock) -> OverflowStore:
    return OverflowStore(database, clock)


async def count(database: Database, table: str) -> int:
    ((rows,),) = await database.read(f"SELECT count(*) FROM {table}")
    return rows


async def nothing_left(database: Database) -> bool:
    return [await count(database, table) for table in ("overflow", "overflow_chunk", "overflow_link")] == [
        0,
        0,
        0,
    ]


async def test_what_is_old_is_forgotten(store: OverflowStore, database: Database, clock) -> None:
    old = await store.put("s", BIG, WEB)
    shared = await store.put("s", "shared", WEB)
    clock.time += 4 * DAY
    await store.put("t", "shared", WEB)
    fresh = await store.put("s", "fresh", WEB)
    clock.time += 3.5 * DAY
    pruned = await store.prune()
    assert pruned.texts == 1 and 0 < pruned.bytes < len(BIG)
    assert [entry.id for entry in await store.entries("s")] == [fresh]
    assert [entry.id for entry in await store.entries("t")] == [shared]
    for gone in (old, shared):
        with pytest.raises(OverflowNotFound):
            await store.get("s", gone)
    await store.prune(retention_days=3)
    assert await nothing_left(database)


async def test_putting_again_keeps_a_text(store: OverflowStore, clock) -> None:
    ref = await store.put("s", BIG, WEB)
    clock.time += 6 * DAY
    await store.put("s", BIG, WEB)
    clock.time += 6 * DAY
    await store.prune()
    assert (await store.entry("s", ref)).chars == len(BIG)


async def test_what_no_session_has_any_more_goes_at_once(store: OverflowStore, database: Database) -> None:
    """A session that is deleted takes its links along; what another session has stays."""
    await store.put("s", BIG, WEB)
    both = await store.put("s", "both", WEB)
    await store.put("t", "both", WEB)
    await database.write([("DELETE FROM overflow_link WHERE session = 's'", ())])
    await store.prune()
    assert await count(database, "overflow") == 1 and (await store.get("t", both)).text == "both"


async def test_over_the_budget_what_was_read_longest_ago_goes(database: Database, clock) -> None:
    texts = [noise(100_000, seed) for seed in range(5)]
    store = OverflowStore(database, clock, max_total=1_000_000)  # room for four of them
    refs = []
    for text in texts[:4]:
        refs.append(await store.put("s", text, WEB))
        clock.time += 3600
    await store.get("s", refs[0])
    clock.time += 3600
    refs.append(await store.put("s", texts[4], WEB))
    kept = {entry.id for entry in await store.entries("s")}
    assert kept == {refs[0], refs[2], refs[3], refs[4]}, "the second was used longest ago"
    assert await count(database, "overflow") == 4
    ((stored,),) = await database.read("SELECT sum(length(body)) FROM overflow_chunk")
    assert stored <= 1_000_000


async def test_others_make_room_while_a_long_one_is_written(database: Database, clock, monkeypatch) -> None:
    monkeypatch.setattr(spool_module, "_FITTED_EVERY", 300_000)
    store = OverflowStore(database, clock, max_total=2_000_000)
    for seed in range(4):
        await store.put("s", noise(200_000, seed), WEB)
        clock.time += 1
    spool, text, totals = store.spool("s"), noise(700_000, 9), []
    for start in range(0, len(text), 50_000):
        await spool.write(text[start : start + 50_000])
        ((total,),) = await database.read("SELECT sum(length(body)) FROM overflow_chunk")
        totals.append(total)
    key = await spool.finish(WEB)
    assert max(totals) <= 2_000_000 + 700_000 and key in {entry.id for entry in await store.entries("s")}
    assert len(await store.entries("s")) < 5


async def test_one_that_is_more_than_the_budget_is_not_kept_and_costs_no_other(
    database: Database, clock
) -> None:
    store = OverflowStore(database, clock, max_total=500_000)
    small = await store.put("s", "small", WEB)
    with pytest.raises(RecordError, match="more than the 500000 bytes that all of them may take"):
        await store.put("s", noise(1_000_000), WEB)
    assert [entry.id for entry in await store.entries("s")] == [small]
    await store.prune()
    assert await count(database, "overflow") == 1


async def test_a_smaller_budget_is_kept_to_at_the_next_clean_up(database: Database, clock) -> None:
    store = OverflowStore(database, clock)
    refs = []
    for seed in range(4):
        refs.append(await store.put("s", noise(50_000, seed), WEB))
        clock.time += 1
    await OverflowStore(database, clock, max_total=250_000).prune()
    assert [entry.id for entry in await store.entries("s")] == refs[2:]


@pytest.mark.parametrize("idle", [0, 3_000, 4_000])
async def test_what_was_left_half_written_goes_when_nobody_has_added_to_it_for_long(
    store: OverflowStore, database: Database, clock, idle: int
) -> None:
    spool = store.spool("s")
    await spool.write(noise(300_000))
    before = await count(database, "overflow_chunk")
    assert before > 0
    clock.time += idle
    await store.prune()
    assert await count(database, "overflow_chunk") == (0 if idle > 3_600 else before)
    if idle > 3_600:
        with pytest.raises(RecordError):
            await spool.write(noise(600_000))
            await spool.finish(WEB)
        assert await store.entries("s") == []
    else:
        assert (await store.get("s", await spool.finish(WEB))).entry.chars == 300_000


async def test_what_was_given_up_goes_at_the_next_clean_up(store: OverflowStore, database: Database) -> None:
    spool = store.spool("s")
    await spool.write(noise(300_000))
    spool.abandon()
    await store.prune()
    assert await nothing_left(database)


async def test_a_clean_up_may_do_only_a_part_and_the_next_one_goes_on(
    store: OverflowStore, database: Database, clock
) -> None:
    await store.put("s", noise(2_000_000), WEB)
    chunks = await count(database, "overflow_chunk")
    clock.time += 8 * DAY
    assert (await store.prune(most=TRANSACTION)).bytes <= 2 * TRANSACTION
    left = await count(database, "overflow_chunk")
    assert 0 < left < chunks and await store.entries("s") == []
    await store.prune()
    assert await nothing_left(database)


async def test_deleting_is_done_in_small_transactions(
    store: OverflowStore, database: Database, clock, monkeypatch
) -> None:
    await store.put("s", noise(1_000_000), WEB)
    sizes = dict(await database.read("SELECT number, length(body) FROM overflow_chunk"))
    queue, deleted = database.queue, []

    def watched(statements=(), drafts=()):
        for sql, values in statements:
            if sql.startswith("DELETE FROM overflow_chunk"):
                _, first, last = values
                deleted.append(sum(sizes[number] for number in range(first, last + 1)))
        return queue(statements, drafts)

    clock.time += 8 * DAY
    monkeypatch.setattr(database, "queue", watched)
    await store.prune()
    assert sum(deleted) == sum(sizes.values()) and len(deleted) > 5 and max(deleted) <= TRANSACTION


@pytest.mark.parametrize(
    ("sizes", "ranges"),
    [
        ([], []),
        ([(0, 5)], [(0, 0, 5)]),
        ([(0, TRANSACTION), (1, 1)], [(0, 0, TRANSACTION), (1, 1, 1)]),
        (
            [(3, 100), (4, 200), (5, TRANSACTION * 2), (6, 1)],
            [(3, 4, 300), (5, 5, TRANSACTION * 2), (6, 6, 1)],
        ),
    ],
)
def test_neighbours_are_deleted_together(sizes, ranges) -> None:
    assert list(_ranges(sizes)) == ranges


async def test_a_reader_gets_all_it_asked_for_or_is_told(
    store: OverflowStore, database: Database, clock
) -> None:
    """While a text goes, a page of it is whole or there is none, and a search never misses a part
    in silence.
    """
    text = "".join(f"{number:07}\n" for number in range(200_000))
    ref = await store.put("s", text, WEB)
    outcomes: list[str] = []

    async def read(how: Callable[[], object]) -> None:
        while True:
            try:
                await how()
            except OverflowNotFound:
                outcomes.append("gone")
                return
            outcomes.append("whole")

    async def page() -> None:
        found = await store.get("s", ref, 3 * CHUNK - 10, 2 * CHUNK)
        assert found.text == text[3 * CHUNK - 10 : 5 * CHUNK - 10]

    async def search() -> None:
        found = await store.search("s", ref, LineQuery("99999$", 100))
        assert [hit.line for hit in found.lines] == [100_000, 200_000]

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, page)
            nursery.start_soon(read, search)
            while outcomes.count("whole") < 4:
                await trio.sleep(0.001)
            clock.time += 8 * DAY
            nursery.start_soon(store.prune)
    assert outcomes.count("gone") == 2 and await nothing_left(database)


async def test_a_text_that_is_put_again_while_it_goes_is_there_afterwards(
    store: OverflowStore, clock
) -> None:
    for _ in range(5):
        await store.put("s", BIG, WEB)
        clock.time += 8 * DAY
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.prune)
            nursery.start_soon(store.put, "t", BIG, WEB)
        (entry,) = await store.entries("t")
        assert (await store.get("t", entry.id, 0, len(BIG))).text == BIG


async def test_that_a_text_was_read_is_noted_now_and_then_only(
    store: OverflowStore, database: Database, clock, monkeypatch
) -> None:
    ref = await store.put("s", "text", WEB)
    writes, write = [], database.write

    async def watched(*what):
        writes.append(what)
        await write(*what)

    monkeypatch.setattr(database, "write", watched)
    for _ in range(3):
        await store.get("s", ref)
    assert writes == []
    clock.time += 3600
    for _ in range(3):
        await store.get("s", ref)
    assert len(writes) == 1
    clock.time += 3600
    await database.read("PRAGMA query_only = ON")
    assert (await store.get("s", ref)).text == "text", "a note that cannot be made harms no reader"
