"""Checkpoint contents and steps: stored once, whole or not at all, in short transactions."""

from __future__ import annotations

import hashlib
import os

import pytest

from leeward.memory.checkpoints import CheckpointStore, Revision, Version, _batches, packed_content
from leeward.memory.database import Database
from leeward.memory.sessions import Catalog, Transcript

A, B = b"a" * 300_000, os.urandom(700_000)


def packed(content: bytes):
    return packed_content(digest(content), content)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def changed(before: bytes | None, after: bytes | None, path: bytes = b"caf\xe9") -> Revision:
    versions = [
        None if one is None else Version("file", 0o640, len(one), digest(one)) for one in (before, after)
    ]
    return Revision(path, *versions)


@pytest.fixture
def store(database: Database, clock) -> CheckpointStore:
    return CheckpointStore(database, clock, 10_000_000)


@pytest.mark.parametrize("content", [b"", b"x", A, B, A + B])
async def test_a_content_comes_back_byte_for_byte_and_is_kept_once(store, database, content) -> None:
    assert (
        await store.missing([digest(content)]) == {digest(content)}
        and await store.content(digest(content)) is None
    )
    for _ in range(2):
        await store.put([packed(content)])
        assert await store.content(digest(content)) == content and not await store.missing([digest(content)])
    ((rows, chunks),) = await database.read(
        "SELECT (SELECT count(*) FROM content), (SELECT count(*) FROM content_chunk)"
    )
    assert rows == 1 and chunks == -(-len(content) // 131_072)


async def test_no_transaction_is_large_and_no_content_complete_before_its_chunks(store) -> None:
    seen: set[tuple[object, object]] = set()
    for statements in _batches(
        [packed(one) for one in (A, B, b"small", B + A, *(os.urandom(50) for _ in range(3000)))],
        store._clock.now(),
    ):
        assert (
            sum(len(value) for _, values in statements for value in values if isinstance(value, (bytes, str)))
            < 400_000
        )
        for sql, values in statements:
            if "content_chunk" in sql:
                seen.add((values[0], values[1]))
            elif sql.startswith("UPDATE"):
                assert (values[2], 0) in seen


async def test_half_a_content_is_none(store, database) -> None:
    first, *_ = _batches([packed(B)], store._clock.now())
    await database.write(first)
    assert await store.missing([digest(B)]) == {digest(B)} and await store.content(digest(B)) is None
    await store.put([packed(B)])
    assert await store.content(digest(B)) == B


async def test_steps_come_back_in_order_and_a_new_one_ends_what_could_be_done_again(store) -> None:
    for number in range(3):
        await store.add("s", "/w", f"call_{number}", "shell", [changed(None, b"x"), changed(A, None, b"b")])
    await store.add("other", "/w", "c", "shell", [changed(None, b"x")])
    await store.add("s", "/elsewhere", "c", "shell", [changed(None, b"x")])
    steps = await store.steps("s", "/w")
    assert [(step.call, step.undone) for step in steps] == [
        ("call_0", False),
        ("call_1", False),
        ("call_2", False),
    ]
    assert await store.revisions(steps[0].id) == [changed(A, None, b"b"), changed(None, b"x")]
    await store.turn(steps[2].id, [changed(b"y", b"x")], undone=True)
    assert (await store.steps("s", "/w"))[2].undone and changed(b"y", b"x") in await store.revisions(
        steps[2].id
    )
    await store.add("s", "/w", "call_3", "write", [changed(None, b"z")])
    assert [step.call for step in await store.steps("s", "/w")] == ["call_0", "call_1", "call_3"]


async def test_many_changes_make_one_step_or_none(store, database) -> None:
    revisions = [changed(None, b"x", b"%d" % number) for number in range(2_000)]
    await store.add("s", "/w", "c", "shell", revisions)
    (step,) = await store.steps("s", "/w")
    assert len(await store.revisions(step.id)) == 2_000
    await database.write([("UPDATE checkpoint SET undone = 2", ())])
    assert await store.steps("s", "/w") == []


async def test_what_nothing_speaks_of_goes_after_a_day_and_what_is_spoken_of_stays(store, clock) -> None:
    await store.put([packed(A), packed(B)])
    await store.add("s", "/w", "c", "shell", [changed(A, None)])
    await store.prune()
    assert not await store.missing([digest(A), digest(B)])
    clock.time += 2 * 86_400
    await store.prune()
    assert await store.missing([digest(A), digest(B)]) == {digest(B)}


async def test_with_its_session_a_step_is_gone(store, database, clock) -> None:
    await Transcript(database, clock).start("s", "/w")
    await store.add("s", "/w", "c", "shell", [changed(None, b"x")])
    await store.add("t", "/w", "c", "shell", [changed(None, b"x")])
    await Catalog(database, clock).delete("s")
    assert await store.steps("s", "/w") == [] and len(await store.steps("t", "/w")) == 1
    assert await database.read("SELECT count(DISTINCT checkpoint) FROM checkpoint_change") == [(1,)]
