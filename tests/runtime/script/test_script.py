"""`leeward --script`: parsing, running, and checking expectations."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.runtime.exits import CliError
from leeward.runtime.script.script import load_script, read_script

OFFLINE = ("--model", "offline")
BLOCK = '"""'


@pytest.fixture
def script(leeward):
    """Run a script and return how it ended; its envelope is `.json`."""

    def run(text, *words):
        return leeward("--script", leeward.script(text), *OFFLINE, "--output", "json", *words)

    return run


def test_lines_blocks_comments_and_expectations():
    read = read_script(
        f"# no step\n\n  read a.md  \n!expect allowed read\n!expect text x\n/status\n"
        f"{BLOCK}\n# not a comment\n/not a command\n!expect nothing\n{BLOCK}\n{BLOCK}one "
        f"line{BLOCK}\n!expect text y\n"
    )
    assert [(step.line, step.text, step.slash is not None, len(step.expected)) for step in read.steps] == [
        (3, "read a.md", False, 2),
        (6, "/status", True, 0),
        (7, "# not a comment\n/not a command\n!expect nothing", False, 0),
        (12, "one line", False, 1),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("!expect text x", "-:1: !expect is about the step before"),
        ("hi\n!expect deny x", "-:2: "),
        ("hi\n!expct text x", "-:2: there is no !expct"),
        ("hi\n!", "-:2: "),
        ("hi\n!ls", "-:2: there is no !ls"),
        ("/statsu", "did you mean /status?"),
        ("!set 1a x", "-:1: !set wants a name"),
        ("!set NAME", "-:1: !set wants a name"),
        ("!approve", "-:1: !approve wants a tool"),
        ("!include", "-:1: !include wants the path"),
        ("!include /nowhere/at.all", "-:1: /nowhere/at.all: cannot be read"),
        ("!include ~nosuchuser/x", "-:1: ~nosuchuser/x: cannot be read"),
        ("!include a\0b", "cannot be read"),
        ("!expect file", "-:1: !expect file takes 1 or 2 words"),
        (f"hi\n{BLOCK}\nopen", "-:2: the triple quotes are not closed"),
        (f"{BLOCK}\n\n{BLOCK}", "-:1: there is nothing between"),
    ],
)
def test_mistakes_are_told_with_their_line(text, told):
    with pytest.raises(CliError) as caught:
        read_script(text)
    assert caught.value.exit == 2
    assert told in caught.value.message


def test_all_mistakes_are_told_at_once_and_nothing_runs(leeward, script):
    ran = script('read notes.md\n!expect deny read\n/nothing\n!expect text ""\n')
    error = ran.json["error"]
    assert (ran.code, error["code"], [problem["line"] for problem in error["errors"]]) == (
        2,
        "ARG_ERROR",
        [2, 3, 4],
    )
    assert not leeward.data.exists()


