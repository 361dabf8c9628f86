"""The session store against a list model, under any order of operations and interruptions."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.memory.database import AsyncioThread, Database
from leeward.memory.overflow import OverflowNotFound, OverflowStore
from leeward.memory.sessions import Catalog, Line, Transcript
from leeward.memory.sessions import catalog as catalog_module
from leeward.security.ports import RecordError
from leeward.security.trust import Origin

SESSIONS = ("s", "t", "u", "v")
WORDS = ("alpha", "beta", "alphabet", "gamma ray", "\ud800 x", "")
SESSION, WORD = st.sampled_from(SESSIONS), st.sampled_from(WORDS)
STEP = st.one_of(
    st.tuples(st.just("say"), SESSION, st.sampled_from(["user", "assistant", "tool"]), WORD),
    st.tuples(st.just("say"), SESSION, st.sampled_from(["user", "assistant", "tool"]), WORD),
    st.tuples(st.just("summary"), SESSION, st.integers(-3, 1), WORD),
    st.tuples(st.sampled_from(["clear", "delete", "again", "store"]), SESSION),
    st.tuples(st.just("fork"), SESSION, SESSION, st.integers(0, 4)),
    st.tuples(st.just("broken"), st.sampled_from(["delete", "fork"]), SESSION),
)


class Clock:
    time = 1_000_000.0

    def now(self) -> float:
        return self.time


@dataclass
class Said:
    """What was said in one session."""

    lines: list[Line] = field(default_factory=list)
    turn: int = 0
    outputs: set[str] = field(default_factory=set)

    @property
    def next(self) -> int:
        return self.lines[-1].place + 1 if self.lines else 1

    def recalled(self) -> tuple[list[int], int | None, list[int]]:
        """The places of the person's words, the summary, and the rest that a session is gone on with."""
        begin = max((line.place for line in self.lines if line.role == "clear"), default=0)
        summaries = [line for line in self.lines if line.role == "summary" and line.place > begin]
        summary = summaries[-1] if summaries else None
        kept = max(summary.content["kept"] if summary else 0, begin + 1)
        words = [line.place for line in self.lines if line.role == "user" and begin < line.place < kept]
        return words, summary and summary.place, [line.place for line in self.lines if line.place >= kept]


def finds(words: str, line: Line) -> bool:
    """Whether all words begin some word of a line."""
    held = line.content["text"].split()
    return all(any(one.startswith(word) for one in held) for word in words.split())


