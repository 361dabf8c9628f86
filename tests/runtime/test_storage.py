"""Sessions of one process share one open database, and the last one closes it."""

from __future__ import annotations

import threading

import pytest
import trio

from leeward.runtime.app import Runtime
from leeward.runtime.config import load
from leeward.runtime.storage import open_storage
from leeward.security.ports import RecordError


async def test_one_file_is_opened_once_and_closed_by_the_last(tmp_path):
    first, second = open_storage(tmp_path / "a.db"), open_storage(tmp_path / "a.db")
    one = await first.__aenter__()
    async with open_storage(tmp_path / "b.db") as other:
        two = await second.__aenter__()
        assert one is two and one is not other
    await first.__aexit__(None, None, None)
    await two.read("SELECT 1")
    await second.__aexit__(None, None, None)
    with pytest.raises(RecordError):
        await two.read("SELECT 1")
    async with open_storage(tmp_path / "a.db") as again:
        assert again is not one and await again.read("SELECT 1") == [(1,)]


async def test_opened_at_once_by_many_and_left_in_any_order(tmp_path):
    seen = set()

    async def use(wait: float) -> None:
        async with open_storage(tmp_path / "a.db") as database:
            seen.add(database)
            await trio.sleep(wait)
            await database.read("SELECT 1")

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(use, number / 1000)
    assert len(seen) == 1


async def test_what_cannot_be_opened_is_tried_again_by_the_next(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(RecordError):
        async with open_storage(path):
            pass
    path.rmdir()
    async with open_storage(path) as database:
        assert await database.read("SELECT 1") == [(1,)]


async def test_one_that_is_cancelled_takes_nothing_from_the_others(tmp_path):
    async with open_storage(tmp_path / "a.db") as database:
        with trio.CancelScope() as scope:
            async with open_storage(tmp_path / "a.db"):
                scope.cancel()
                await trio.sleep_forever()
        assert await database.read("SELECT 1") == [(1,)]


async def test_many_sessions_at_once_each_with_its_own_record(sessions, tmp_path):
    """Side by side they share storage, not conversations, URLs or budgets; no thread stays."""
    where = sessions.places(tmp_path)
    loaded = load(config_dir=where.config, environment={})
    before = threading.active_count()
    told: dict[str, int] = {}

    async def converse(number: int) -> None:
        says = sessions.Says(*[[("list_directory", {"path": "."})]] * number, "done")
        async with Runtime.open(loaded, places=where, provider=says) as runtime:
            assert (await runtime.turn(f"go {number}")).calls == number
            told[runtime.session_id] = len(await sessions.rows(runtime, "outcome"))
            assert [entry.content["text"] for entry in await runtime.transcript.entries(runtime.session_id)][
                0
            ] == f"go {number}"

    async with open_storage(where.database):
        busy = threading.active_count()
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(converse, number)
        assert busy > before
    assert sorted(told.values()) == [0, 1, 2, 3]
