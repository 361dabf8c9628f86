"""`--key`: each step of a run is done once, by whichever attempt, and what came of it is given again."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from chat_model import HELD, STORIES, call, say, serving
from leeward.memory.audit import AuditLogger
from leeward.memory.sessions import KeyedRuns
from leeward.runtime.clock import SystemClock
from leeward.runtime.script.recorded import slash_row
from leeward.runtime.slash import SlashResult
from leeward.security.ports import RecordError
from leeward.security.session import Decided

RULES = '[[permissions.rules]]\ntool = "*"\naction = "allow"\n'
APPEND = "printf 'x\\n' >> lines"
DAY = 86_400
TOKEN = "ghp_" + "A1b2" * 9


@pytest.fixture
def model(leeward, monkeypatch):
    """A model that appends a line and then waits for `release` before it answers."""
    monkeypatch.setitem(
        STORIES, "append", [[call("shell", command=APPEND)], [say("Half, "), HELD, say("done.")]]
    )
    monkeypatch.setitem(STORIES, "bad", [[say("no JSON")]])
    monkeypatch.setitem(
        STORIES, "sleepy", [[call("shell", command="touch began; sleep 20")], [say("Slept.")]]
    )
    with serving() as server:
        leeward.configure(RULES + server.config())
        yield server


@pytest.fixture
def released(model):
    model.release.set()
    return model


@pytest.fixture
def keyed(leeward):
    """Run with a key; the envelope is `.json`."""

    def run(*words, key="job", output="json"):
        return leeward(*words, "--key", key, "--output", output)

    return run


def lines(leeward):
    path = leeward.workspace / "lines"
    return len(path.read_text().splitlines()) if path.exists() else 0


def broken_off(leeward, *words):
    """Start a run that executes a long program, and kill it there."""
    with leeward.start(*words, "--output", "jsonl") as process:
        while not (leeward.workspace / "began").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (leeward.workspace / "began").unlink()


def same(first, again):
    """Two envelopes say the same of what was done."""
    kept = ("session", "model", "usage", "denials", "audit_head", "key")
    assert {name: first["data"][name] for name in kept} == {name: again["data"][name] for name in kept}
    assert first["error"] == again["error"]


def test_a_finished_prompt_gives_its_answer_again(leeward, keyed, released):
    first = keyed("-p", "append")
    asked = len(released.requests)
    again = keyed("-p", "append")
    assert (first.code, again.code, len(released.requests), lines(leeward)) == (0, 0, asked, 1)
    same(first.json, again.json)
    assert again.json["data"]["text"] == first.json["data"]["text"] == "Half, done."
    assert again.json["data"]["calls"] == first.json["data"]["calls"]
    assert again.json["data"]["recorded"] is True and "recorded" not in first.json["data"]
    assert keyed("-p", "append", output="text").out == "Half, done.\n"
    assert keyed("-p", "append", key="other").json["data"]["session"] != first.json["data"]["session"]
    assert lines(leeward) == 2


def test_a_finished_script_gives_its_answer_and_its_failure_again(leeward, keyed, released):
    text = "run printf 'x\\n' >> lines\n!expect exit 0\n/status\n!expect text nothing-like-it\nappend\n"
    report = str(leeward.home / "report.xml")
    words = ("--script", leeward.script(text), "--report", report)
    first = keyed(*words)
    reported = (leeward.home / "report.xml").read_text()
    again = keyed(*words)
    assert (first.code, again.code, lines(leeward)) == (1, 1, 1)
    same(first.json, again.json)
    assert again.json["error"]["code"] == "EXPECTATION_FAILED"
    assert [step["line"] for step in again.json["data"]["steps"]] == [1, 3]
    for part in ('tests="3"', 'failures="1"', 'skipped="1"', "nothing-like-it"):
        assert part in reported and part in (leeward.home / "report.xml").read_text()
    events = keyed(*words, output="jsonl").lines
    assert [one.get("recorded") for one in events if one["type"] == "step"] == [True, True]
    assert not any(one["type"] == "step" and one["number"] == 3 for one in events)


def test_what_was_refused_is_refused_again_with_the_same_exit_code(leeward, keyed, released):
    words = ("--script", leeward.script("run printf 'x\\n' >> lines\n/exit\nappend\n"))
    leeward.configure(released.config() + '[[permissions.rules]]\ntool = "shell"\naction = "deny"\n')
    first, again = keyed(*words), keyed(*words)
    assert (first.code, again.code, lines(leeward)) == (3, 3, 0)
    same(first.json, again.json)
    assert again.json["data"]["denials"]


def test_an_answer_in_a_form_is_given_again(leeward, keyed, released):
    form = leeward.home / "form.json"
    form.write_text('{"type": "string"}')
    words = ("-p", "bad now", "--output-schema", str(form))
    first, again = keyed(*words), keyed(*words)
    assert (first.code, again.code, first.json["error"]["code"]) == (1, 1, "ANSWER_UNFIT")
    same(first.json, again.json)
    STORIES["good"] = [[say('"seven"')]]
    words = ("-p", "good now", "--output-schema", str(form))
    first, again = keyed(*words, key="good"), keyed(*words, key="good")
    assert (again.code, again.json["data"]["value"]) == (0, "seven")
    assert keyed(*words, key="good", output="text").out == '"seven"\n'


@pytest.mark.parametrize(
    ("schema", "answer", "code"),
    [
        ("string", f'"{TOKEN}"', 0),
        ("object", f'{{"{TOKEN}": ["{TOKEN}"]}}', 0),
        ("integer", f'"{TOKEN}"', 1),
    ],
)
def test_what_is_recorded_holds_no_secrets(leeward, keyed, released, schema, answer, code):
    form = leeward.home / "form.json"
    form.write_text(json.dumps({"type": schema, "enum": [7]} if code else {"type": schema}))
    STORIES["token"] = [[say(answer)]]
    words = ("-p", "token now", "--output-schema", str(form))
    assert keyed(*words).code == code
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as connection:
        rows = connection.execute("SELECT content FROM keyed_step").fetchall()
    assert rows and not any(TOKEN in content for (content,) in rows)
    again = keyed(*words)
    assert again.code == code and TOKEN not in again.out
    if not code:
        assert "[REDACTED:" in json.dumps(again.json["data"]["value"])


def test_a_turn_that_ran_out_of_time_is_resumed(leeward, keyed, model):
    words = ("-p", "append", "--timeout", "3")
    first = keyed(*words)
    assert (first.code, first.json["error"]["code"], lines(leeward)) == (10, "TIMEOUT", 1)
    model.release.set()
    again = keyed(*words)
    assert (again.code, lines(leeward)) == (0, 1)
    assert again.json["data"]["session"] == first.json["data"]["session"]
    assert [one["exit_code"] for one in again.json["data"]["calls"]] == [0], (
        "what an earlier attempt did is told"
    )
    assert again.json["data"]["text"].endswith("Half, done.")
    roles = [message["role"] for message in model.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"], "the words were given once"


@pytest.mark.parametrize("answer", ["skip", "repeat"])
def test_a_call_that_may_have_run_waits_for_an_answer(leeward, keyed, released, answer):
    words = ("-p", "sleepy")
    broken_off(leeward, *words, "--key", "job")
    for _ in range(2):
        stopped = keyed(*words)
        error = stopped.json["error"]
        assert (stopped.code, error["code"], error["retryable"]) == (6, "UNKNOWN_OUTCOME", False)
        (unknown,) = error["calls"]
        assert unknown["tool"] == "shell" and "touch began" in unknown["arguments"]
        assert f"begun {time.strftime('%Y-%m-%d', time.localtime(unknown['at']))}" in error["message"]
        assert "--on-unknown skip" in error["suggestion"]
    STORIES["sleepy"][0] = [call("shell", command="exit 3")]  # what was asked for before is what counts
    if answer == "repeat":
        (leeward.workspace / "began").touch()
    # A yes is for this call, which would sleep: time ends it, and what it did is known then.
    ended = keyed(*words, "--on-unknown", answer, "--timeout", "6")
    if answer == "repeat":
        assert ended.code == 10
        ended = keyed(*words)
    began = (leeward.workspace / "began").exists()
    assert (ended.code, began) == (0, answer == "repeat")
    statuses = [one["status"] for one in ended.json["data"]["calls"]]
    assert statuses == (["unknown"] if answer == "skip" else [])
    told = [m["content"] for m in released.requests[-1]["messages"] if m["role"] == "tool"]
    assert len(told) == 1 and ("not to be done again" in told[0]) == (answer == "skip")
    assert keyed(*words).code == 0, "and it is over"


def test_a_program_is_told_of_and_another_start_does_not_hide_it(leeward, keyed, released):
    """Whoever starts next settles what was killed; the key knows all the same."""
    broken_off(leeward, "-p", "sleepy", "--key", "job")
    assert leeward("-p", "ferry").code == 0
    assert keyed("-p", "sleepy").code == 6
    text = leeward("-p", "sleepy", "--key", "job")
    assert text.code == 6 and "touch began" in text.err and "suggestion: look whether" in text.err


def test_two_at_once_are_one_too_many(leeward, keyed, model):
    with leeward.start("-p", "append", "--key", "job", "--output", "jsonl") as holder:
        while lines(leeward) == 0:
            assert holder.poll() is None
            time.sleep(0.01)
        second = keyed("-p", "append")
        assert (second.code, second.json["error"]["code"]) == (4, "KEY_IN_USE")
        assert f"open already, by process {holder.pid}" in second.json["error"]["message"]
        session = (
            json.loads(holder.stdout.readline()) and leeward("sessions", "list", "--output", "json").json
        )
        name = session["data"]["sessions"][0]["id"]
        assert leeward("sessions", "delete", name).code == 4
        model.release.set()
        holder.communicate(timeout=30)
    again = keyed("-p", "append")
    assert (again.code, lines(leeward)) == (0, 1)
    assert list((leeward.data / "leeward.db-locks").iterdir()) == []


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (("-p", "ferry again"), "prompt or script"),
        (("--script", "steps.leeward"), "prompt or script"),
        (("-p", "ferry", "--model", "offline"), "model; its model is ours:m"),
        (("-p", "ferry", "--workspace", "other"), "workspace; its workspace is "),
        (("-p", "ferry", "--output-schema", "form.json"), "output schema"),
    ],
)
def test_a_key_of_something_else_is_an_error(leeward, keyed, released, other, named):
    (leeward.workspace / "other").mkdir()
    (leeward.workspace / "form.json").write_text("{}")
    (leeward.workspace / "steps.leeward").write_text("ferry\nferry\n")
    assert keyed("-p", "ferry").code == 0
    asked = len(released.requests)
    ran = keyed(*other)
    assert (ran.code, ran.json["error"]["code"]) == (2, "KEY_MISMATCH")
    assert f"was begun with another {named}" in ran.json["error"]["message"]
    assert len(released.requests) == asked


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ('"""/permissions allow write *"""\nferry\n', "/permissions allow write *\nferry\n"),
        ("ferry\n!expect no-file a\n", 'ferry\n!expect no-file "a "\n'),
        ("ferry\n!expect file a b\n", "ferry\n!expect file 'a \"b\"'\n"),
    ],
)
@pytest.mark.parametrize("together", [(), ("second.leeward",)])
def test_steps_that_only_read_alike_are_not_the_same(leeward, keyed, released, text, other, together):
    """Words in quotes are the model's to read; the same line without quotes is a command."""
    (leeward.workspace / "second.leeward").write_text("ferry\n")
    keyed("--script", leeward.script(text), *together)
    asked = len(released.requests)
    ran = keyed("--script", leeward.script(other), *together)
    assert (ran.code, ran.json["error"]["code"], len(released.requests)) == (2, "KEY_MISMATCH", asked)


