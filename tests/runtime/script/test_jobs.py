"""`--jobs`: many scripts in one process and one database, each with its own session and its own end."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing
from xml.etree import ElementTree as ET

import pytest

from chat_model import HELD, STORIES, call, say, serving
from leeward.runtime.script import steps
from leeward.runtime.script.expect import found_instead

RULES = '[[permissions.rules]]\ntool = "*"\naction = "allow"\n'
MANY = 20


@pytest.fixture
def model(leeward, monkeypatch):
    """A model on a socket: `mark NAME` has a line appended, `stuck` never ends until `release`."""
    mark = [[call("shell", command="echo {rest} >> marks")], [say("Marked.")]]
    monkeypatch.setitem(STORIES, "mark", mark)
    monkeypatch.setitem(STORIES, "stuck", [[say("So far, "), HELD, say("and on.")]])
    monkeypatch.setitem(
        STORIES, "sleepy", [[call("shell", command="touch began; sleep 60")], [say("Slept.")]]
    )
    with serving() as server:
        leeward.configure(RULES + server.config())
        yield server


def scripts(leeward, *texts):
    """Write scripts, and return their names in order."""
    names = []
    for number, text in enumerate(texts):
        path = leeward.home / f"{number:02}.leeward"
        path.write_text(text)
        names.append(str(path))
    return names


def marks(leeward):
    path = leeward.workspace / "marks"
    return sorted(path.read_text().split()) if path.exists() else []


def ended(ran):
    return [(one["file"][-10:-8], one["code"]) for one in ran.json["data"]["scripts"]]


def test_twenty_scripts_run_in_one_process_and_one_database(leeward, model):
    texts = [f"mark m{number:02}\n!expect allowed shell\n!expect exit 0\n/status\n" for number in range(MANY)]
    texts[3] += "!expect text nothing-like-it\nmark never\n"
    texts[7] = "mark m07\n/export /no/such/folder/x\n"
    report = leeward.home / "report.xml"
    names = scripts(leeward, *texts)
    ran = leeward.process("--script", *names, "--jobs", "6", "--report", str(report), "--output", "json")
    codes = [1 if number in {3, 7} else 0 for number in range(MANY)]
    assert (ran.code, [one["file"] for one in ran.json["data"]["scripts"]]) == (1, names)
    assert [one["code"] for one in ran.json["data"]["scripts"]] == codes
    assert marks(leeward) == [f"m{number:02}" for number in range(MANY)]
    sessions = {one["data"]["session"] for one in ran.json["data"]["scripts"]}
    assert len(sessions) == MANY
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as connection:
        turns = connection.execute("SELECT id FROM conversation WHERE turns > 0").fetchall()
    assert {name for (name,) in turns} == sessions
    assert list((leeward.data / "leeward.db-locks").iterdir()) == []
    assert leeward("audit", "verify").code == 0
    root = ET.parse(report).getroot()
    assert [suite.get("name") for suite in root] == names
    assert {name: root.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": str(2 * MANY + 1), "failures": "2", "skipped": "1",
    }  # fmt: skip
    assert [suite.get("failures") for suite in root] == [str(code) for code in codes]


def test_text_is_in_the_order_of_the_files_whoever_is_done_first(leeward, model):
    """The first script is the slowest, and nothing of the others comes before its end."""
    names = scripts(leeward, "run sleep 1\na\n", "b\n!expect text zzz\n", "c\n")
    ran = leeward.process("--script", *names, "--jobs", "3")
    assert (ran.code, ran.out) == (1, "That ran.\nYou said: a\nYou said: b\nYou said: c\n")
    headers = [line for line in ran.err.splitlines() if line.startswith("── ")]
    assert headers == [f"── {name}" for name in names]
    ends = ["SUCCESS (0)", "GENERAL_ERROR (1)", "SUCCESS (0)"]
    assert ran.err.splitlines()[-4:-1] == [f"{name}: {end}" for name, end in zip(names, ends, strict=True)]
    assert ran.err.splitlines()[-1] == "leeward: 1 of 3 scripts did not succeed"
    middle = ran.err[ran.err.index(headers[1]) : ran.err.index(headers[2])]
    assert "expected: text" in middle, "what went wrong is told in its place"


def test_lines_bear_the_file_they_are_about(leeward, model):
    names = scripts(leeward, "mark a\n", "mark b\n")
    lines = leeward.process("--script", *names, "--jobs", "2", "--output", "jsonl").lines
    assert lines[-1]["type"] == "exit" and "file" not in lines[-1]
    assert {line["file"] for line in lines[:-1] if line["type"] != "alert"} == set(names)
    for name in names:
        kinds = [line["type"] for line in lines if line.get("file") == name]
        assert (kinds[0], kinds[-2:]) == ("step", ["run", "script"])


@pytest.mark.parametrize(("jobs", "most"), [((), 1), (("--jobs", "3"), 3), (("--jobs", "9"), 5)])
def test_at_most_so_many_run_at_once(leeward, model, jobs, most):
    names = scripts(leeward, *["run sleep 0.3\n"] * 5)
    at_work: set[str] = set()
    seen = []
    for line in leeward.process("--script", *names, *jobs, "--output", "jsonl").lines:
        at_work |= {line["file"]} if line["type"] == "step" else set()
        at_work -= {line["file"]} if line["type"] == "script" else set()
        seen.append(len(at_work))
    assert max(seen) == most


def test_one_that_never_ends_costs_the_clock_and_no_other(leeward, model):
    names = scripts(leeward, "stuck\n", "mark a\n", "mark b\n", "mark c\n")
    report = leeward.home / "report.xml"
    words = ("--jobs", "2", "--timeout", "5", "--report", str(report), "--output", "json")
    begun = time.monotonic()
    ran = leeward.process("--script", *names, *words)
    assert time.monotonic() - begun < 5 + 5
    assert (ran.code, ran.json["error"]["code"]) == (10, "TIMEOUT")
    assert ended(ran) == [("00", None), ("01", 0), ("02", 0), ("03", 0)]
    assert ran.json["data"]["scripts"][0]["data"]["session"], "what there was of it is told"
    assert marks(leeward) == ["a", "b", "c"]
    assert [suite.get("failures") for suite in ET.parse(report).getroot()] == ["1", "0", "0", "0"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_cleanly(leeward, model, number, code):
    names = scripts(leeward, "mark a\n", "stuck\n", "sleepy\n", "mark never\n")
    words = ("--script", *names, "--jobs", "3", "--output", "json")
    with leeward.start(*words) as process:
        while not (leeward.workspace / "began").exists() or marks(leeward) != ["a", "never"]:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    answer = json.loads(out)
    assert (process.returncode, answer["error"]["code"], err) == (code, number.name, b"")
    assert [one["code"] for one in answer["data"]["scripts"][:3]] == [0, None, None]
    assert list((leeward.data / "leeward.db-locks").iterdir()) == [], "every session has ended"
    told = leeward("audit", "list", "--kind", "outcome", "--output", "json").json["data"]["records"]
    assert {one["body"]["status"] for one in told} == {"ok", "cancelled"}


def test_each_file_has_its_own_part_of_a_key(leeward, model):
    names = scripts(leeward, "mark a\n", "stuck\n", "mark b\n!expect text zzz\n")
    words = ("--script", *names, "--jobs", "3", "--key", "job", "--output", "json")
    first = leeward.process(*words, "--timeout", "5")
    assert (first.code, ended(first), marks(leeward)) == (
        10,
        [("00", 0), ("01", None), ("02", 1)],
        ["a", "b"],
    )
    model.release.set()
    second = leeward.process(*words)
    assert (second.code, ended(second), marks(leeward)) == (1, [("00", 0), ("01", 0), ("02", 1)], ["a", "b"])
    asked = len(model.requests)
    third = leeward.process(*words)
    assert (third.code, ended(third), len(model.requests)) == (1, ended(second), asked)
    for one, other in zip(second.json["data"]["scripts"], third.json["data"]["scripts"], strict=True):
        assert one["data"]["session"] == other["data"]["session"]
    fewer = leeward.process("--script", *names[:2], "--key", "job", "--output", "json")
    assert (fewer.code, fewer.json["error"]["code"]) == (2, "KEY_MISMATCH")
    with leeward.start("--script", *scripts(leeward, "sleepy\n", "mark c\n"), "--key", "k") as holder:
        while not (leeward.workspace / "began").exists():
            assert holder.poll() is None
            time.sleep(0.02)
        assert leeward.process(*holder.args[1:]).code == 4
        holder.terminate()
        holder.wait()


@pytest.mark.parametrize(
    ("codes", "worst"),
    [(("0", "3"), 3), (("12", "3"), 12), (("12", "1"), 1), (("1", "12", "0"), 1), (("0", "0"), 0)],
)
def test_the_worst_end_is_that_of_the_command(leeward, model, codes, worst):
    """What may be better another time is less bad than what will not be."""
    texts = {"0": "mark a\n", "1": "mark a\n!expect text zzz\n", "12": "/model gone:m\nhello\n"}
    texts["3"] = "/model offline\nread ~/.ssh/id_rsa\n"
    names = scripts(leeward, *(texts[code] for code in codes))
    gone = '[[llm.providers]]\nname = "gone"\nbase_url = "http://127.0.0.1:9/v1"\n'
    leeward.configure(RULES + model.config() + gone)
    ran = leeward.process("--script", *names, "--jobs", "3", "--output", "json")
    assert (ran.code, [one["code"] for one in ran.json["data"]["scripts"]]) == (worst, [*map(int, codes)])


def test_a_mistake_in_one_of_them_is_told_before_anything_runs(leeward, model):
    names = scripts(leeward, "mark a\n", "!nothing\n")
    ran = leeward("--script", *names, "--output", "json")
    assert (ran.code, marks(leeward)) == (2, [])
    assert f"{names[1]}:1:" in ran.json["error"]["message"]


@pytest.mark.parametrize(
    "words",
    [
        ("--jobs", "2"),
        ("-p", "x", "--jobs", "2"),
        ("--script", "a", "b", "--continue"),
        ("--script", "-", "-"),
        ("--script", "a", "--jobs", "0"),
    ],
)
def test_what_does_not_go_together(leeward, words):
    assert leeward(*words).code == 2


def test_a_bug_in_one_of_them_leaves_the_others_alone(leeward, monkeypatch):
    """Also where a workspace has names that cannot be read."""

    def broken(expected, happened):
        if expected.value == "a-bug":
            raise ZeroDivisionError("by a-bug")
        return found_instead(expected, happened)

    monkeypatch.setattr(steps, "found_instead", broken)
    (leeward.workspace / "mem.txt").symlink_to("/proc/self/mem")
    lines = ('file mem.txt "x"', 'file ~nosuchuser/x "y"', "text a-bug", 'file notes.md "ferry"')
    names = scripts(leeward, *(f"/status\n!expect {line}\n" for line in lines))
    report = leeward.home / "report.xml"
    words = ("--script", *names, "--jobs", "2", "--model", "offline", "--report", str(report))
    ran = leeward(*words, "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "SCRIPTS_FAILED")
    assert [one["error"] and one["error"]["code"] for one in ran.json["data"]["scripts"]] == [
        "EXPECTATION_FAILED", "EXPECTATION_FAILED", "INTERNAL_ERROR", None,
    ]  # fmt: skip
    assert "ZeroDivisionError: by a-bug" in ran.err, "its reader gets the traceback"
    assert [suite.get("failures") for suite in ET.parse(report).getroot()] == ["1", "1", "1", "0"]
    assert leeward("audit", "verify").code == 0
