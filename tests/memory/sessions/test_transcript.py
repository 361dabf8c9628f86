"""Conversations are read back unchanged, in order, with their origins and costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.memory.database import Database
from leeward.memory.sessions import Charge, Line, Transcript
from leeward.memory.sessions import transcript as transcript_module
from leeward.memory.sessions.transcript import first_words, words_of
from leeward.security.kinds import Json
from leeward.security.ports import RecordError
from leeward.security.trust import Origin


@pytest.fixture
def transcript(database: Database, clock) -> Transcript:
    return Transcript(database, clock)


def line(
    place: int, content: Json, role: str = "user", turn: int = 1, origin: Origin = Origin.PERSON, **more
) -> Line:
    return Line(place, turn, role, content, origin, **more)


async def test_entries_come_back_in_order(transcript: Transcript, clock) -> None:
    contents: list[Json] = [
        "hello",
        {"text": "hi", "calls": [{"id": "c1", "arguments": '{"a":1}'}]},
        ["\ud800", None, 1.5, True, {"ü": "\0"}],
        {"text": "\ud800\0 ü"},
        None,
    ]
    await transcript.start("s", "/w")
    await transcript.start("other", "/w")
    for turn, content in enumerate(contents, start=1):
        clock.time += 1
        await transcript.append("s", line(turn, content, turn=turn, origin=Origin.WEB))
        await transcript.append("other", line(turn, "beside"))
    entries = await transcript.entries("s")
    assert [entry.content for entry in entries] == contents
    assert [(entry.place, entry.turn, entry.role, entry.origin) for entry in entries] == [
        (n, n, "user", Origin.WEB) for n in (1, 2, 3, 4, 5)
    ]
    assert [entry.at for entry in entries] == [clock.time - 5 + n for n in (1, 2, 3, 4, 5)]
    assert await transcript.entries("nobody") == []


async def test_a_place_is_given_once_and_says_the_order(transcript: Transcript, database: Database) -> None:
    """What was reported as failed may be there: it is written again under its own place, and counts once."""
    await transcript.start("s", "/w")
    for place in (2, 1, 2, 3, 1):
        await transcript.append("s", line(place, {"text": f"word{place}"}, turn=place))
    assert [entry.content for entry in await transcript.entries("s")] == [
        {"text": f"word{n}"} for n in (1, 2, 3)
    ]
    found = await database.read("SELECT count(*) FROM entry_words WHERE entry_words MATCH 'word1 OR word2'")
    assert found == [(2,)], "and stands in the index once"


async def test_what_was_spent_comes_back_by_model(transcript: Transcript) -> None:
    await transcript.start("s", "/w")
    charges = [
        Charge("a", 10, 1, 2, 0.5),
        Charge("a", 20, 2, 0, 0.25),
        Charge("b", 5, 5),
        Charge("b", 1, 1, 0, 1.0),
        Charge("c", cost=0.125, estimated=1),
    ]
    for place, charge in enumerate(charges, start=1):
        await transcript.append("s", line(place, {"text": "x"}, "assistant", charge=charge))
    await transcript.append("s", line(9, {"text": "mine"}))
    assert [entry.charge for entry in await transcript.entries("s")] == [*charges, Charge()]
    recall = await transcript.recall("s")
    assert {charge.model: charge for charge in recall.charges} == {
        "a": Charge("a", 30, 3, 2, 0.75, 0),
        "b": Charge("b", 6, 6, 0, None, 0),
        "c": Charge("c", 0, 0, 0, 0.125, 1),
    }
    assert (recall.last_place, recall.last_turn) == (9, 1)


async def test_what_is_gone_on_with(transcript: Transcript) -> None:
    """Behind the last `clear`: the person's words, the newest summary, and what that does not stand for."""
    await transcript.start("s", "/w")
    lines = [
        line(1, {"text": "secret plan"}),
        line(2, {"text": "old summary", "kept": 2}, "summary"),
        line(3, None, "clear"),
        line(4, {"text": "one"}, turn=2),
        line(5, {"text": "a1"}, "assistant", 2, Origin.MODEL),
        line(6, {"text": "first summary", "kept": 6}, "summary", 2, Origin.WEB),
        line(7, {"text": "two"}, turn=3),
        line(8, {"text": "a2"}, "assistant", 3, Origin.MODEL),
        line(9, {"text": "three"}, turn=4),
        line(10, {"text": "second summary", "kept": 9}, "summary", 4, Origin.WEB),
        line(11, {"text": "a3"}, "assistant", 4, Origin.MODEL),
    ]
    for number in (3, 6, 11):
        for one in lines[:number]:
            await transcript.append("s", one)
        recall = await transcript.recall("s")
        told = (
            [e.place for e in recall.words],
            recall.summary and recall.summary.place,
            [e.place for e in recall.rest],
        )
        assert told == {3: ([], None, []), 6: ([4], 6, [6]), 11: ([4, 7], 10, [9, 10, 11])}[number]
    assert (recall.last_place, recall.last_turn) == (11, 4)


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
        | st.dictionaries(st.sampled_from(["text", "content", "attached", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(_json)
def test_words_of_anything_can_be_stored(content: Json) -> None:
    words = first_words(content)
    assert len(words) <= 80
    assert words == " ".join(words.split())
    assert "\0" not in words_of(content)
    words_of(content).encode()


async def test_what_cannot_be_kept_is_refused_in_words(transcript: Transcript) -> None:
    with pytest.raises(RecordError, match="contradicts what is stored already"):
        await transcript.append("never started", line(1, "x"))
    await transcript.start("s", "/w")
    for bad in (float("nan"), {"x": {1, 2}}):
        with pytest.raises(RecordError, match="cannot be written as JSON"):
            await transcript.append("s", line(1, bad))
    assert await transcript.entries("s") == []


async def test_every_query_finds_its_rows_by_an_index(database: Database) -> None:
    for sql, values, expected in (
        (transcript_module._ENTRIES, ("s",), "SEARCH entry USING INDEX entry_by_place (session=?)"),
        (
            transcript_module._FROM,
            ("s", 1),
            "SEARCH entry USING INDEX entry_by_place (session=? AND place>?)",
        ),
        (
            transcript_module._LAST_OF_ROLE,
            ("s", "clear", 0),
            "SEARCH entry USING INDEX entry_by_role (session=? AND role=? AND place>?)",
        ),
        (
            transcript_module._WORDS,
            ("s", 0, 9),
            "SEARCH entry USING INDEX entry_by_role (session=? AND role=? AND place>? AND place<?)",
        ),
        (transcript_module._CHARGES, ("s",), "SEARCH entry USING INDEX entry_by_role (session=? AND role=?)"),
    ):
        steps = [step[-1] for step in await database.read(f"EXPLAIN QUERY PLAN {sql}", values)]
        assert expected in steps and not any(step.startswith("SCAN") for step in steps), (sql, steps)
