"""Notes across sessions: bounded, labelled, found by words; a hostile query finds nothing more."""

from __future__ import annotations

from random import Random

import pytest

from leeward.memory.database import Database
from leeward.memory.notes import LONGEST_NOTE, MOST_NOTES, NoteNotFound, NotesFull, NoteStore
from leeward.security.trust import Origin

HERE, ELSEWHERE = "/ws", "/ws2"


@pytest.fixture
def notes(database: Database, clock) -> NoteStore:
    return NoteStore(database, clock)


async def texts(notes: NoteStore, words: str, workspace: str = HERE) -> list[str]:
    return [note.text for note in await notes.search(workspace, words, 10)]


async def test_a_note_is_found_by_its_words_where_it_belongs(notes, clock) -> None:
    note = await notes.save(HERE, "s_1", "  The harbour opens at six.  ", Origin.MODEL)
    assert (note.workspace, note.session, note.saved_at, note.origin) == (
        HERE,
        "s_1",
        clock.now(),
        Origin.MODEL,
    )
    assert note == await notes.get(HERE, note.id)
    for words in ("harbour", "HARBOUR six", "harb", "nothing opens", "ópens"):
        assert await texts(notes, words) == ["The harbour opens at six."], words
    for words in ("seven", "", " ", "arbour", "-", "* OR *"):
        assert await texts(notes, words) == [], words
    assert await texts(notes, "harbour", ELSEWHERE) == []
    assert await notes.newest(HERE, 10) == [note] and await notes.newest(ELSEWHERE, 10) == []
    with pytest.raises(NoteNotFound):
        await notes.get(ELSEWHERE, note.id)


async def test_the_best_comes_first_and_the_newest_without_words(notes, clock) -> None:
    for text in ("tide tide tide", "tide table and much else that is written here", "unrelated"):
        await notes.save(HERE, "s_1", text, Origin.MODEL)
        clock.time += 1
    assert (await texts(notes, "tide"))[0] == "tide tide tide"
    assert [note.text for note in await notes.newest(HERE, 2)] == [
        "unrelated",
        "tide table and much else that is written here",
    ]
    assert len(await notes.search(HERE, "tide", 1)) == 1


async def test_the_same_note_again_weighs_no_more_than_the_least_of_both(notes) -> None:
    first = await notes.save(HERE, "s_1", "x", Origin.WEB)
    again = await notes.save(HERE, "s_2", "x", Origin.MODEL)
    assert (again.id, again.origin) == (first.id, Origin.WEB)
    worse = await notes.save(HERE, "s_1", "y", Origin.MODEL)
    assert (
        await notes.save(HERE, "s_2", "y", Origin.WEB)
    ).origin is Origin.WEB and worse.origin is Origin.MODEL
    assert await texts(notes, "x y") == ["x", "y"] or await texts(notes, "x y") == ["y", "x"]


@pytest.mark.parametrize("text", ["", "  \n ", "x" * (LONGEST_NOTE + 1)])
async def test_a_note_has_a_size(notes, text) -> None:
    with pytest.raises(ValueError, match="characters"):
        await notes.save(HERE, "s_1", text, Origin.MODEL)
    assert (await notes.save(HERE, "s_1", "x" * LONGEST_NOTE, Origin.MODEL)).text == "x" * LONGEST_NOTE


async def test_nobody_pushes_a_note_out_by_writing_many(notes) -> None:
    good = await notes.save(HERE, "s_1", "the good one", Origin.MODEL)
    for number in range(MOST_NOTES - 1):
        await notes.save(HERE, "s_1", f"spam {number}", Origin.WEB)
    with pytest.raises(NotesFull, match="/memory"):
        await notes.save(HERE, "s_1", "one too many", Origin.WEB)
    assert await texts(notes, "many") == [] and await texts(notes, "good") == ["the good one"]
    assert (await notes.save(HERE, "s_2", "the good one", Origin.MODEL)).id == good.id, (
        "what is there already may be said again"
    )
    assert (await notes.save(ELSEWHERE, "s_2", "x", Origin.MODEL)).workspace == ELSEWHERE
    await notes.delete(good.id)
    await notes.save(HERE, "s_1", "now it fits", Origin.MODEL)
    assert await texts(notes, "good") == []


async def test_a_deleted_note_leaves_nothing_behind(notes, database) -> None:
    note = await notes.save(HERE, "s_1", "forget me", Origin.MODEL)
    await notes.delete(note.id)
    assert await texts(notes, "forget") == [] and await notes.newest(HERE, 9) == []
    assert await database.read("SELECT (SELECT count(*) FROM note), (SELECT count(*) FROM note_text)") == [
        (0, 0)
    ]
    again = await notes.save(HERE, "s_1", "another", Origin.MODEL)
    assert await texts(notes, "forget another") == ["another"] and again.text == "another"
    await notes.delete("n_unknown")
    await database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"forget" not in database.path.read_bytes(), "the index has forgotten its words, too"


async def test_only_what_the_person_widened_holds_elsewhere(notes) -> None:
    note = await notes.save(HERE, "s_1", "everywhere please", Origin.WEB)
    await notes.widen(note.id)
    [found] = await notes.search(ELSEWHERE, "please", 5)
    assert (found.workspace, found.origin) == (None, Origin.WEB)


OPERATORS = "ab\"*^():-+{}NEAROT\0\n '%\ud800é日"


async def test_no_query_breaks_the_index_or_says_more_than_words(notes) -> None:
    await notes.save(HERE, "s_1", "a plain note", Origin.MODEL)
    chance = Random(7)
    made = ["".join(chance.choices(OPERATORS, k=chance.randrange(60))) for _ in range(300)]
    for words in ('"', "text:x", "a NEAR/5 b", "NOT a AND", "a*" * 3000, "\0", "_", *made):
        assert await texts(notes, words) in ([], ["a plain note"]), words


async def test_a_query_has_a_bounded_number_of_words(notes) -> None:
    await notes.save(HERE, "s_1", "last", Origin.MODEL)
    assert await texts(notes, " ".join(f"w{n}" for n in range(16)) + " last") == []
    assert await texts(notes, "last " + "x" * 100_000) == ["last"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM note WHERE workspace = '/ws' ORDER BY saved_at DESC LIMIT 1",
        "SELECT count(*) FROM note WHERE workspace = '/ws'",
    ],
)
async def test_listing_has_an_index(database, sql) -> None:
    plan = [row[-1] for row in await database.read(f"EXPLAIN QUERY PLAN {sql}")]
    assert any("note_by_workspace" in step for step in plan) and not any(
        "TEMP B-TREE" in step for step in plan
    )
