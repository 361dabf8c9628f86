"""Large outputs: stored once, read by page, by nobody else, and not for ever."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory import BadPattern, Database, Hit, OverflowNotFound, OverflowStore
from leeward.memory import overflow as overflow_module
from leeward.memory.overflow import CHUNK, _around, _Lines
from leeward.security import Origin, RecordError, ports

BIG = "".join(f"line {number} of many, é and 😀\n" for number in range(20_000))
DAY = 86_400
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
        store.search("yours", ref, "line"),
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
    page, hits = await store.get("s", ref), await store.search("s", ref, "three")
    assert page.entry.origin is hits.entry.origin is weakest and hits.lines == ()
    assert [entry.origin for entry in await store.entries("s")] == [weakest]
    assert other == ref and (await store.entry("other", ref)).origin is Origin.PERSON, "what others read is theirs"


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


async def test_half_a_text_is_never_shown_and_is_completed_later(
    store: OverflowStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = database.write, []

    async def failing(statements) -> None:
        calls.append(statements)
        if len(calls) == 3:
            raise RecordError("the disk is full")
        await write(statements)

    monkeypatch.setattr(database, "write", failing)
    with pytest.raises(RecordError):
        await store.put("s", BIG, WEB)
    assert await count(database, "overflow_chunk") > 0
    assert await store.entries("s") == []
    ref = await store.put("s", BIG, WEB)
    assert (await store.get("s", ref, len(BIG) - 5, 5)).text == BIG[-5:]


async def test_a_store_that_cannot_be_written_says_so(store: OverflowStore, database: Database) -> None:
    await database.read("PRAGMA query_only = ON")
    with pytest.raises(RecordError, match="read-only"):
        await store.put("s", "text", WEB)


async def test_what_is_old_is_forgotten(store: OverflowStore, database: Database, clock) -> None:
    old = await store.put("s", BIG, WEB)
    shared = await store.put("s", "shared", WEB)
    clock.time += 4 * DAY
    await store.put("t", "shared", WEB)
    fresh = await store.put("s", "fresh", WEB)
    clock.time += 3.5 * DAY
    await store.prune()
    assert [entry.id for entry in await store.entries("s")] == [fresh]
    assert [entry.id for entry in await store.entries("t")] == [shared]
    for gone in (old, shared):
        with pytest.raises(OverflowNotFound):
            await store.get("s", gone)
    await store.prune(retention_days=3)
    for table in ("overflow", "overflow_chunk", "overflow_link"):
        assert await count(database, table) == 0


async def test_putting_again_keeps_a_text(store: OverflowStore, clock) -> None:
    ref = await store.put("s", BIG, WEB)
    clock.time += 6 * DAY
    await store.put("s", BIG, WEB)
    clock.time += 6 * DAY
    await store.prune()
    assert (await store.entry("s", ref)).chars == len(BIG)


@pytest.mark.parametrize(
    ("pattern", "hits"),
    [
        ("^b", [Hit(2, 6, "beta")]),
        ("a$", [Hit(1, 4, "alpha"), Hit(2, 9, "beta"), Hit(4, 17, "gamma")]),
        ("é", [Hit(5, 21, "dé")]),
        (
            "$",
            [Hit(1, 5, "alpha"), Hit(2, 10, "beta"), Hit(3, 11, ""), Hit(4, 18, "gamma"), Hit(5, 22, "dé")],
        ),
        ("^$", [Hit(3, 11, "")]),
        ("(?i)ALPHA", [Hit(1, 0, "alpha")]),
        ("alpha\nbeta", []),
        ("zeta", []),
    ],
)
async def test_searching_finds_lines_and_says_where(
    store: OverflowStore, pattern: str, hits: list[Hit]
) -> None:
    text = "alpha\nbeta\n\r\ngamma\r\ndé"
    assert (await store.search("s", await store.put("s", text, WEB), pattern)).lines == tuple(hits)


async def test_searching_spans_chunks_and_stops_at_the_limit(store: OverflowStore) -> None:
    ref = await store.put("s", BIG, WEB)
    hits = (await store.search("s", ref, r"^line \d*99 of", limit=500)).lines
    assert [hit.line for hit in hits] == [number + 1 for number in range(99, 20_000, 100)]
    for hit in hits:
        assert (await store.get("s", ref, hit.offset, len(hit.text))).text == hit.text
    assert (await store.search("s", ref, r"^line \d*99 of", limit=3)).lines == hits[:3]
    assert (await store.search("s", ref, "line", limit=0)).lines == ()


@pytest.mark.parametrize("pattern", ["(", "a{1000001}", "(?=x)", r"\1", "[", "\ud800", "*"])
async def test_a_bad_pattern_is_told(
    store: OverflowStore, pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadPattern, match="the pattern "):
        await store.search("s", await store.put("s", "text", WEB), pattern)
    assert capfd.readouterr() == ("", "")


async def test_a_hostile_pattern_takes_linear_time(store: OverflowStore) -> None:
    ref = await store.put("s", "a" * 200_000, WEB)
    before = time.process_time()
    assert (await store.search("s", ref, "^(a+)+$b")).lines == ()
    assert time.process_time() - before < 5, "a backtracking engine would need longer than the universe has"


@given(st.text("ab\n\r", max_size=40), st.integers(1, 7))
@example("a\r\nb\r\n", 2)
@example("\n\n", 1)
def test_lines_do_not_depend_on_the_chunks(text: str, size: int) -> None:
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    cutter = _Lines()
    found = [
        line
        for index, chunk in enumerate(chunks)
        for line in cutter.feed(chunk, last=index == len(chunks) - 1)
    ]
    *whole, rest = text.split("\n")
    assert [line for _, _, line in found] == [line.removesuffix("\r") for line in whole] + [rest] * bool(rest)
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    assert all(text.startswith(line, offset) for _, offset, line in found)


def test_an_endless_line_is_searched_in_parts() -> None:
    cutter, size = _Lines(), overflow_module._LONGEST_LINE
    assert [(number, offset, len(line)) for number, offset, line in cutter.feed("x" * size, last=False)] == [
        (1, 0, size)
    ]
    assert list(cutter.feed("yy\nz", last=True)) == [(1, size, "yy"), (2, size + 3, "z")]


@pytest.mark.parametrize("start", [0, 99, 100, 101, 500, 899, 999])
def test_a_long_line_is_cut_around_the_hit(start: int) -> None:
    line = "." * start + "X" + "." * (999 - start)
    shown = _around(line, start)
    assert "X" in shown
    assert len(shown.strip("…")) == 400
    assert shown.startswith("…") == (not line.startswith(shown[:100]))
    assert _around("short", 2) == "short"


async def test_a_page_costs_the_same_wherever_it_lies(store: OverflowStore, database: Database) -> None:
    ref = await store.put("s", BIG, WEB)
    with closing(sqlite3.connect(database.path)) as other:
        (plan,) = other.execute(f"EXPLAIN QUERY PLAN {overflow_module._BODIES}", (ref, 1, 1)).fetchall()
        assert "USING INDEX" in plan[-1]
        assert "(id=? AND number>? AND number<?)" in plan[-1]
        for sql, values in ((overflow_module._ENTRY, ("s", ref)), (overflow_module._ENTRIES, ("s",))):
            steps = [row[-1] for row in other.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            assert not any(step.startswith("SCAN") for step in steps)
        rows = other.execute(overflow_module._BODIES, (ref, 1, 1)).fetchall()
    assert len(rows) == 1
    assert len(rows[0][0].decode()) == CHUNK
