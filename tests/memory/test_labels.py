"""Labels of files in the store: they only add up until the person endorses them, whatever calls do."""

from __future__ import annotations

import random

import pytest

from leeward.memory import labels as module
from leeward.memory.changes import ANYTHING
from leeward.memory.database import Database
from leeward.memory.labels import ChangedFile, LabelStore, closed_call, labelled_changes, opened_call
from leeward.security.trust import FileWords, Origin

WEB, MCP, SECRET = (FileWords(frozenset({one}), str(one)) for one in (Origin.WEB, Origin.MCP, Origin.SECRET))


@pytest.fixture
async def store(asyncio_thread, tmp_path):
    async with Database.open(tmp_path / "store.db", asyncio_thread) as database:
        yield LabelStore(database)


async def change(store, words, *files, workspace="/ws") -> None:
    await store.write(labelled_changes(workspace, words, files))


async def paths(store, workspace="/ws") -> dict[str, set[str]]:
    return {row.path: {*map(str, row.labels)} for row in (await store.standing(workspace)).paths}


async def test_a_change_after_nothing_of_others_labels_nothing(store) -> None:
    await change(store, FileWords(), ChangedFile("a", None, "1" * 64))
    assert not await store.standing("/ws")


async def test_labels_of_a_path_are_joined_and_stay_when_the_file_is_gone(store) -> None:
    await change(store, WEB, ChangedFile("a", "0" * 64, "1" * 64))
    await change(store, SECRET, ChangedFile("a", "1" * 64, "2" * 64))
    await change(store, MCP, ChangedFile("a", "2" * 64, is_gone=True))
    rows = await store.standing("/ws")
    assert await paths(store) == {"a": {"web", "secret"}} and rows.paths[0].clean == "0" * 64
    assert {name[0]: {*map(str, row.labels)} for name, row in rows.contents.items()} == {
        "1": {"web"},
        "2": {"secret"},
    }
    assert await paths(store, "/other") == {}


async def test_what_was_moved_or_put_back_is_no_new_content(store) -> None:
    moved = (ChangedFile("a", "0" * 64, is_gone=True), ChangedFile("b", None, "0" * 64))
    await change(store, WEB, *moved)
    assert await paths(store) == {"b": {"web"}} and not (await store.standing("/ws")).contents
    await change(store, WEB, ChangedFile("c", "3" * 64, "4" * 64))
    await change(store, WEB, ChangedFile("d", None, "3" * 64))
    assert {*(await store.standing("/ws")).contents} == {"4" * 64}


async def test_a_call_at_work_may_write_anything_and_so_may_one_that_never_ended(store) -> None:
    await store.write(opened_call("/ws", "c1", WEB))
    (row,) = (await store.standing("/ws")).paths
    assert row.is_anything and row.labels == {Origin.WEB}
    await store.write([closed_call("/ws", "c1")])
    assert not await store.standing("/ws") and opened_call("/ws", "c2", FileWords()) == []


async def test_more_than_are_kept_become_one_for_all(store, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_LABELS", 3)
    for number, words in enumerate((WEB, MCP, WEB, WEB)):
        await change(store, words, ChangedFile(str(number), None, str(number) * 64))
    assert await paths(store) == {"": {"web", "mcp"}}
    many = [ChangedFile(f"x{number}") for number in range(5)]
    await change(store, SECRET, *many)
    assert await paths(store) == {"": {"web", "mcp", "secret"}}
    await store.endorse("/ws", [ANYTHING], ())
    assert not (await store.standing("/ws")).paths


@pytest.mark.parametrize("seed", range(12))
async def test_no_label_goes_unless_its_path_is_endorsed(store, seed) -> None:
    chance = random.Random(seed)  # noqa: S311 — the same sequences each time
    expected: dict[str, set[str]] = {}
    for _ in range(25):
        name = chance.choice("abc")
        if chance.random() < 0.15:
            expected.pop(name, None)
            await store.endorse("/ws", [name], ())
            continue
        words, is_gone = chance.choice((WEB, MCP, SECRET, FileWords())), chance.random() < 0.2
        digest = chance.choice((None, "1" * 64, "2" * 64))
        await change(store, words, ChangedFile(name, None, digest, is_gone=is_gone))
        if words.labels and not is_gone:
            expected.setdefault(name, set()).update(map(str, words.labels))
        assert await paths(store) == expected
