"""Searching a stored text by pattern: right lines, their context, linear time, any chunking."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.database import CHUNK, Database
from leeward.memory.overflow import Hit, LineQuery, OverflowStore
from leeward.memory.overflow import search as lines_module
from leeward.memory.overflow.search import Blocks, LineSearch, _around
from leeward.memory.patterns import BadPattern
from leeward.security.trust import Origin

BIG = "".join(f"line {number} of many, é and 😀\n" for number in range(20_000))
WEB = Origin.WEB
GREEK = "alpha\nbeta\n\ngamma\ndé"


@pytest.fixture
def store(database: Database, clock) -> OverflowStore:
    return OverflowStore(database, clock)


def told(hits) -> list[tuple[int, int, str]]:
    return [(hit.line, hit.offset, hit.text) for hit in hits.lines]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("^b", [(2, 6, "beta")]),
        ("a$", [(1, 4, "alpha"), (2, 9, "beta"), (4, 16, "gamma")]),
        ("é", [(5, 19, "dé")]),
        ("$", [(1, 5, "alpha"), (2, 10, "beta"), (3, 11, ""), (4, 17, "gamma"), (5, 20, "dé")]),
        ("^$", [(3, 11, "")]),
        ("(?i)ALPHA", [(1, 0, "alpha")]),
        (r"\Abeta\z", [(2, 6, "beta")]),
        (r"(?-m:^g)", [(4, 12, "gamma")]),
        (r"\Qalpha", [(1, 0, "alpha")]),
        ("alpha|dé", [(1, 0, "alpha"), (5, 18, "dé")]),
        ("[^x]beta", []),
        ("alpha\nbeta", []),
        (r"alpha\sbeta", []),
        ("zeta", []),
    ],
)
async def test_searching_finds_lines_and_says_where(store: OverflowStore, pattern: str, found: list) -> None:
    ref = await store.put("s", GREEK, WEB)
    assert told(await store.search("s", ref, LineQuery(pattern))) == found


async def test_searching_spans_chunks_stops_at_the_limit_and_goes_on(store: OverflowStore) -> None:
    ref = await store.put("s", BIG, WEB)
    whole = await store.search("s", ref, LineQuery(r"^line \d*99 of", 500))
    assert [hit.line for hit in whole.lines] == [number + 1 for number in range(99, 20_000, 100)]
    assert whole.next is None
    for hit in whole.lines:
        assert (await store.get("s", ref, hit.offset, len(hit.text))).text == hit.text
        assert (await store.get("s", ref, line=hit.line, limit=1)).offset == hit.start
    parts, offset = [], 0
    while offset is not None:
        part = await store.search("s", ref, LineQuery(r"^line \d*99 of", 7), offset)
        parts += part.lines
        offset = part.next
    assert tuple(parts) == whole.lines
    assert (await store.search("s", ref, LineQuery("line", 0))).lines == ()
    assert (await store.search("s", ref, LineQuery("line 1"), line=19_999)).lines[0].line == 19_999


async def test_neighbours_come_along_once_and_in_order(store: OverflowStore) -> None:
    ref = await store.put("s", "".join(f"{number}\n" for number in range(1, 21)), WEB)

    async def around(pattern: str, before: int, after: int, limit: int = 50) -> list[str]:
        hits = await store.search("s", ref, LineQuery(pattern, limit, before, after))
        assert all(hit.matched == bool(re.search(pattern, hit.text)) for hit in hits.lines) or limit < 50
        return [hit.text for hit in hits.lines]

    assert await around("^10$", 2, 1) == ["8", "9", "10", "11"]
    assert await around("^(10|12)$", 2, 2) == ["8", "9", "10", "11", "12", "13", "14"]
    assert await around("^1$|^20$", 3, 3) == ["1", "2", "3", "4", "17", "18", "19", "20"]
    assert await around("^(10|11)$", 1, 1, limit=1) == ["9", "10"]
    cut = await store.search("s", ref, LineQuery("^(5|15)$", 1, 2, 2))
    assert [hit.text for hit in cut.lines] == ["3", "4", "5", "6", "7"]
    rest = await store.search("s", ref, LineQuery("^(5|15)$", 1, 2, 2), cut.next)
    assert [hit.text for hit in rest.lines] == ["13", "14", "15", "16", "17"]


@pytest.mark.parametrize("pattern", ["(", "a{1000001}", "(?=x)", r"\1", "[", "\ud800", "*", "a)(b"])
async def test_a_bad_pattern_is_told(
    store: OverflowStore, pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ref = await store.put("s", "text", WEB)
    with pytest.raises(BadPattern, match="the pattern "):
        await store.search("s", ref, LineQuery(pattern))
    assert capfd.readouterr() == ("", "")


async def test_a_hostile_pattern_takes_linear_time(store: OverflowStore) -> None:
    ref = await store.put("s", "a" * 200_000, WEB)
    before = time.process_time()
    assert (await store.search("s", ref, LineQuery("^(a+)+$b"))).lines == ()
    assert time.process_time() - before < 5, "a backtracking engine would need longer than the universe has"


async def test_one_giant_line_is_found_shown_in_part_and_paged(store: OverflowStore) -> None:
    text = "x" * 3_000_000 + "needle" + "y" * 100_000
    ref = await store.put("s", text, WEB)
    (hit,) = (await store.search("s", ref, LineQuery("needle", before=3, after=3))).lines
    assert (hit.line, hit.offset, len(hit.text)) == (1, 3_000_000, 402) and "needle" in hit.text
    assert (await store.get("s", ref, hit.offset, 6)).text == "needle"
    assert (await store.entry("s", ref)).lines == 1


async def test_what_is_no_text_is_searched_all_the_same(store: OverflowStore) -> None:
    ref = await store.put("s", "a\ud800b\nneedle\udfff\n" + "\ufffd" * 70_000, WEB)
    assert told(await store.search("s", ref, LineQuery("needle"))) == [(2, 4, "needle?")]
    assert (await store.get("s", ref, 0, 4)).text == "a\ud800b\n"


def gathered(text: str, size: int, query: LineQuery) -> list[Hit]:
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    blocks, search = Blocks(), LineSearch(query)
    for index, chunk in enumerate(chunks):
        for block in blocks.feed(chunk, last=index == len(chunks) - 1):
            search.take(block)
    return search.hits


@given(
    st.text("ab\n", max_size=60),
    st.integers(1, 7),
    st.sampled_from(["a", "^b", "a$", "^$", "ba", "zz"]),
    st.integers(0, 3),
    st.integers(0, 3),
)
@example("a\n\nb\n", 2, "^$", 1, 1)
@example("\n\n", 1, "^$", 0, 0)
def test_what_is_found_does_not_depend_on_the_chunks(
    text: str, size: int, pattern: str, before: int, after: int
) -> None:
    lines = text.split("\n")
    lines = lines if lines[-1] else lines[:-1]
    matching = {index for index, line in enumerate(lines) if re.search(pattern, line)}
    wanted = {near for index in matching for near in range(index - before, index + after + 1)}
    found = gathered(text, size, LineQuery(pattern, 1000, before, after))
    assert [(hit.line - 1, hit.text, hit.matched) for hit in found] == [
        (index, line, index in matching) for index, line in enumerate(lines) if index in wanted
    ]
    assert all(text.startswith(hit.text, hit.start) for hit in found)


def test_an_endless_line_is_searched_in_parts() -> None:
    blocks, size = Blocks(), lines_module._LONGEST_LINE
    (part,) = blocks.feed("x" * size, last=False)
    assert (part.line, part.offset, len(part.text)) == (1, 0, size)
    assert [(block.line, block.offset, block.text) for block in blocks.feed("yy\nz", last=True)] == [
        (1, size, "yy\nz")
    ]


@pytest.mark.parametrize("start", [0, 99, 100, 101, 500, 899, 999])
def test_a_long_line_is_cut_around_the_hit(start: int) -> None:
    line = "." * start + "X" + "." * (999 - start)
    shown = _around(line, start)
    assert "X" in shown and len(shown.strip("…")) == 400
    assert shown.startswith("…") == (not line.startswith(shown[:100]))
    assert _around("short", 2) == "short"


async def test_no_more_of_a_text_is_loaded_than_a_chunk(
    store: OverflowStore, database: Database, monkeypatch
) -> None:
    ref, loads, read = await store.put("s", BIG * 4, WEB), [], database.read

    async def watched(sql, values=()):
        rows = await read(sql, values)
        loads.append(sum(len(value) for row in rows for value in row if isinstance(value, bytes)))
        return rows

    monkeypatch.setattr(database, "read", watched)
    await store.search("s", ref, LineQuery("nowhere"))
    await store.get("s", ref, CHUNK * 20, 100)
    await store.get("s", ref, line=70_000)
    assert max(loads) <= 4 * CHUNK