@dataclass
class Machine:
    database: Database
    transcript: Transcript
    catalog: Catalog
    outputs: OverflowStore
    clock: Clock
    said: dict[str, Said] = field(default_factory=dict)

    async def started(self, session: str) -> Said:
        if session not in self.said:
            await self.transcript.start(session, "/w")
            self.said[session] = Said()
        return self.said[session]

    async def add(self, session: str, role: str, content: dict | None, kept: int | None = None) -> None:
        said = await self.started(session)
        said.turn += role == "user"
        origin = {"user": Origin.PERSON, "summary": Origin.WEB}.get(role, Origin.MODEL)
        line = Line(
            said.next, max(said.turn, 1), role, content if kept is None else {**content, "kept": kept}, origin
        )
        await self.transcript.append(session, line)
        said.lines.append(line)

    async def say(self, session: str, role: str, word: str) -> None:
        await self.add(session, role, {"text": word})

    async def summary(self, session: str, back: int, word: str) -> None:
        said = await self.started(session)
        await self.add(session, "summary", {"text": word}, max(0, said.next + back))

    async def clear(self, session: str) -> None:
        await self.add(session, "clear", {"text": ""})

    async def again(self, session: str) -> None:
        """What may or may not have been written is written once more under its own place."""
        for line in (await self.started(session)).lines[-2:]:
            await self.transcript.append(session, line)

    async def store(self, session: str) -> None:
        said = await self.started(session)
        said.outputs.add(await self.outputs.put(session, f"big output of {session}", Origin.WEB))

    async def fork(self, source: str, new: str, turn: int) -> None:
        if source not in self.said or new in self.said:
            return
        said = self.said[source]
        await self.catalog.fork(source, turn, new)
        lines = [line for line in said.lines if line.turn <= turn]
        self.said[new] = Said(lines, turn, set(said.outputs))

    async def delete(self, session: str) -> None:
        await self.catalog.delete(session)
        self.said.pop(session, None)

    async def broken(self, what: str, session: str) -> None:
        """The disk is full half-way: a fork is not there at all, a deletion is not seen and ends later."""
        if session not in self.said:
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(catalog_module, "_BATCH", 1)
            if what == "fork":
                await self.database.read("PRAGMA query_only = ON")
                with pytest.raises(RecordError):
                    await self.catalog.fork(session, 9, "broken")
                await self.database.read("PRAGMA query_only = OFF")
                return
            writes, real = [], self.database.write

            async def write(statements, drafts=()) -> None:
                writes.append(statements)
                if len(writes) == 3:
                    raise RecordError("the disk is full")
                await real(statements, drafts)

            patch.setattr(self.database, "write", write)
            try:
                await self.catalog.delete(session)
            except RecordError:
                patch.undo()
                assert session not in [one.id for one in await self.catalog.sessions()]
                assert session in await self.catalog.expired(365)
                await self.catalog.delete(session)
            del self.said[session]

    async def check(self) -> None:
        for session in SESSIONS:
            said = self.said.get(session, Said())
            entries = await self.transcript.entries(session)
            assert [(e.place, e.turn, e.role, e.content, e.origin) for e in entries] == [
                (line.place, line.turn, line.role, line.content, line.origin) for line in said.lines
            ]
            recall = await self.transcript.recall(session)
            summary = recall.summary and recall.summary.place
            assert (
                [e.place for e in recall.words],
                summary,
                [e.place for e in recall.rest],
            ) == said.recalled()
            for key in {key for one in self.said.values() for key in one.outputs}:
                try:
                    await self.outputs.entry(session, key)
                    assert key in said.outputs
                except OverflowNotFound:
                    assert key not in said.outputs
        listed = {one.id: one.turns for one in await self.catalog.sessions()}
        assert listed == {name: said.turn for name, said in self.said.items() if said.turn}
        for words in ("alpha", "alph bet", "gamma ray", "nothing"):
            found = sorted(
                (one.conversation.id, one.entry.place) for one in await self.catalog.search(words, 1000)
            )
            assert found == sorted(
                (name, line.place)
                for name, said in self.said.items()
                for line in said.lines
                if finds(words, line)
            )
        # What is deleted is out of the index, too, and not only kept from being found.
        ((indexed,),) = await self.database.read(
            "SELECT count(*) FROM entry_words WHERE entry_words MATCH 'alpha*'"
        )
        assert indexed == sum(finds("alpha", line) for said in self.said.values() for line in said.lines)
        orphans = await self.database.read(
            "SELECT (SELECT count(*) FROM entry WHERE session NOT IN (SELECT id FROM conversation)),"
            " (SELECT count(*) FROM overflow_link WHERE session NOT IN (SELECT id FROM conversation))"
        )
        assert orphans == [(0, 0)] and await self.database.integrity() == []


async def scenario(steps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            AsyncioThread.open("x") as asyncio_thread,
            Database.open(Path(folder) / "a.db", asyncio_thread) as database,
        ):
            clock = Clock()
            machine = Machine(
                database,
                Transcript(database, clock),
                Catalog(database, clock),
                OverflowStore(database, clock),
                clock,
            )
            for what, *arguments in steps:
                clock.time += 1
                await getattr(machine, what)(*arguments)
                await machine.check()


@settings(
    max_examples=settings().max_examples // 5,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(STEP, max_size=12))
@example(
    [
        ("say", "s", "user", "alpha"),
        ("say", "s", "assistant", "alphabet"),
        ("say", "s", "user", "beta"),
        ("fork", "s", "t", 1),
        ("delete", "s"),
        ("say", "t", "user", "gamma ray"),
    ]
)
@example(
    [
        ("say", "s", "user", "alpha"),
        ("summary", "s", 0, "beta"),
        ("clear", "s"),
        ("say", "s", "user", "beta"),
        ("summary", "s", -3, "alpha"),
        ("summary", "s", 1, ""),
        ("again", "s"),
    ]
)
@example(
    [
        ("store", "s"),
        ("say", "s", "user", "alpha"),
        ("say", "s", "tool", "alpha"),
        ("fork", "s", "u", 0),
        ("fork", "s", "v", 4),
        ("broken", "delete", "s"),
        ("broken", "fork", "v"),
    ]
)
def test_sessions_are_what_was_said_in_them_after_every_step(steps):  # fmt: skip
    trio.run(scenario, steps)
