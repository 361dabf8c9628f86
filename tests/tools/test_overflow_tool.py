"""`read_overflow` on a real store: pages, lines, matches, and how to continue from each."""

from __future__ import annotations

import pytest

from leeward.memory.database import AsyncioThread, Database
from leeward.memory.overflow import OverflowStore
from leeward.security.kinds import KIND_KEY
from leeward.security.outcome import InvalidParameters, PermanentFailure
from leeward.security.ports import RecordError
from leeward.security.trust import Origin
from leeward.tools.overflow import Overflow

TEXT = "".join(f"line {number}\n" for number in range(1, 30_001))


class Clock:
    def now(self) -> float:
        return 0.0


@pytest.fixture
async def store(tmp_path):
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(tmp_path / "store.db", asyncio_thread) as database,
    ):
        yield OverflowStore(database, Clock())


class Broken:
    """A store whose disk is gone."""

    async def get(self, *_):
        raise RecordError("disk is gone")

    search = get


def tool(store, session="s1"):
    (made,) = Overflow(store, lambda: session).tools()
    return made


@pytest.fixture
async def read(run, store):
    key = await store.put("s1", TEXT, Origin.WEB)

    async def read(**arguments):
        output = await run(tool(store), {"id": key, **arguments})
        assert output.origin is Origin.WEB, "what is read brings its label back"
        return output

    return read


async def test_a_page_is_returned_with_where_to_go_on(read):
    output = await read(offset=7, limit=6)
    assert output.text == "line 2"
    assert output.notices == (
        f"characters 7 to 13 of {len(TEXT)}, from line 2 of 30000; continue with offset=13",
    )
    output = await read(offset=len(TEXT) - 11, limit=40_000)
    assert output.text == "line 30000\n" and output.notices == (
        f"characters {len(TEXT) - 11} to {len(TEXT)} of {len(TEXT)}, from line 30000 of 30000",
    )
    assert len((await read()).text) == 10_000


async def test_page_after_page_is_the_whole_text(read):
    parts, offset = [], 0
    while offset is not None:
        output = await read(offset=offset, limit=40_000)
        parts.append(output.text)
        _, _, rest = output.notices[0].partition("offset=")
        offset = int(rest) if rest else None
    assert "".join(parts) == TEXT


@pytest.mark.parametrize(
    ("line", "text"),
    [(1, "line 1\n"), (2, "line 2\n"), (12_345, "line 12345"), (30_000, "line 30000"), (30_001, "")],
)
async def test_a_line_is_found_by_its_number(read, line, text):
    output = await read(line=line, limit=len(text) or 5)
    assert output.text == text and f"from line {min(line, 30_000)} of 30000" in output.notices[0]


@pytest.mark.parametrize(
    ("pattern", "text", "notice"),
    [
        ("line 300$", "300@2583: line 300", "lines that match: 1"),
        ("^zz", "", "no line matches"),
        ("29999", f"29999@{len(TEXT) - 17}: line 29999", "lines that match: 1"),
    ],
)
async def test_matching_lines_are_returned_with_where_they_stand(read, pattern, text, notice):
    output = await read(pattern=pattern)
    assert (output.text, output.notices) == (text, (notice,))


async def test_the_lines_around_a_match_come_along(read):
    output = await read(pattern="line 300$", before=1, after=2)
    assert output.text == "299@2574- line 299\n300@2583: line 300\n301@2592- line 301\n302@2601- line 302"
    assert output.notices == ("lines that match: 1",)


@pytest.mark.parametrize(("limit", "before"), [(10_000, 0), (200, 0), (1, 0), (500, 3)])
async def test_match_after_match_is_all_of_them_and_none_twice(read, limit, before):
    found, offset = [], 0
    for _ in range(400):
        output = await read(pattern="7[05]$", offset=offset, limit=limit, before=before, line=None)
        found += [line for line in output.text.splitlines() if "@" in line and ": " in line]
        _, is_more, rest = output.notices[0].partition("offset=")
        if not is_more:
            break
        offset = int(rest.partition(",")[0])
        if len(found) > 250:
            break
    wanted = [number for number in range(1, 30_001) if number % 100 in {70, 75}]
    assert [int(line.partition("@")[0]) for line in found] == wanted[: len(found)] and len(found) > (
        0 if limit == 1 else 100
    )


async def test_a_search_may_begin_at_a_line(read):
    assert (await read(pattern="99$", line=29_900)).text.startswith("29999@")


@pytest.mark.parametrize(
    ("made", "told", "why"),
    [
        (None, PermanentFailure, "this session has no stored output"),
        (Broken(), PermanentFailure, "could not be read: disk is gone"),
    ],
)
async def test_what_cannot_be_read_is_told(run, store, made, told, why):
    key = await store.put("s1", TEXT, Origin.WEB)
    for arguments in ({"id": key}, {"id": key, "pattern": "x"}):
        with pytest.raises(told, match=why):
            await run(tool(made or store, "another"), arguments)


async def test_a_bad_pattern_is_the_callers(read):
    with pytest.raises(InvalidParameters, match="missing \\)"):
        await read(pattern="(")


def test_the_id_is_judged_as_one_and_pages_are_bounded():
    (spec,) = tool(Broken()).specs()
    assert spec.name == "read_overflow" and spec.schema["properties"]["id"][KIND_KEY] == "resource_id"
    bad = {"offset": -1, "limit": 40_001, "pattern": 5, "line": 0, "before": 21, "after": -1}
    problems = spec.check({"id": "a", **bad}).problems
    assert {problem.pointer.split("/")[1] for problem in problems} == set(bad)
