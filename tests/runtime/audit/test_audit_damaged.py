"""A file changed by hand: what is left is shown, and what was done about it is reported."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing

import pytest

from leeward.memory.audit import DAMAGED
from leeward.memory.audit.rows import record_of
from leeward.memory.sessions import SessionLock
from leeward.runtime.audit import record_text
from loading import rows_beside

ROWS = rows_beside(__file__)

DAMAGES = ROWS["damages"]
LOOKS = [
    ("list",),
    ("list", "--egress"),
    ("list", "--denied"),
    ("show", "call_"),
    ("why", "call_"),
    ("export",),
    ("export", "--format", "csv"),
    ("export", "--format", "otel"),
    ("stats",),
    ("replay",),
    ("verify",),
]


@pytest.fixture
def lived(leeward):
    """An audit with one call in it."""
    (leeward.workspace / "notes.md").write_text("x", encoding="utf-8")
    assert leeward("call", "read", '{"path": "notes.md"}').code == 0
    return leeward


def change(leeward, statement: str) -> None:
    with closing(sqlite3.connect(leeward.data / "leeward.db", isolation_level=None)) as database:
        assert database.execute(statement).rowcount


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=list(DAMAGES))
def test_one_changed_record_hides_no_other(lived, statement):
    """Nothing breaks; lists and exports go on behind it, and what is judged or counted is told as damaged."""
    change(lived, statement)
    for words in LOOKS:
        ran = lived("audit", *words)
        assert "Traceback" not in ran.err, (words, ran.err)
        if words[0] in {"list", "show", "export"} and "--denied" not in words:
            assert ran.code == 0, (words, ran)
    assert lived("audit", "verify").code == 1
    every = lived("audit", "export").out.splitlines()
    with closing(sqlite3.connect(lived.data / "leeward.db")) as database:
        ((count,),) = database.execute("SELECT count(*) FROM audit")
    assert len(every) == count


@pytest.mark.parametrize("arguments", ["[" * 40_000, '{"path": ' + "[" * 900 + "]" * 900 + "}"])
def test_arguments_that_nest_too_deep_to_be_read_hide_nothing(lived, arguments):
    """A model may write them as it likes; they are refused, and stand in the record."""
    assert "nested deeper" in lived("call", "read", arguments).err
    for words in LOOKS:
        ran = lived("audit", *words)
        assert ran.code == (2 if words == ("why", "call_") else 0), (words, ran.err[-500:])
    assert "2 decisions in 2 sessions: 0 would be decided differently" in lived("audit", "replay").out


def test_a_changed_record_says_so(lived):
    change(lived, DAMAGES["empty"])
    (line,) = [line for line in lived("audit", "list").out.splitlines() if DAMAGED in line]
    assert "a decision that was changed" in line
    ran = lived("audit", "why", "call_")
    assert (ran.code, "was changed, so it explains nothing" in ran.err) == (1, True)


def test_what_was_written_by_an_early_release_is_no_damage():
    """Fields that came later are missing there."""
    row = (1, 1.0, "s", "turn", None, None, '{"at":1.0}')
    assert record_of(row).kind == "turn"
    assert record_text(record_of(row)).startswith("turn")


@pytest.mark.parametrize("action", ["list", "tail", "stats", "export", "replay"])
def test_a_session_that_is_none_is_not_found(lived, action):
    ran = lived("audit", action, "--session", "s_none", "--output", "jsonl")
    assert (ran.code, ran.out.count('"record"')) == (5, 0)


# ------------------------------------------------------------------ what the person must be told


def killed(leeward) -> None:
    """Leave the session behind as if its process had been killed before an outcome was on record."""
    change(leeward, "DELETE FROM audit WHERE seq >= (SELECT seq FROM audit WHERE kind = 'outcome')")
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as database:
        ((session,),) = database.execute("SELECT session FROM audit WHERE kind = 'session'")
    SessionLock.take(leeward.data / "leeward.db", session).release(is_settled=False)


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_a_single_call_tells_what_a_killed_session_left(lived, form):
    """Whoever settles it is the only one who can: nobody is told a second time."""
    killed(lived)
    ran = lived("call", "read", '{"path": "notes.md"}', "--output", form)
    told = {
        "text": ran.err,
        "json": json.dumps(ran.json["warnings"]) if form == "json" else "",
        "jsonl": ran.out,
    }
    assert "unknown outcome: read" in told[form]
    assert ran.out.startswith("x") or form != "text"


LOOKING = [
    ("audit", "list"),
    ("sessions", "list"),
    ("permissions", "list"),
    ("storage", "status"),
    ("doctor",),
]


@pytest.mark.parametrize("words", LOOKING, ids=[words[0] for words in LOOKING])
def test_whoever_opens_a_damaged_file_first_tells_where_it_went(lived, words):
    path = lived.data / "leeward.db"
    content = path.read_bytes()
    path.write_bytes(content[:100] + os.urandom(400) + content[500:])
    ran = lived(*words)
    assert "is damaged. It was moved to" in ran.err + ran.out
    assert list(lived.data.glob("leeward.db-kept/damaged-*/leeward.db"))


# ------------------------------------------------------------------ what verify promises


def test_verify_says_no_more_than_what_was_signed(lived):
    assert lived("audit", "verify").out.endswith("every record is there, as it was written\n")
    change(lived, "DELETE FROM audit WHERE kind IN ('head', 'ended')")
    ran = lived("audit", "verify", "--output", "json")
    data = ran.json["data"]
    assert (ran.code, data["head"], data["unsigned"]) == (0, None, data["records"])
    said = lived("audit", "verify").out
    assert "as it was written" not in said and f"all {data['records']} are signed by nobody yet" in said


def test_verify_holds_the_audit_against_every_head_kept_elsewhere(lived, tmp_path):
    """The file that the configuration names is asked by itself; an older copy is found though it was gone on
    with.
    """
    heads = tmp_path / "elsewhere"
    lived.configure(f'[tools.audit]\nheads = "{heads}"\n')
    path = lived.data / "leeward.db"
    shutil.copyfile(path, tmp_path / "older.db")
    assert lived("call", "read", '{"path": "notes.md"}').code == 0
    assert "held against 1 head kept elsewhere" in lived("audit", "verify").out
    shutil.copyfile(tmp_path / "older.db", path)
    assert lived("call", "read", '{"path": "notes.md", "limit": 5}').code == 0
    last = heads.read_text(encoding="ascii").splitlines()[-1]
    assert lived("audit", "verify", "--head", last).code == 0, "the last one was signed behind the older copy"
    for words in ((), ("--head", str(heads))):
        ran = lived("audit", "verify", *words)
        assert ran.code == 1 and "(cut)" in ran.err
    assert "PROBLEM  audit" in lived("doctor").out


@pytest.mark.parametrize("named", ["/dev/null", "/nowhere", "leeward-head 2 x", "/dev"])
def test_what_is_no_head_is_a_mistake(lived, named):
    assert lived("audit", "verify", "--head", named).code == 2
