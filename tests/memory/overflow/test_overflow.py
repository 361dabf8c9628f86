"""Large outputs: stored once, read by page, private to their session, deleted in time."""

from __future__ import annotations

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from leeward.memory.database import CHUNK, AsyncioThread, Database, unpacked
from leeward.memory.database.migrations.m001_first import STATEMENTS as FIRST
from leeward.memory.database.schema import APPLICATION_ID
from leeward.memory.overflow import LineQuery, OverflowNotFound, OverflowStore
from leeward.memory.overflow import store as overflow_module
from leeward.security import ports
from leeward.security.ports import RecordError
from leeward.security.trust import Origin

BIG = "".join(f"line {number} of many, é and 😀\n" for number in range(20_000))
WEB = Origin.WEB


@pytest.fixture
def store(database: Database, clock) -> OverflowStore:
    return OverflowStore(database, clock)


async def count(database: Database, table: str) -> int:
    ((rows,),) = await database.read(f"SELECT count(*) FROM {table}")
    return rows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "one\ntwo\n",
        "x" * CHUNK,
        "x" * (CHUNK - 1) + "é" + "y",
        "\ud800" * CHUNK + "\udc00",
        "\ud83d\ude00",
        "a\0b\r\n\x1b[0m'",
        BIG,
    ],
)
async def test_a_text_comes_back_whole_and_by_page(store: OverflowStore, text: str) -> None:
    port: ports.OverflowStore = store
    ref = await port.put("s", text, WEB)
    assert re.fullmatch("of_[0-9a-f]{32}", ref)
    page = await store.get("s", ref, 0, len(text) + 10)
    assert (page.text, page.offset, page.next) == (text, 0, None)
    assert (page.entry.id, page.entry.chars, page.entry.bytes) == (
        ref,
        len(text),
        len(text.encode("utf-8", "surrogatepass")),
    )
    parts, offset = [], 0
    while offset is not None:
        page = await store.get("s", ref, offset, max(1, len(text) // 3))
        parts.append(page.text)
        assert page.offset == offset
        offset = page.next
    assert "".join(parts) == text


@pytest.mark.parametrize(
    ("offset", "limit", "text", "rest"),
    [
        (0, 4, "abcd", 4),
        (8, 2, "ij", None),
        (8, 100, "ij", None),
        (10, 5, "", None),
        (10**30, 5, "", None),
        (-5, 2, "ab", 2),
        (3, 0, "", 3),
        (3, -1, "", 3),
        (0, 10**30, "abcdefghij", None),
    ],
)
async def test_a_page_is_what_was_asked_for_and_no_more(
    store: OverflowStore, offset: int, limit: int, text: str, rest: int | None
) -> None:
    page = await store.get("s", await store.put("s", "abcdefghij", WEB), offset, limit)
    assert (page.text, page.next) == (text, rest)


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("\n\n", 2), ("a\nb", 2)])
async def test_lines_are_counted_as_a_person_would(store: OverflowStore, text: str, lines: int) -> None:
    assert (await store.entry("s", await store.put("s", text, WEB))).lines == lines


async def test_a_text_is_kept_once_and_read_only_by_whom_it_was_given_to(
    store: OverflowStore, database: Database
) -> None:
    ref = await store.put("mine", BIG, WEB)
    chunks = await count(database, "overflow_chunk")
    for read in (
        store.get("yours", ref),
        store.search("yours", ref, LineQuery("line")),
        store.entry("yours", ref),
        store.get("mine", "of_" + "0" * 32),
        store.get("mine", "' OR 1 --"),
        store.get("mine", "\ud800"),
    ):
        with pytest.raises(OverflowNotFound):
            await read
    assert await store.put("yours", BIG, WEB) == ref
    assert await store.put("mine", BIG, WEB) == ref
    assert (await store.get("yours", ref, 0, 6)).text == "line 0"
    assert await count(database, "overflow_chunk") == chunks
    assert await count(database, "overflow") == 1
    assert await store.put("mine", BIG + "x", WEB) != ref


