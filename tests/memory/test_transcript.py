"""Conversations: what was said comes back as it was, in order, with whose words they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.memory import Conversation, Database, Transcript
from leeward.memory import transcript as transcript_module
from leeward.memory.transcript import first_words
from leeward.security import Json, Origin, RecordError


@pytest.fixture
def transcript(database: Database, clock) -> Transcript:
    return Transcript(database, clock)


async def test_entries_come_back_in_order(transcript: Transcript, clock) -> None:
    contents: list[Json] = [
        "hello",
        {"text": "hi", "calls": [{"id": "c1", "arguments": '{"a":1}'}]},
        ["\ud800", None, 1.5, True, {"ü": "\0"}],
        None,
    ]
    await transcript.start("s", "/w")
    await transcript.start("other", "/w")
    for turn, content in enumerate(contents, start=1):
        clock.time += 1
        await transcript.append("s", turn, "user", content, Origin.WEB)
        await transcript.append("other", turn, "user", "beside", Origin.PERSON)
    entries = await transcript.entries("s")
    assert [entry.content for entry in entries] == contents
    assert [(entry.turn, entry.role, entry.origin) for entry in entries] == [
        (n, "user", Origin.WEB) for n in (1, 2, 3, 4)
    ]
    assert [entry.at for entry in entries] == [clock.time - 3, clock.time - 2, clock.time - 1, clock.time]
    assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
    assert await transcript.entries("nobody") == []


async def test_sessions_are_listed_by_the_persons_first_words(transcript: Transcript, clock) -> None:
    await transcript.start("a", "/home/ann/project")
    started = clock.time
    clock.time += 10
    await transcript.start("b", "/w")
    await transcript.start("a", "/elsewhere")
    await transcript.append("a", 1, "system", "You are …", Origin.TOOL)
    await transcript.append("a", 1, "user", {"text": "  fix the\n parser, please "}, Origin.PERSON)
    await transcript.append("a", 2, "user", {"text": "and the tests"}, Origin.PERSON)
    assert await transcript.sessions() == [
        Conversation("b", clock.time, "/w", ""),
        Conversation("a", started, "/home/ann/project", "fix the parser, please"),
    ]
    assert [session.id for session in await transcript.sessions(1)] == ["b"]
    assert await transcript.sessions(-1) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("one\n\ttwo", "one two"),
        ("x" * 200, "x" * 80),
        ({"role": "user", "content": "under content"}, "under content"),
        ({"text": "", "content": [{"type": "image"}, {"type": "text", "text": "in a part"}]}, "in a part"),
        ({"other": "no"}, ""),
        ([], ""),
        (None, ""),
        (7, ""),
    ],
)
def test_first_words(content: Json, words: str) -> None:
    assert first_words(content) == words


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "content", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(_json)
def test_first_words_of_anything_are_one_short_line(content: Json) -> None:
    words = first_words(content)
    assert len(words) <= 80
    assert words == " ".join(words.split())


async def test_what_cannot_be_kept_is_refused_in_words(transcript: Transcript) -> None:
    with pytest.raises(RecordError, match="contradicts what is stored already"):
        await transcript.append("never started", 1, "user", "x", Origin.PERSON)
    await transcript.start("s", "/w")
    for bad in (float("nan"), {"x": {1, 2}}):
        with pytest.raises(RecordError, match="cannot be written as JSON"):
            await transcript.append("s", 1, "user", bad, Origin.PERSON)
    assert await transcript.entries("s") == []


async def test_a_failed_entry_gives_no_title(transcript: Transcript, database: Database) -> None:
    await transcript.start("s", "/w")
    await database.read("PRAGMA query_only = ON")
    with pytest.raises(RecordError, match="read-only"):
        await transcript.append("s", 1, "user", "hello", Origin.PERSON)
    await database.read("PRAGMA query_only = OFF")
    assert (await transcript.sessions())[0].title == ""


async def test_every_query_finds_its_rows_by_an_index(database: Database) -> None:
    for sql, values, expected in (
        (transcript_module._ENTRIES, ("s",), "SEARCH entry USING INDEX entry_by_session (session=?)"),
        (transcript_module._CONVERSATIONS, (10,), "SCAN conversation USING INDEX conversation_by_start"),
    ):
        steps = await database.read(f"EXPLAIN QUERY PLAN {sql}", values)
        assert steps[0][-1] == expected