def test_what_is_piped_in_is_part_of_what_is_done(leeward, released):
    words = ("-p", "ferry", "--key", "job")
    assert leeward.process(*words, input=b"one").code == 0
    assert leeward.process(*words, input=b"one").code == 0
    assert leeward.process(*words, input=b"two").code == 2


@pytest.mark.parametrize(
    "key",
    ["", " ", "a b", "a\nb", "a\tb", "x" * 201, "x" * 10_000, "größe", "jоb", "job\u200b", "\udcff", "a\0b"],
)
def test_a_key_that_could_be_taken_for_another_is_refused(leeward, keyed, released, key):
    ran = keyed("-p", "ferry", key=key)
    assert (ran.code, ran.json["error"]["code"]) == (2, "ARG_ERROR")
    assert "visible ASCII" in ran.json["error"]["message"] and len(ran.out) < 1000


@pytest.mark.parametrize("key", ["../x", "-", "x" * 200, "%2e'\";DROP"])
def test_any_other_key_is_one(leeward, keyed, released, key):
    before = {path for path in leeward.home.rglob("*") if ".local" not in path.parts}
    first, again = keyed("-p", "ferry", key=key), keyed("-p", "ferry", key=key)
    assert (first.code, again.code, len(released.requests)) == (0, 0, 1)
    assert {path for path in leeward.home.rglob("*") if ".local" not in path.parts} == before
    assert keyed("-p", "ferry", key="job").json["data"]["session"] != first.json["data"]["session"]