@pytest.mark.parametrize(
    ("origins", "weakest"),
    [
        ([Origin.WORKSPACE], Origin.WORKSPACE),
        ([Origin.WORKSPACE, Origin.WEB], Origin.WEB),
        ([Origin.MCP, Origin.WORKSPACE, Origin.TOOL], Origin.MCP),
        ([Origin.TOOL, Origin.MODEL, Origin.PROJECT], Origin.MODEL),
    ],
)
async def test_a_text_weighs_as_much_as_the_least_it_came_from(
    store: OverflowStore, origins: list[Origin], weakest: Origin
) -> None:
    for origin in origins:
        ref = await store.put("s", "one\ntwo", origin)
    other = await store.put("other", "one\ntwo", Origin.PERSON)
    page, hits = await store.get("s", ref), await store.search("s", ref, LineQuery("three"))
    assert page.entry.origin is hits.entry.origin is weakest and hits.lines == ()
    assert [entry.origin for entry in await store.entries("s")] == [weakest]
    assert other == ref and (await store.entry("other", ref)).origin is Origin.PERSON, (
        "what others read is theirs"
    )


async def test_a_session_lists_its_own(store: OverflowStore, clock) -> None:
    first = await store.put("s", "one", WEB)
    clock.time += 1
    second = await store.put("s", "two\ntwo", WEB)
    await store.put("other", "three", WEB)
    entries = await store.entries("s")
    assert [(entry.id, entry.chars, entry.lines) for entry in entries] == [(first, 3, 1), (second, 7, 2)]
    assert entries[1].stored_at == clock.time
    assert await store.entries("nobody") == []


async def test_many_may_put_the_same_at_once(store: OverflowStore) -> None:
    ids: set[str] = set()

    async def put(session: str) -> None:
        ids.add(await store.put(session, BIG, WEB))

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(put, f"s{number}")
    (ref,) = ids
    assert (await store.get("s3", ref, 0, len(BIG))).text == BIG


async def test_a_store_that_cannot_be_written_says_so(store: OverflowStore, database: Database) -> None:
    await database.read("PRAGMA query_only = ON")
    with pytest.raises(RecordError, match="read-only"):
        await store.put("s", "text", WEB)


async def test_a_page_costs_the_same_wherever_it_lies(store: OverflowStore, database: Database) -> None:
    ref = await store.put("s", BIG, WEB)
    ((key,),) = await database.read("SELECT ref FROM overflow WHERE id = ?", (ref,))
    with closing(sqlite3.connect(database.path)) as other:

        def plan(sql: str, *values: object) -> list[str]:
            return [row[-1] for row in other.execute(f"EXPLAIN QUERY PLAN {sql}", values)]

        (by_number,) = plan(overflow_module._CHUNKS, key, 1, 1)
        assert "USING INDEX" in by_number and "(ref=? AND number>? AND number<?)" in by_number
        (by_line,) = plan(overflow_module._BY_LINE, key, 5)
        assert "COVERING INDEX overflow_chunk_by_line (ref=? AND newlines<?)" in by_line
        for steps in (plan(overflow_module._ENTRY, "s", ref), plan(overflow_module._ENTRIES, "s")):
            assert not any(step.startswith("SCAN") for step in steps)
        rows = other.execute(overflow_module._CHUNKS, (key, 1, 1)).fetchall()
    assert len(rows) == 1 and len(unpacked(*rows[0]).text) == CHUNK


