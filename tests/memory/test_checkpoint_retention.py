"""Checkpoint contents are deleted once no step refers to them, and never earlier."""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
from pathlib import Path

import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.memory.checkpoints import (
    CheckpointStore,
    Revision,
    Version,
    _batches,
    packed_content,
    without_steps,
)
from leeward.memory.database import AsyncioThread, Database

DAY = 86_400.0
# Of which the last takes several chunks and as many transactions.
CONTENTS = [
    b"",
    b"one",
    b"two" * 1000,
    random.Random(1).randbytes(50_000),
    random.Random(2).randbytes(300_000),
]
DIGESTS = [hashlib.sha256(content).hexdigest() for content in CONTENTS]
WHICH = st.integers(0, len(CONTENTS) - 1)
MAYBE = st.one_of(st.none(), WHICH)
SESSION = st.sampled_from(["s", "t"])
STEP = st.one_of(
    st.tuples(st.just("put"), st.lists(WHICH, min_size=1, max_size=3)),
    st.tuples(st.just("step"), SESSION, st.lists(st.tuples(MAYBE, MAYBE), min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["undo", "redo", "delete"]), SESSION),
    st.tuples(st.just("wait"), st.sampled_from([30.0, 120.0, 2 * DAY, 31 * DAY])),
    st.tuples(st.sampled_from(["prune", "half put", "needed"]), WHICH),
)


class Clock:
    time = 1_000_000.0

    def now(self) -> float:
        return self.time


def version(which: int | None) -> Version | None:
    return None if which is None else Version("file", 0o644, len(CONTENTS[which]), DIGESTS[which])


async def kept(store: CheckpointStore, wanted) -> set[str]:
    """Those of some contents that come back whole; never one that comes back in part."""
    found = set()
    for which, digest in enumerate(DIGESTS):
        content = await store.content(digest) if digest in wanted else None
        if content is not None:
            assert content == CONTENTS[which], "what comes back is what was put"
            found.add(digest)
    return found


async def scenario(steps, budget: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            AsyncioThread.open("x") as asyncio_thread,
            Database.open(Path(folder) / "a.db", asyncio_thread) as database,
        ):
            clock = Clock()
            store = CheckpointStore(database, clock, budget)
            made = 0
            for what, *arguments in steps:
                clock.time += 1
                before = await told_of(database)
                standing = await kept(store, before)
                if what == "put":
                    await store.put(
                        [packed_content(DIGESTS[which], CONTENTS[which]) for which in arguments[0]]
                    )
                    assert await store.missing(DIGESTS[which] for which in arguments[0]) == set()
                elif what == "half put":
                    # Whoever is killed in between leaves a content that is not complete.
                    (first, *_) = _batches([packed_content(DIGESTS[-1], CONTENTS[-1])], store._clock.now())
                    await database.write(first)
                elif what == "step":
                    session, pairs = arguments
                    # What a call changed was put before it ran, and may be gone by the time that is written.
                    changes = [
                        Revision(os.fsencode(f"f{n}"), version(was), version(became))
                        for n, (was, became) in enumerate(pairs)
                    ]
                    made += 1
                    await store.add(session, "/w", f"c{made}", "shell", changes)
                    steps_left = await store.steps(session, "/w")
                    assert steps_left[-1].call == f"c{made}" and not any(step.undone for step in steps_left)
                elif what in ("undo", "redo"):
                    fitting = [
                        one for one in await store.steps(arguments[0], "/w") if one.undone is (what == "redo")
                    ]
                    if fitting:
                        step = fitting[-1] if what == "undo" else fitting[0]
                        await store.turn(step.id, [], undone=what == "undo")
                elif what == "wait":
                    clock.time += arguments[0]
                elif what == "prune":
                    await store.prune()
                elif what == "needed":
                    await store.missing([DIGESTS[arguments[0]]])
                elif what == "delete":
                    await database.write(without_steps(arguments[0]))
                after = await told_of(database)
                assert standing & after <= await kept(store, after), f"{what} took away what a step speaks of"
                await whole(database)
            clock.time += 2 * DAY
            await store.prune()
            left = {digest for (digest,) in await database.read("SELECT hash FROM content")}
            assert left <= await told_of(database), "what nobody speaks of stays for ever"
            ((total,),) = await database.read("SELECT total(length(body)) FROM content_chunk")
            assert total <= budget or not await store.steps("s", "/w") + await store.steps("t", "/w")


async def told_of(database: Database) -> set[str]:
    """What the steps there are speak of."""
    rows = await database.read(
        "SELECT was_hash FROM checkpoint_change UNION SELECT became_hash FROM checkpoint_change"
    )
    return {digest for (digest,) in rows if digest is not None}


async def whole(database: Database) -> None:
    """No change without its step, no chunk without its content."""
    orphans = await database.read(
        "SELECT (SELECT count(*) FROM checkpoint_change WHERE checkpoint NOT IN (SELECT id FROM checkpoint)),"
        " (SELECT count(*) FROM content_chunk WHERE hash NOT IN (SELECT hash FROM content))"
    )
    assert orphans == [(0, 0)]


@settings(
    max_examples=settings().max_examples // 8,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(STEP, max_size=12), st.sampled_from([100_000, 400_000, 10_000_000]))
@example(
    [("put", [4, 1]), ("step", "s", [(4, 1)]), ("wait", 2 * DAY), ("prune", 0), ("undo", "s"), ("prune", 0)],
    10_000_000,
)
@example(
    [
        ("put", [4]),
        ("step", "s", [(4, None)]),
        ("step", "t", [(None, 4)]),
        ("delete", "s"),
        ("wait", 2 * DAY),
        ("prune", 0),
    ],
    10_000_000,
)
@example([("half put", 0), ("step", "s", [(4, None)]), ("wait", 120.0)], 100_000)
@example(
    [("half put", 0), ("wait", 2 * DAY), ("prune", 0), ("put", [4]), ("step", "s", [(4, 4)])], 10_000_000
)
@example(
    [
        ("put", [3]),
        ("step", "s", [(3, 1)]),
        ("undo", "s"),
        ("put", [4]),
        ("step", "s", [(4, 3)]),
        ("wait", 120.0),
        ("prune", 0),
    ],
    100_000,
)
def test_what_a_step_speaks_of_stays_and_all_else_goes(steps, budget):  # fmt: skip
    trio.run(scenario, steps, budget)