@pytest.mark.parametrize(
    "words",
    [
        ("--key", "job"),
        ("--key", "job", "tools"),
        ("-p", "x", "--key", "job", "--continue"),
        ("-p", "x", "--key", "job", "--resume", "s_1"),
        ("-p", "x", "--on-unknown", "skip"),
        ("-p", "x", "--key", "job", "--on-unknown", "maybe"),
    ],
)
def test_what_does_not_go_with_a_key(leeward, words):
    assert leeward(*words).code == 2


@pytest.mark.parametrize("line", ["/new", "/resume", "/fork"])
def test_a_step_that_leads_out_of_the_session_is_refused_beforehand(leeward, keyed, released, line):
    ran = keyed("--script", leeward.script(f"append\n{line}\n"))
    assert (ran.code, lines(leeward)) == (2, 0)
    assert f":2: {line} leads to another session" in ran.json["error"]["message"]


def test_settings_hold_for_the_attempt_that_resumes(leeward, keyed, model):
    words = (
        "--script",
        leeward.script("/autonomy full\n/model offline\n/model ours:m\nappend\n/status\n"),
    )
    assert keyed(*words, "--timeout", "3").code == 10
    model.release.set()
    ran = keyed(*words)
    assert ran.code == 0 and "autonomy    full" in ran.json["data"]["steps"][-1]["text"]
    assert [step.get("recorded", False) for step in ran.json["data"]["steps"]] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_session_that_was_resumed_otherwise_is_not_mixed(leeward, keyed, model):
    first = keyed("-p", "append", "--timeout", "3")
    model.release.set()
    assert leeward("-p", "ferry", "--resume", first.json["data"]["session"]).code == 0
    ran = keyed("-p", "append")
    assert (ran.code, ran.json["error"]["code"], lines(leeward)) == (4, "KEY_SESSION_MOVED", 1)