@given(st.text(st.sampled_from('"#!/ \nabx'), max_size=60) | st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    try:
        steps = read_script(text).steps
    except CliError:
        return
    assert all(step.text.strip() and step.line >= 1 for step in steps)


def test_a_script_runs_step_by_step(script):
    ran = script(
        'read notes.md\n!expect allowed read\n!expect text "ferry"\n\n/status\n!expect text offline\n'
    )
    assert ran.code == 0
    steps = ran.json["data"]["steps"]
    assert [(step["line"], [call["tool"] for call in step["calls"]]) for step in steps] == [
        (1, ["read"]),
        (5, []),
    ]
    assert "autonomy" in steps[1]["text"]


@pytest.mark.parametrize("first", ["read notes.md", "/status", "fetch https://a.example/"])
def test_an_expectation_that_is_not_met_ends_the_script(leeward, script, first):
    text = f"{first}\n!expect denied fetch grounding\nread notes.md\n"
    ran = script(text)
    error = ran.json["error"]
    assert (ran.code, error["code"], error["line"]) == (1, "EXPECTATION_FAILED", 2)
    assert (error["file"], error["expected"]) == (
        str(leeward.home / "steps.leeward"),
        "denied fetch grounding",
    )
    assert error["found"]
    assert len(ran.json["data"]["steps"]) == 1
    told = leeward("--script", leeward.script(text), *OFFLINE)
    assert f"{error['file']}:2" in told.err
    assert "expected: denied fetch grounding" in told.err and f"found: {error['found']}" in told.err


def test_a_refusal_that_was_named_does_not_count(script):
    refused = "guess the website of somebody\n"
    assert script(refused).code == 3
    assert script(f"{refused}!expect denied fetch grounding\n").code == 0
    assert script(f"{refused}!expect denied fetch grounding\n{refused}").code == 3
    assert script(f"{refused}!expect text refused\n").code == 3
    assert script("run make\n!expect asked shell\n").code == 0
    assert script("run make\n").code == 3
    assert script("run ls\n").code == 0


def test_exit_codes_of_programs_and_records_are_seen(leeward, script):
    leeward.configure('[permissions]\nautonomy = "full"\n')
    ran = script(
        "run sh -c 'exit 4'\n!expect exit 4\n!expect audit \"exit code 4\"\n"
        'run touch a\n!expect exit 0\n!expect audit "answered by autonomy full"\n'
    )
    assert ran.code == 0, ran.json
    stale = script('run true\n!expect exit 0\n/status\n!expect audit "exit code 0"\n')
    assert stale.json["error"]["found"] == "nothing"


def test_the_persons_lines_ground_urls_and_clear_forgets_them(leeward, script):
    leeward.configure("[tools.retry]\nretries = 0\n")
    ran = script(
        "fetch https://www.harbour.example/\n!expect error network_error\n"
        "guess the website of harbour\n!expect allowed fetch\n"
        "/clear\n"
        "guess the website of harbour\n!expect denied fetch grounding\n"
        "/help https://www.harbour.example/\n!expect text harbour\n"
        "guess the website of harbour\n!expect allowed fetch\n"
        "/new\n"
        "guess the website of harbour\n!expect denied fetch grounding\n"
    )
    assert ran.code == 0, ran.json["error"]


def test_a_slash_command_that_fails_ends_the_script_unless_it_was_expected(script):
    ran = script("/trust raed trusted\nread notes.md\n")
    assert (ran.code, ran.json["error"]["code"]) == (1, "SLASH_FAILED")
    assert "steps.leeward:1" in ran.json["error"]["message"]
    assert "did you mean read" in ran.json["error"]["message"]
    assert script('/trust raed trusted\n!expect text "did you mean read"\nread notes.md\n').code == 0


def test_exit_ends_a_script(script):
    ran = script("read notes.md\n/exit\nread notes.md\n")
    assert (ran.code, len(ran.json["data"]["steps"])) == (0, 2)


def test_a_script_comes_from_standard_input(leeward):
    ran = leeward.process(
        "--script", "-", *OFFLINE, "--output", "json", input=b"read notes.md\n!expect allowed read\n"
    )
    assert (ran.code, len(ran.json["data"]["steps"])) == (0, 1)


@pytest.mark.parametrize("content", [None, b"hi\n\xff\n", b"x" * (1024 * 1024 + 1)])
def test_a_script_that_cannot_be_read(leeward, content):
    path = leeward.home / "steps.leeward"
    if content is not None:
        path.write_bytes(content)
    ran = leeward("--script", str(path), *OFFLINE, "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "ARG_ERROR")


def test_jsonl_tells_steps_and_expectations(leeward):
    path = leeward.script("read notes.md\n!expect allowed read\n/status\n")
    events = leeward("--script", path, *OFFLINE, "--output", "jsonl").lines
    told = [(e["type"], e.get("line")) for e in events if e["type"] in {"step", "expect", "slash", "exit"}]
    assert told == [("step", 1), ("expect", 2), ("step", 3), ("slash", 3), ("exit", None)]


def test_the_account_is_numbered_and_names_the_gate(leeward):
    path = leeward.script("read notes.md\nguess the website of somebody\n!expect denied fetch grounding\n")
    ran = leeward("--script", path, *OFFLINE)
    assert ran.code == 0
    assert " 1 › read notes.md" in ran.err and "✓ allowed" in ran.err
    assert "✗ denied by grounding (not_provided): fetch rejected: URL was not provided by the user" in ran.err
    assert "2 steps, 2 calls, 1 refused" in ran.err


def test_values_and_included_scripts(leeward, script):
    (leeward.home / "common").mkdir()
    (leeward.home / "common/check.leeward").write_text(
        "read ${FILE}\n!expect allowed read\n!set WORD seven\n"
    )
    ran = script(
        '!set FILE notes.md\n!include common/check.leeward\n!expect text "${WORD}"\n'
        f'{BLOCK}\nread ${{FILE}}\n{BLOCK}\n!expect text "ferry"\nhi ${{UNSET}}\n'
    )
    assert ran.code == 0, ran.json["error"]
    steps = ran.json["data"]["steps"]
    assert [step["said"] for step in steps] == ["read notes.md", "read notes.md", "hi ${UNSET}"]
    included = str(leeward.home / "common/check.leeward")
    failed = script('!set FILE notes.md\n!include common/check.leeward\n!expect text "noon"\n').json["error"]
    assert (failed["file"], failed["line"]) == (str(leeward.home / "steps.leeward"), 3)
    Path(included).write_text("read notes.md\n!expect denied read\n")
    failed = script("!include common/check.leeward\n").json["error"]
    assert (failed["file"], failed["line"]) == (included, 2)


def test_includes_are_bounded(leeward, script):
    for name, text in (("a", "!include b"), ("b", "hi\n!include ./a"), ("wide", "!include leaf\n" * 101)):
        (leeward.home / name).write_text(text)
    (leeward.home / "leaf").write_text("# nothing\n")
    for name, why in (("a", "includes itself"), ("wide", "8 deep and 100 files at most")):
        ran = script(f"!include {name}\n")
        assert (ran.code, ran.json["error"]["code"]) == (2, "ARG_ERROR")
        assert why in ran.json["error"]["message"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("!set A 0123456789\n" + "!set A ${A}${A}\n" * 40 + "hi\n", 17),
        ("!set A " + "x" * 1000 + "\nhi " + "${A}" * 2000 + "\n", 2),
        ("!set A " + "x" * 1000 + "\n" + "hi ${A}\n" * 2000, 1046),
        ("!set A " + "x" * 1000 + f"\n{BLOCK}\n" + "${A}\n" * 2000 + f"{BLOCK}\n", 2),
        ("!set A " + "x" * 1000 + "\nhi\n!expect text " + "${A}" * 2000 + "\n", 3),
    ],
)
def test_what_values_make_of_a_script_is_bounded(text, line):
    with pytest.raises(CliError, match="1 MiB") as caught:
        read_script(text)
    (error,) = caught.value.detail["errors"]
    assert (caught.value.exit, error["line"]) == (2, line)
    assert len(caught.value.message) < 500


def test_a_script_that_is_just_small_enough_is_read():
    value = "x" * 1000
    (step,) = read_script(f"!set A {value}\nhi {'${A}' * 1000}\n").steps
    assert step.text == f"hi {value * 1000}"


def test_what_is_included_counts_each_time(tmp_path):
    """Each level includes the next one ten times, and the last one a text."""
    for level in range(3):
        (tmp_path / f"{level}").write_text(f"!include {level + 1}\n" * 10)
    (tmp_path / "3").write_text("x" * 20_000)
    with pytest.raises(CliError, match="1 MiB|100 files") as caught:
        load_script(str(tmp_path / "0"))
    assert (caught.value.exit, len(caught.value.detail["errors"])) == (2, 1)
    (tmp_path / "many").write_text("!include 3\n" * 60)
    with pytest.raises(CliError, match="1 MiB") as caught:
        load_script(str(tmp_path / "many"))
    assert len(caught.value.detail["errors"]) == 1


def test_not_more_mistakes_are_listed_than_anybody_reads():
    with pytest.raises(CliError) as caught:
        read_script("!nothing\n" * 50_000)
    assert len(caught.value.detail["errors"]) == 101
    assert "more mistakes" in caught.value.message


def test_a_yes_in_advance_answers_questions_and_nothing_forced(leeward, script):
    forced = '[[permissions.rules]]\ntool = "shell"\nmatch = "touch b"\naction = "ask"\nforce = true\n'
    leeward.configure(forced)
    ran = script(
        "run touch a\n!expect asked shell\n!expect no-file a\n"
        "!approve shell touch *\n"
        "run touch a\n!expect allowed shell\n!expect file a\n"
        "run touch b\n!expect asked shell\n!expect no-file b\n"
    )
    assert ran.code == 0, ran.json["error"]


def test_expectations_about_files(leeward, script):
    os.mkfifo(leeward.workspace / "pipe")
    assert (
        script('/help\n!expect file notes.md "ferry"\n!expect file pipe\n!expect no-file notes.md/x\n').code
        == 0
    )
    for line, found in (
        ("file a", "there is none"),
        ("no-file pipe", "there is one"),
        ('file notes.md "noon"', "the ferry"),
    ):
        error = script(f"/help\n!expect {line}\n").json["error"]
        assert (error["code"], error["expected"]) == ("EXPECTATION_FAILED", line)
        assert error["found"].startswith(found)


def test_a_junit_report(leeward, script):
    report = leeward.home / "report.xml"
    ran = script('read notes.md\n/status\n!expect text "\x1b<&"\nhi\n', "--report", str(report))
    assert ran.code == 1
    root = ET.parse(report).getroot()
    (suite,) = root
    counts = {name: suite.get(name) for name in ("tests", "failures", "skipped")}
    assert counts == {"tests": "3", "failures": "1", "skipped": "1"}
    cases = [(case.get("name"), [child.get("type") for child in case]) for case in suite]
    assert cases == [("line 1: read notes.md", []), ("line 2: /status", ["EXPECTATION_FAILED"])]
    assert {path.name for path in leeward.home.glob("*report*")} | {
        path.name for path in leeward.home.glob(".report*")
    } == {"report.xml"}
    lost = script("hi\n", "--report", str(leeward.home / "no/folder.xml"))
    assert (lost.code, lost.json["error"]["code"]) == (1, "REPORT_LOST")
    assert leeward("-p", "hi", *OFFLINE, "--report", str(report)).code == 2
