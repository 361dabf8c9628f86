"""The store of outputs against a dictionary: any order of putting, reading, forking and cleaning up, at any
time.
"""

from __future__ import annotations

import random
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.memory.database import AsyncioThread, Database
from leeward.memory.overflow import LineQuery, OverflowNotFound, OverflowStore
from leeward.security.trust import Origin

DAY = 86_400.0
NOISE = random.Random(3)


def noise(size: int) -> str:
    return "".join(chr(NOISE.randrange(0x4E00, 0x9FFF)) if n % 40 else "\n" for n in range(size))


TEXTS = [
    "", "\n", "short\nlines\n", "x" * 65_536, "".join(f"line {n} é😀\n" for n in range(9000)), noise(70_000),
    noise(70_000),
    noise(30_000) + "\ud800",
]  # fmt: skip
WHICH = st.integers(0, len(TEXTS) - 1)
SESSION = st.sampled_from(["s", "t"])
ORIGIN = st.sampled_from([Origin.WEB, Origin.WORKSPACE, Origin.TOOL])
STEP = st.one_of(
    st.tuples(st.just("put"), SESSION, WHICH, ORIGIN),
    st.tuples(st.just("spool"), SESSION, WHICH, ORIGIN, st.integers(1, 5)),
    st.tuples(st.just("abandon"), SESSION, WHICH),
    st.tuples(st.just("read"), SESSION, WHICH, st.integers(-1, 200_000), st.integers(0, 70_000)),
    st.tuples(st.just("line"), SESSION, WHICH, st.integers(-1, 9002)),
    st.tuples(st.just("search"), SESSION, WHICH, st.sampled_from(["^line 8.7", "é", "x+", "^$", "lines"])),
    st.tuples(st.just("wait"), st.sampled_from([60.0, 1000.0, 2 * DAY, 8 * DAY])),
    st.tuples(st.just("prune"), st.sampled_from([0.5, 7.0]), st.sampled_from([None, 0, 50_000])),
)
LEAST = [Origin.WEB, Origin.WORKSPACE, Origin.TOOL]
BUDGET = 340_000


class Clock:
    time = 1_000_000.0

    def now(self) -> float:
        return self.time


@dataclass
class Kept:
    """A text that is kept: what it takes, when it was used last, and since when it is whose."""

    stored: int
    used: float
    links: dict[str, tuple[float, Origin]] = field(default_factory=dict)


class Model:
    def __init__(self) -> None:
        self.texts: dict[int, Kept] = {}

    def link(self, session: str, which: int, origin: Origin, now: float) -> None:
        kept = self.texts[which]
        kept.used = max(kept.used, now)
        before = kept.links.get(session)
        origins = [origin] if before is None else [origin, before[1]]
        kept.links[session] = (now, min(origins, key=LEAST.index))

    def evict(self) -> None:
        total = 0
        for which, kept in sorted(self.texts.items(), key=lambda one: -one[1].used):
            total += kept.stored
            if total > BUDGET:
                del self.texts[which]

    def expire(self, before: float) -> None:
        for which, kept in list(self.texts.items()):
            kept.links = {name: link for name, link in kept.links.items() if link[0] >= before}
            if not kept.links:
                del self.texts[which]
        self.evict()

    def has(self, session: str, which: int) -> bool:
        return which in self.texts and session in self.texts[which].links


def lines_of(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)


async def scenario(steps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            AsyncioThread.open("x") as asyncio_thread,
            Database.open(Path(folder) / "a.db", asyncio_thread) as database,
        ):
            clock, model, ids = Clock(), Model(), {}
            store = OverflowStore(database, clock, BUDGET)
            for what, *arguments in steps:
                # No two things happen at one time, so what was used longest ago is one.
                clock.time += 1
                await do(store, model, clock, ids, what, arguments)
                for session in ("s", "t"):
                    await agree(store, model, ids, session)
                ((total,),) = await database.read("SELECT total(stored) FROM overflow WHERE id IS NOT NULL")
                assert total == sum(kept.stored for kept in model.texts.values()) <= BUDGET


async def agree(store: OverflowStore, model: Model, ids: dict[int, str], session: str) -> None:
    """Listed, and so not noted as being read."""
    listed = {entry.id: entry for entry in await store.entries(session)}
    assert listed.keys() == {ids[which] for which in model.texts if model.has(session, which)}
    for which, kept in model.texts.items():
        if model.has(session, which):
            entry, text = listed[ids[which]], TEXTS[which]
            assert (entry.chars, entry.lines, entry.origin) == (
                len(text),
                len(lines_of(text)),
                kept.links[session][1],
            )
            assert entry.bytes == len(text.encode("utf-8", "surrogatepass"))


