"""The note tools: labels travel along, and nothing can hide in a note."""

from __future__ import annotations

import dataclasses

import pytest

from leeward.memory.database import AsyncioThread, Database
from leeward.memory.notes import MOST_NOTES, NoteStore
from leeward.security.kinds import Effect
from leeward.security.outcome import InvalidParameters, PermanentFailure, PolicyBlocked
from leeward.security.policy import Policy
from leeward.security.ports import RecordError
from leeward.security.session import Session
from leeward.security.trust import Origin
from leeward.tools.composite import CompositeExecutor
from leeward.tools.notes import Notes

KEY = "ghp_" + "a1B2" * 9


class Clock:
    def now(self) -> float:
        return 1_000_000.0


class Bench:
    """The two tools over a real store, in a session whose labels a test sets."""

    def __init__(self, store, run) -> None:
        self.store, self._run = store, run
        self.session = Session("s_1", Policy("/ws", "/home/ada"), secrets=frozenset({"hunter2hunter2"}))
        self.tools = CompositeExecutor(Notes(store, lambda: self.session).tools())

    def has_read(self, *labels) -> None:
        self.session = dataclasses.replace(self.session, labels=frozenset(labels))

    def moves(self, workspace) -> None:
        self.session = dataclasses.replace(self.session, policy=Policy(workspace, "/home/ada"))

    async def save(self, text):
        return await self._run(self.tools, {"text": text}, tool="memory_save")

    async def search(self, **arguments):
        return await self._run(self.tools, arguments, tool="memory_search")


@pytest.fixture
async def bench(tmp_path, run):
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(tmp_path / "x.db", asyncio_thread) as database,
    ):
        yield Bench(NoteStore(database, Clock()), run)


def test_what_the_tools_do() -> None:
    specs = {spec.name: spec for executor in Notes(None, None).tools() for spec in executor.specs()}
    assert {name: spec.effects for name, spec in specs.items()} == {
        "memory_save": Effect.WRITE,
        "memory_search": Effect.READ,
    }


async def test_a_note_is_found_again_and_named(bench) -> None:
    said = await bench.save("the harbour opens at six")
    assert said.text.startswith("kept as n_") and said.origin is Origin.TOOL
    found = await bench.search(words="harbour")
    name = said.text.removeprefix("kept as ")
    assert found.text == f"[{name}, 1970-01-12, model] the harbour opens at six"
    assert (await bench.search()).text == found.text
    nothing = await bench.search(words="lighthouse")
    assert (nothing.text, nothing.notices) == ("", ("there is no such note",))


@pytest.mark.parametrize(
    ("read", "origin"),
    [
        ((), Origin.MODEL),
        ((Origin.WORKSPACE,), Origin.MODEL),
        ((Origin.PERSON, Origin.TOOL, Origin.PROJECT), Origin.MODEL),
        ((Origin.WEB,), Origin.WEB),
        ((Origin.WORKSPACE, Origin.MCP), Origin.MCP),
        ((Origin.WEB, Origin.MCP), Origin.MCP),
    ],
)
async def test_a_note_weighs_as_much_as_the_least_of_what_led_to_it(bench, read, origin) -> None:
    bench.has_read(*read)
    await bench.save("a finding")
    bench.has_read()
    found = await bench.search(words="finding")
    assert found.origin is origin and f", {origin}]" in found.text


async def test_of_several_the_least_counts(bench) -> None:
    await bench.save("one finding")
    bench.has_read(Origin.WEB)
    await bench.save("another finding")
    assert (await bench.search(words="finding")).origin is Origin.WEB
    assert (await bench.search(words="one")).origin is Origin.MODEL


async def test_nothing_secret_goes_along(bench) -> None:
    said = await bench.save(f"the key is {KEY} and hunter2hunter2")
    assert said.notices == ("a secret in it was masked",)
    text = (await bench.search(words="key")).text
    assert KEY not in text and "hunter2" not in text and "[REDACTED:" in text
    bench.has_read(Origin.SECRET)
    with pytest.raises(PolicyBlocked, match="secret"):
        await bench.save("what I have just read")


@pytest.mark.parametrize(
    "text", ["a\x1b[2J", "a\0b", "a\u202eb", "a\u200bb", "a\x9b", "\U000e0041x", "a\rb", "", "  ", "x" * 2001]
)
async def test_what_cannot_be_shown_or_is_too_much_is_no_note(bench, text) -> None:
    with pytest.raises(InvalidParameters):
        await bench.save(text)
    assert (await bench.search()).text == ""


@pytest.mark.parametrize("text", ["a\nb\tc", "日本語 👩‍💻 naïve", "«UNTRUSTED:0:person» do it", "x" * 2000])
async def test_what_people_write_is_one(bench, text) -> None:
    await bench.save(text)
    # Its lines are set in, so that none can look like the head of another note.
    assert text.replace("\n", "\n  ") in (await bench.search()).text


async def test_a_workspace_sees_its_own_notes(bench) -> None:
    await bench.save("here only")
    bench.moves("/ws2")
    assert (await bench.search()).text == ""


async def test_a_full_store_and_a_broken_one_say_so(bench) -> None:
    for number in range(MOST_NOTES):
        await bench.store.save("/ws", "s", f"n {number}", Origin.MODEL)
    with pytest.raises(PermanentFailure, match="/memory"):
        await bench.save("one more")

    class Broken:
        async def save(self, *_):
            raise RecordError("the disk is full")

        search = newest = save

    bench.tools = CompositeExecutor(Notes(Broken(), lambda: bench.session).tools())
    for call in (bench.save("x"), bench.search(words="x"), bench.search()):
        with pytest.raises(PermanentFailure, match="the disk is full"):
            await call
