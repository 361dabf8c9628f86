"""Sessions are listed, searched, forked and deleted; nothing of one is left half done."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.database import Database
from leeward.memory.database.migrations import MIGRATIONS
from leeward.memory.database.schema import APPLICATION_ID
from leeward.memory.overflow import OverflowStore
from leeward.memory.sessions import Catalog, Conversation, Line, Transcript
from leeward.memory.sessions import catalog as catalog_module
from leeward.security.ports import RecordError
from leeward.security.trust import Origin

pytestmark = pytest.mark.usefixtures("clock")


@pytest.fixture
def transcript(database: Database, clock) -> Transcript:
    return Transcript(database, clock)


@pytest.fixture
def catalog(database: Database, clock) -> Catalog:
    return Catalog(database, clock)


async def told(transcript: Transcript, session: str, *texts: str, workspace: str = "/w") -> None:
    """A session in which the person said these texts, one in each turn, and was answered."""
    await transcript.start(session, workspace)
    for turn, text in enumerate(texts, start=1):
        await transcript.append(session, Line(2 * turn - 1, turn, "user", {"text": text}, Origin.PERSON))
        await transcript.append(
            session, Line(2 * turn, turn, "assistant", {"text": f"answer to {text}"}, Origin.MODEL)
        )


async def test_sessions_are_listed_by_their_last_use_and_named_by_the_first_words(
    catalog, transcript, clock
) -> None:
    started = clock.time
    await told(transcript, "a", "  fix the\n parser, please ", "and the tests", workspace="/p")
    clock.time += 10
    await told(transcript, "b", "hello")
    await transcript.start("empty", "/w")
    clock.time += 10
    await transcript.append("a", Line(9, 3, "user", {"text": "more"}, Origin.PERSON))
    a = Conversation("a", started, "/p", "fix the parser, please", clock.time, 3)
    b = Conversation("b", started + 10, "/w", "hello", started + 10, 1)
    assert await catalog.sessions() == [a, b], "where nothing was said there is nothing to go on with"
    assert await catalog.sessions(workspace="/w") == [b]
    assert await catalog.sessions(1) == [a] and await catalog.sessions(-1) == []


async def test_a_session_is_found_by_the_beginning_of_its_id(catalog, transcript) -> None:
    for session in ("s_1", "s_12", "s_2"):
        await told(transcript, session, "x")
    found = {
        name: [one.id for one in await catalog.named(name)]
        for name in ("s_1", "s_12", "s_", "s_2", "", "%", "s_3", "\ud800")
    }
    assert found == {
        "s_1": ["s_1"],
        "s_12": ["s_12"],
        "s_": ["s_1", "s_12"],
        "s_2": ["s_2"],
        "": ["s_1", "s_12"],
        "%": [],
        "s_3": [],
        "\ud800": [],
    }


SAID = [
    "The parser drops über-long lines",
    "a-b foo_bar C++ 3.14",
    'she said "drop it" loudly',
    "Straße nach Köln",
    "NOT this OR that",
    "Clouds over C#, .NET and cobalt",
]


async def test_a_word_with_signs_is_found_among_many_that_begin_like_it(catalog, transcript) -> None:
    await transcript.start("s", "/w")
    for place in range(250):
        text = "a man who wrote c++ went away for good, they say" if place == 125 else "c is a vitamin"
        await transcript.append("s", Line(place, 1, "user", {"text": text}, Origin.PERSON))
    assert [hit.entry.place for hit in await catalog.search("c++", 3)] == [125]
    assert len(await catalog.search("c", 300)) == 250 and len(await catalog.search("c", 3)) == 3


async def test_how_many_are_looked_at_is_bounded(catalog, transcript, monkeypatch) -> None:
    monkeypatch.setattr(catalog_module, "_LOOKED_AT", 20)
    monkeypatch.setattr(catalog_module, "_AT_ONCE", 10)
    await transcript.start("s", "/w")
    for place in range(40):
        text = "a b" if place else "a+b"
        await transcript.append("s", Line(place, 1, "user", {"text": text}, Origin.PERSON))
    assert await catalog.search("a+b", 3) == []
    monkeypatch.setattr(catalog_module, "_LOOKED_AT", 50)
    assert [hit.entry.place for hit in await catalog.search("a+b", 3)] == [0]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("parser", [0]),
        ("pars drop", [0]),
        ('"drops über"', [0]),
        ('"über drops"', []),
        ("uber", [0]),
        ("foo_bar", [1]),
        ("C++", [1]),
        ("3.14", [1]),
        ("koln straße", [3]),
        ("NOT OR", [4]),
        ("parser NOT", []),
        ("words:parser", []),
        ("^parser", []),
        ("par*", []),
        ("c++", [1]),
        ("c--", []),
        ("c+++", []),
        ("c#", [5]),
        ("c", [1, 5]),
        ("A-B", [1]),
        ("a_b", []),
        ("foo_", [1]),
        ("foo_b", [1]),
        ("oo_bar", []),
        ("3.1", [1]),
        (".net", [5]),
        ("net", [5]),
        ("uber-l", [0]),
        ("über-lo lines", [0]),
        ('"U\u0308BER-long  lines"', [0]),
        ('"c#, .net"', [5]),
        ('"c# .net"', []),
        ("nothing", []),
        ('"', []),
        ("!!! ---", []),
        ("", []),
        ('drop" it', [2]),
        ("\0parser", [0]),
    ],
)
async def test_words_are_words_and_never_a_query_language(catalog, transcript, words, found) -> None:
    await transcript.start("s", "/w")
    for place, text in enumerate(SAID):
        await transcript.append("s", Line(place, 1, "user", {"text": text}, Origin.PERSON))
    assert sorted(SAID.index(hit.entry.content["text"]) for hit in await catalog.search(words)) == found


@given(st.text(max_size=40))
@example('"a" AND (b')
@example("NEAR(a b)")
@example("{words} : a")
@example("a\ud800")
@example("½ \u0345")
def test_no_words_make_a_query_that_fails(words: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, connection:
        connection.execute("CREATE VIRTUAL TABLE w USING fts5(words, content='')")
        query = catalog_module._query(catalog_module._terms(words))
        if query:
            connection.execute("SELECT rowid FROM w WHERE w MATCH ?", (query,)).fetchall()


async def test_a_fork_has_what_was_said_up_to_its_turn_and_goes_its_own_way(
    catalog, transcript, database, clock
) -> None:
    await told(transcript, "s", "first", "second", "third")
    kept = await OverflowStore(database, clock).put("s", "long " * 100, Origin.WEB)
    await catalog.fork("s", 2, "f")
    texts = [entry.content["text"] for entry in await transcript.entries("f")]
    assert texts == ["first", "answer to first", "second", "answer to second"]
    fork = (await catalog.named("f"))[0]
    assert (fork.title, fork.turns, fork.forked_from, fork.forked_turn) == ("first", 2, "s", 2)
    assert (await OverflowStore(database, clock).get("f", kept)).text.startswith("long")
    await transcript.append("f", Line(5, 3, "user", {"text": "elsewhere"}, Origin.PERSON))
    assert len(await transcript.entries("s")) == 6
    await catalog.delete("s")
    assert [hit.conversation.id for hit in await catalog.search("second")] == ["f", "f"]


async def test_a_fork_that_fails_leaves_nothing(catalog, transcript) -> None:
    await told(transcript, "s", "first")
    await told(transcript, "taken", "x")
    with pytest.raises(RecordError):
        await catalog.fork("s", 1, "taken")
    assert len(await transcript.entries("taken")) == 2
    assert [hit.conversation.id for hit in await catalog.search("first")] == ["s", "s"]


async def test_what_was_deleted_is_gone_everywhere_and_the_rest_stays(
    catalog, transcript, database, clock
) -> None:
    await told(transcript, "s", *(f"word{n} common" for n in range(250)))
    await told(transcript, "t", "common ground")
    overflow = OverflowStore(database, clock)
    kept = await overflow.put("s", "long " * 100, Origin.WEB)
    await catalog.delete("s")
    assert await transcript.entries("s") == [] and await catalog.named("s") == []
    assert [hit.conversation.id for hit in await catalog.search("common")] == ["t", "t"]
    with pytest.raises(LookupError):
        await overflow.get("s", kept)
    await database.write([("INSERT INTO entry_words (entry_words) VALUES ('integrity-check')", ())])
    assert await database.read("SELECT count(*) FROM conversation WHERE id = 's'") == [(0,)]
    await catalog.delete("s")


def odd_word(number: int) -> str:
    """A word with no beginning in common with another: the index keeps what follows that only."""
    return "".join(random.Random(number).choices("bcdfghjklmnpqrstvwxz", k=24))


async def left_in(database: Database, *numbers: int) -> set[int]:
    """Return which of the odd words can be read from the bytes of the file."""
    await database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    content = database.path.read_bytes().lower()
    return {number for number in numbers if odd_word(number)[6:].encode() in content}


async def test_what_was_deleted_can_not_be_read_from_the_file_either(catalog, transcript, database) -> None:
    """Neither its text, nor its words, which an index keeps."""
    await told(transcript, "s_1", f"{odd_word(1)} walks")
    await told(transcript, "s_2", f"{odd_word(2)} walks")
    await catalog.delete("s_2")
    assert await left_in(database, 1, 2) == {1, 2}, "the index has both still"
    await catalog.forget_words()
    assert await left_in(database, 1, 2) == {1}
    assert {one.conversation.id for one in await catalog.search(odd_word(1))} == {"s_1"}
    assert await catalog.search(odd_word(2)) == []
    await catalog.forget_words()
    assert len(await catalog.search("walks", 100)) == 2


async def test_the_index_is_cleaned_a_bit_at_a_time_where_somebody_waits(
    catalog, transcript, database, monkeypatch
) -> None:
    monkeypatch.setattr(catalog_module, "_MERGE", catalog_module._MERGE.replace("-64", "-1"))
    for number in range(40):
        await told(transcript, f"s_{number}", *(odd_word(100 * number + other) for other in range(20)))
    await catalog.delete("s_7")
    steps, words = 0, range(700, 720)
    while await left_in(database, *words):
        await catalog.forget_words(1)
        steps += 1
        assert steps < 1000
    assert steps > 1


async def test_a_deletion_that_was_broken_off_is_not_seen_and_ends_later(
    catalog, transcript, database
) -> None:
    await told(transcript, "s", "first")
    await database.write([(catalog_module._DELETE, ("s",))])
    assert (
        await catalog.sessions() == []
        and await catalog.named("s") == []
        and await catalog.search("first") == []
    )
    assert await catalog.expired(10_000) == ["s"]
    await catalog.delete("s")
    assert await catalog.expired(10_000) == []


@pytest.mark.parametrize(
    "damage",
    [
        "content = '{'",
        "content = x'ff'",
        "origin = 'god'",
        "content = replace(printf('%0200000d', 0), '0', '[')",
    ],
)
async def test_a_damaged_entry_is_named_and_hinders_neither_search_nor_deletion(
    catalog, transcript, database, clock, damage
) -> None:
    await told(transcript, "a", "harbour one", "harbour two")
    await database.write([(f"UPDATE entry SET {damage} WHERE place = 1", ())])
    for read in (transcript.entries("a"), transcript.recall("a"), catalog.fork("a", 2, "b")):
        with pytest.raises(RecordError, match="entry 1 of the conversation cannot be read"):
            await read
    assert [one.entry.place for one in await catalog.search("harbour")] == [3, 4, 2]
    await catalog.delete("a")
    assert (
        await database.read("SELECT count(*) FROM entry") == [(0,)] and await catalog.search("harbour") == []
    )


async def test_what_nobody_goes_on_with_expires(catalog, transcript, clock) -> None:
    await told(transcript, "old", "x")
    await transcript.start("empty", "/w")
    clock.time += 30 * 86_400
    await told(transcript, "new", "x")
    assert sorted(await catalog.expired(29)) == ["empty", "old"] and await catalog.expired(31) == []
    await transcript.append("old", Line(9, 2, "user", {"text": "again"}, Origin.PERSON))
    assert await catalog.expired(29) == ["empty"]


async def test_every_listing_finds_its_rows_by_an_index(database) -> None:
    for sql, values, expected in (
        (catalog_module._ALL, (9,), "SCAN conversation USING INDEX conversation_by_use"),
        (
            catalog_module._OF_WORKSPACE,
            ("/w", 9),
            "SEARCH conversation USING INDEX conversation_by_place (workspace=?)",
        ),
        (
            catalog_module._NAMED,
            ("s",),
            "SEARCH conversation USING INDEX sqlite_autoindex_conversation_1 (id>? AND id<?)",
        ),
        (catalog_module._EXPIRED, (1.0, 9), "SEARCH conversation USING INDEX conversation_to_prune (used<?)"),
        (catalog_module._LEFT, ("s", 9), "SEARCH entry USING INDEX entry_by_place (session=?)"),
    ):
        steps = [step[-1] for step in await database.read(f"EXPLAIN QUERY PLAN {sql}", values)]
        assert steps[0] == expected and not any("TEMP B-TREE" in step for step in steps), (sql, steps)


async def test_conversations_of_the_first_release_come_along(asyncio_thread, tmp_path, clock) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as old, old:
        for statement in MIGRATIONS[0]:
            old.execute(statement)
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
        old.execute(
            "INSERT INTO conversation VALUES ('s', 5.0, '/w', 'the harbour'), ('empty', 6.0, '/w', '')"
        )
        said = [
            ("user", {"text": "the harbour"}, 1),
            ("assistant", {"text": "", "calls": [["c", "read", "{}"]]}, 1),
            ("tool", {"text": "ferry", "call_id": "c"}, 1),
            ("user", {"text": "and now", "attached": "piped"}, 2),
        ]
        old.executemany(
            "INSERT INTO entry (session, turn, role, content, origin, at) VALUES ('s', ?, ?, ?, 'person', ?)",
            [(turn, role, json.dumps(content), 7.0 + n) for n, (role, content, turn) in enumerate(said)],
        )
    async with Database.open(path, asyncio_thread) as database:
        transcript, catalog = Transcript(database, clock), Catalog(database, clock)
        assert await catalog.sessions() == [Conversation("s", 5.0, "/w", "the harbour", 10.0, 2)]
        recall = await transcript.recall("s")
        assert [entry.content for entry in recall.rest] == [
            content for _, content, _ in said
        ] and recall.last_turn == 2
        assert [hit.entry.turn for hit in await catalog.search("piped")] == [2]
        await transcript.append("s", Line(recall.last_place + 1, 3, "user", {"text": "more"}, Origin.PERSON))
        assert [entry.content["text"] for entry in await transcript.entries("s")][-1] == "more"
        await catalog.delete("s")
        await database.write([("INSERT INTO entry_words (entry_words) VALUES ('integrity-check')", ())])
        assert await catalog.search("ferry") == []