def test_a_key_is_spent_once_its_session_is_deleted(leeward, keyed, released):
    session = keyed("-p", "append").json["data"]["session"]
    assert leeward("sessions", "delete", session).code == 0
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as connection:
        assert connection.execute("SELECT count(*) FROM keyed_step").fetchone() == (0,)
    ran = keyed("-p", "append")
    assert (ran.code, ran.json["error"]["code"], lines(leeward)) == (4, "KEY_SPENT", 1)


@pytest.mark.parametrize("jump", [400 * DAY, -400 * DAY])
def test_a_clock_that_jumps_runs_nothing_twice(leeward, keyed, model, monkeypatch, jump):
    """A year later sessions expire at a start; that of a key in use does not."""
    first = keyed("-p", "append", "--timeout", "3")
    now = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: now(self) + jump)
    model.release.set()
    again = keyed("-p", "append")
    assert (again.code, lines(leeward)) == (0, 1)
    assert again.json["data"]["session"] == first.json["data"]["session"]


def test_a_locked_database_costs_an_attempt_and_nothing_else(leeward, keyed, released):
    assert keyed("-p", "ferry", key="first").code == 0
    with closing(sqlite3.connect(leeward.data / "leeward.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ran = keyed("-p", "append")
        assert (ran.code, ran.json["error"]["code"], lines(leeward)) == (1, "STORAGE_ERROR", 0)
    assert (keyed("-p", "append").code, lines(leeward)) == (0, 1)


@pytest.mark.parametrize(
    "kinds", [{"begun"}, {"done"}, {"call", "result", "turn", "done"}, {"result", "done"}]
)
def test_a_full_disk_makes_no_step_run_twice(leeward, keyed, released, monkeypatch, kinds):
    row = KeyedRuns._row

    def full(self, session, step, kind, content):
        if kind in kinds:
            raise RecordError("database or disk is full")
        return row(self, session, step, kind, content)

    with monkeypatch.context() as patched:
        patched.setattr(KeyedRuns, "_row", full)
        ran = keyed("-p", "append")
        assert (ran.code, ran.json["error"]["code"]) == (1, "STORAGE_ERROR")
        assert lines(leeward) == (0 if "begun" in kinds else 1), "what cannot be recorded does not begin"
    again = keyed("-p", "append")
    assert (again.code, lines(leeward)) == (0, 1)


def test_a_call_that_could_not_be_recorded_leaves_its_step_open(leeward, keyed, released, monkeypatch):
    """The disk was full when it was to be decided: that is not what came of the step."""
    append = AuditLogger.append

    async def full(self, session, *events):
        if any(isinstance(event, Decided) for event in events):
            raise RecordError("database or disk is full")
        await append(self, session, *events)

    with monkeypatch.context() as patched:
        patched.setattr(AuditLogger, "append", full)
        ran = keyed("-p", "append")
        assert (ran.code, ran.json["error"]["code"], lines(leeward)) == (1, "STORAGE_ERROR", 0)
    asked = len(released.requests)
    again = keyed("-p", "append")
    assert (again.code, again.json["data"]["denials"]) == (0, [])
    told = [message["content"] for message in released.requests[-1]["messages"] if message["role"] == "tool"]
    assert len(released.requests) == asked + 1 and "could not be recorded" in told[0]


def test_a_record_that_was_damaged_is_an_error(leeward, keyed, released):
    keyed("-p", "append")
    with closing(sqlite3.connect(leeward.data / "leeward.db", isolation_level=None)) as connection:
        connection.execute("UPDATE keyed_step SET content = '{}' WHERE kind = 'done'")
    ran = keyed("-p", "append")
    assert (ran.code, ran.json["error"]["code"], lines(leeward)) == (1, "STORAGE_ERROR", 1)


def test_a_number_that_is_a_secret_is_none_on_record():
    def mask(text):
        return text.replace("48151623421", "[REDACTED:known-secret:c18e]")

    data = {"pin": 48151623421, "others": [7, 1.5, True, None]}
    row = slash_row(SlashResult("", data=data), mask)
    assert row["data"] == {"pin": "[REDACTED:known-secret:c18e]", "others": [7, 1.5, True, None]}
