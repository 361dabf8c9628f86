"""Records of call changes: increasing numbers, open ones, deletion, and those left by a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from leeward.memory import changes
from leeward.memory.audit import AuditLogger
from leeward.memory.changes import ALL_BELOW, LEFT_OUT, CallChanges, last_numbers, standing_changes
from leeward.memory.database import Database
from leeward.security.session import OPEN


@pytest.fixture
async def kept(asyncio_thread, tmp_path):
    async with Database.open(tmp_path / "store.db", asyncio_thread) as database:
        kept = CallChanges(database)
        kept.database = database
        yield kept


async def numbers(kept: CallChanges, *names: str, workspace: str = "/ws") -> dict[str, int]:
    return dict(await kept.numbers(workspace, {name: (name,) for name in names}))


async def call(kept: CallChanges, *paths: str, name: str = "c", workspace: str = "/ws") -> None:
    await kept.begin("s", workspace, name)
    kept.end("s", workspace, name, paths)


async def test_each_change_has_a_higher_number_than_all_before(kept) -> None:
    assert await numbers(kept, "a", "b") == {}
    marks = [await kept.latest()]
    for path in ("a", "b", "a", "a"):
        await call(kept, path)
        found = await numbers(kept, path)
        assert found[path] > marks[-1]
        marks.append(await kept.latest())
    assert await numbers(kept, "a", workspace="/other") == {}
    assert (await numbers(kept, ALL_BELOW))[ALL_BELOW] == (await numbers(kept, "a"))["a"]


async def test_a_number_is_never_given_twice_though_its_row_is_gone(kept) -> None:
    await call(kept, "a")
    await kept.begin("s", "/ws", "open")
    mark = await kept.latest()
    kept.end("s", "/ws", "open", ())
    await call(kept, "a")
    assert (await numbers(kept, "a"))["a"] > mark


async def test_while_a_call_is_at_work_anything_may_change(kept) -> None:
    await kept.begin("s", "/ws", "c")
    assert await numbers(kept, "a") == {"a": OPEN}
    assert await numbers(kept, "a", workspace="/other") == {}
    kept.end("s", "/ws", "c", ("b",))
    assert "a" not in await numbers(kept, "a", "b")


async def test_what_a_killed_session_had_begun_may_have_changed_anything(kept, clock) -> None:
    await call(kept, "a")
    await kept.begin("killed", "/ws", "c")
    await AuditLogger(kept.database, clock).settle("killed")
    found = await numbers(kept, "a", "never")
    assert found["a"] == found["never"] < OPEN
    before = await kept.latest()
    await call(kept, "a")
    assert (await numbers(kept, "a"))["a"] > before


async def test_what_is_forgotten_counts_as_changed(kept, monkeypatch) -> None:
    monkeypatch.setattr(changes, "MOST_PATHS", 3)
    mark = await kept.latest()
    for path in "abcd":
        await call(kept, path)
    assert (await numbers(kept, "a"))["a"] > mark and (await numbers(kept, "never"))["never"] > mark
    rows = await kept.database.read("SELECT count(*) FROM call_change")
    assert rows == [(1,)]
    await call(kept, *map(str, range(50)))
    assert await kept.database.read("SELECT count(*) FROM call_change") == [(1,)]


async def test_who_only_looks_finds_the_same_and_leaves_nothing(kept, tmp_path) -> None:
    await call(kept, "a", LEFT_OUT)
    await call(kept, "b\udce9")
    names = {"a": ("a", "b"), "x": ("node_modules/x", LEFT_OUT), "b": ("b\udce9",), "z": ("z",)}
    expected = await kept.numbers("/ws", names)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert last_numbers(standing_changes(tmp_path / "store.db", "/ws"), names) == expected
    assert set(expected) == {"a", "x", "b"}
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert standing_changes(Path(tmp_path / "none.db"), "/ws") == []