async def do(
    store: OverflowStore, model: Model, clock: Clock, ids: dict[int, str], what: str, arguments
) -> None:
    match what, *arguments:
        case "put", session, which, origin:
            is_new = which not in model.texts
            ids[which] = await store.put(session, TEXTS[which], origin)
            if is_new:
                model.texts[which] = Kept((await store.entry(session, ids[which])).stored, clock.time)
            model.link(session, which, origin, clock.time)
            if is_new:
                model.evict()
        case "spool", session, which, origin, pieces:
            spool, text = store.spool(session), TEXTS[which]
            size = max(1, -(-len(text) // pieces))
            for start in range(0, len(text), size):
                await spool.write(text[start : start + size])
            key = await spool.finish(origin)
            assert ids.setdefault(which, key) == key, "its name is made of the text alone"
            if which not in model.texts:
                model.texts[which] = Kept((await store.entry(session, key)).stored, clock.time)
            model.link(session, which, origin, clock.time)
            model.evict()
        case "abandon", session, which:
            spool = store.spool(session)
            await spool.write(TEXTS[which])
            spool.abandon()
        case (("read" | "line" | "search"), session, which, *_) if not model.has(session, which):
            with pytest.raises(OverflowNotFound):
                await store.get(session, ids.get(which, "of_unknown"))
        case "read", session, which, offset, limit:
            page = await store.get(session, ids[which], offset, limit)
            text, start = TEXTS[which], min(max(offset, 0), len(TEXTS[which]))
            assert (page.text, page.offset) == (text[start : start + limit], start)
            end = start + len(page.text)
            assert page.next == (end if end < len(text) and start < len(text) else None)
            assert start == len(text) or page.line == text.count("\n", 0, start) + 1
            used(model, which, clock)
        case "line", session, which, line:
            page = await store.get(session, ids[which], 0, 50, line)
            rest = lines_of(TEXTS[which])[max(line, 1) - 1 :]
            assert page.text == "".join(rest)[:50]
            used(model, which, clock)
        case "search", session, which, pattern:
            hits = await store.search(session, ids[which], LineQuery(pattern, 10_000))
            found = [
                n for n, line in enumerate(lines_of(TEXTS[which]), 1) if re.search(pattern, line.rstrip("\n"))
            ]
            assert [hit.line for hit in hits.lines] == found and hits.next is None
            for hit in hits.lines:
                assert TEXTS[which].startswith(hit.text.strip("…")[:20], hit.start) or len(hit.text) >= 400
            used(model, which, clock)
        case "wait", seconds:
            clock.time += seconds
        case "prune", days, most:
            await store.prune(days, most)
            model.expire(clock.time - days * DAY)


def used(model: Model, which: int, clock: Clock) -> None:
    """That a text is read is noted now and then only."""
    if clock.time - model.texts[which].used > 600:
        model.texts[which].used = clock.time


@settings(
    max_examples=settings().max_examples // 3,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(STEP, max_size=14))
@example(
    [
        ("put", "s", 5, Origin.WEB),
        ("wait", 1000.0),
        ("put", "s", 6, Origin.WEB),
        ("wait", 1000.0),
        ("read", "s", 5, 0, 9),
        ("put", "t", 7, Origin.TOOL),
    ]
)
@example(
    [
        ("put", "s", 4, Origin.TOOL),
        ("put", "t", 4, Origin.WEB),
        ("put", "t", 4, Origin.TOOL),
        ("wait", 8 * DAY),
        ("put", "t", 4, Origin.TOOL),
        ("prune", 7.0, None),
        ("search", "t", 4, "^line 8.7"),
    ]
)
@example(
    [
        ("put", "s", 5, Origin.WEB),
        ("wait", 8 * DAY),
        ("prune", 7.0, 0),
        ("put", "s", 5, Origin.WEB),
        ("prune", 7.0, 50_000),
        ("line", "s", 5, 3),
    ]
)
@example(
    [
        ("abandon", "s", 5),
        ("spool", "s", 5, Origin.WEB, 3),
        ("spool", "t", 5, Origin.WEB, 5),
        ("wait", 2 * DAY),
        ("prune", 0.5, None),
        ("read", "s", 5, 0, 5),
    ]
)
@example(
    [
        ("put", "s", 0, Origin.WEB),
        ("read", "s", 0, 5, 5),
        ("line", "s", 0, 1),
        ("put", "s", 1, Origin.WEB),
        ("line", "s", 1, 2),
        ("search", "s", 1, "^$"),
    ]
)
@example(
    [
        ("put", "s", 4, Origin.TOOL),
        ("read", "s", 4, 100_000, 50),
        ("read", "s", 4, 65_536, 1),
        ("read", "s", 4, -1, 9),
    ]
)
def test_the_store_and_the_dictionary_agree_after_every_step(steps):  # fmt: skip
    trio.run(scenario, steps)