@pytest.mark.parametrize(
    "text", [BIG, BIG + "no end", "x" * 200_000, "\n" * 200_000, "a\n" + "x" * 200_000 + "\nb\n", "", "one"]
)
async def test_any_line_is_found_by_its_number(store: OverflowStore, text: str) -> None:
    ref, lines = await store.put("s", text, WEB), text.split("\n")
    lines = lines[:-1] if not lines[-1] else lines
    for number in {1, 2, 3, len(lines) // 2, len(lines) - 1, len(lines)} & set(range(1, len(lines) + 1)):
        page = await store.get("s", ref, limit=50, line=number)
        assert page.line == number and page.offset == sum(map(len, lines[: number - 1])) + number - 1
        assert page.text == text[page.offset : page.offset + 50]
    beyond = await store.get("s", ref, line=len(lines) + 1)
    assert (beyond.text, beyond.offset, beyond.next) == ("", len(text), None)


@pytest.mark.parametrize("offset", [0, 1, 17, CHUNK - 1, CHUNK, CHUNK + 1, len(BIG) - 1])
async def test_a_page_says_in_which_line_it_begins(store: OverflowStore, offset: int) -> None:
    page = await store.get("s", await store.put("s", BIG, WEB), offset, 10)
    assert page.line == BIG.count("\n", 0, offset) + 1


async def test_text_is_compressed_and_what_cannot_be_is_not_made_longer(
    store: OverflowStore, database: Database
) -> None:
    noise = "".join(chr(choice) for choice in random.Random(1).choices(range(0x20, 0x7F), k=100_000))
    worst = "".join(map(chr, random.Random(1).choices(range(0x20, 0x2FA0), k=40)))
    for text, most in ((BIG, 0.3), (noise, 0.9), (worst, 1.0)):
        entry = await store.entry("s", await store.put("s", text, WEB))
        assert entry.stored <= most * entry.bytes
    assert await database.read("SELECT DISTINCT packed FROM overflow_chunk ORDER BY 1") == [(0,), (1,)]


async def test_no_transaction_is_larger_than_what_others_wait_for(
    store: OverflowStore, database: Database, monkeypatch
) -> None:
    sizes, queue = [], database.queue

    def counted(statements=(), drafts=()):
        sizes.append(
            sum(len(value) for _, values in statements for value in values if isinstance(value, bytes))
        )
        return queue(statements, drafts)

    monkeypatch.setattr(database, "queue", counted)
    text = "".join(map(chr, random.Random(2).choices(range(0x10000, 0x2FFFF), k=500_000)))
    ref = await store.put("s", text, WEB)
    assert max(sizes) <= 262_144 and sum(sizes) > 1_000_000
    assert (await store.get("s", ref, 0, len(text))).text == text


async def test_what_was_kept_before_is_taken_over(tmp_path: Path, clock) -> None:
    """A file of the first version: its texts come back, half ones do not, and lines are found in them."""
    path = tmp_path / "old.db"
    parts = [BIG[start : start + CHUNK] for start in range(0, len(BIG), CHUNK)]
    with closing(sqlite3.connect(path)) as old:
        for statement in FIRST:
            old.execute(statement)
        for key, complete in (("of_1", 1), ("of_half", 0)):
            old.execute(
                "INSERT INTO overflow VALUES (?, ?, ?, ?, ?, ?)",
                (key, len(BIG), 20_000, len(BIG.encode()), clock.time, complete),
            )
            rows = [(key, number, part.encode()) for number, part in enumerate(parts)]
            old.executemany(
                "INSERT INTO overflow_chunk VALUES (?, ?, ?)", rows[: len(rows) if complete else 2]
            )
            old.execute("INSERT INTO overflow_link VALUES ('s', ?, ?, 'web', 0)", (key, clock.time))
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
        old.commit()
    async with AsyncioThread.open("old") as asyncio_thread, Database.open(path, asyncio_thread) as database:
        store = OverflowStore(database, clock)
        (entry,) = await store.entries("s")
        assert (entry.id, entry.origin, entry.lines) == ("of_1", WEB, 20_000)
        assert (await store.get("s", "of_1", 0, len(BIG))).text == BIG
        for number in (1, 5000, 20_000):
            assert (await store.get("s", "of_1", line=number, limit=30)).text.startswith(
                f"line {number - 1} "
            )
        assert await count(database, "overflow_chunk") == len(parts)
        await store.prune()
