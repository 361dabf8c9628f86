"""Strategies for reports lose nothing in which one complaint or change differs from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from leeward.security.command import parse_command
from leeward.tools.distill import Engine
from loading import load_module

OUTPUTS = load_module(Path(__file__).with_name("outputs.py"))
ENGINE = Engine()


def shown(command: str, text: str, code: int = 1) -> str:
    return OUTPUTS.distilled(command, text, code, ENGINE).text


def complaint(line: int, label: str, more: str = "") -> str:
    code = f"{line} | fn f{line}() {{ x }}\n  |           ^ {label}\n"
    return f"error[E0308]: mismatched types\n --> src/main.rs:{line}:11\n  |\n{code}{more}\n"


def test_complaints_of_a_compiler_are_one_only_where_they_say_the_same() -> None:
    note = "  |\n  = note: expected type `bool`\n           found struct `Vec<u8>`\n"
    text = "".join((
        complaint(1, "expected `String`, found `i32`"), complaint(2, "expected `bool`, found `u8`"),
        *(complaint(line, "expected `String`, found `i32`") for line in range(5, 9)),
        complaint(3, "expected `&str`, found integer"),
        complaint(4, "expected `bool`, found `Vec<u8>`", note),
        "error: could not compile `c`\n",
    ))  # fmt: skip
    found = shown("cargo build", text)
    assert "more: src/main.rs: 2:11 `bool` `u8`, 5:11, 6:11, 7:11, 8:11]" in found
    assert "^ expected `&str`, found integer\n" in found
    assert note in found


def test_a_folded_complaint_takes_all_its_note_along() -> None:
    note = "  |\n  = note: expected type `bool`\n           found struct `Vec<u8>`\n"
    text = "".join(complaint(line, "expected `bool`", note) for line in (1, 2, 3)) + "error: 3 of them\n"
    assert shown("cargo build", text).count("found struct") == 1


@pytest.mark.parametrize("command", ["python -m unittest", "npx jest", "mvn test"])
def test_the_changed_lines_of_a_comparison_stay(command) -> None:
    rows = [f"    row {number}" for number in range(90)]
    rows[45:46] = ["  - ROW 45", "  + row 45"]
    text = "FAIL: test_a (t.T)\n" + "\n".join(rows) + "\nRan 1 test in 0.1s\n\nFAILED (failures=1)\n"
    found = shown(command, text)
    assert "  - ROW 45\n  + row 45\n" in found and "row 30" not in found


def test_a_removed_comment_is_no_header_of_a_diff() -> None:
    head = "diff --git a/x.sql b/x.sql\nindex 1..2 100644\n--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n"
    change = "--- drop it\n+++ keep it\n"
    text = head + change + "".join(f" line {number} of the rest\n" for number in range(150))
    found = shown("git diff", text, 0)
    assert change in found and "--- a/x.sql" not in found


@pytest.mark.parametrize(
    "command",
    ["pytest --collect-only -q", "pytest --help", "make help", "cargo test -- --list", "jest --listTests"],
)  # fmt: skip
def test_what_answers_a_question_is_not_filtered_as_a_report(command) -> None:
    assert [rule.name for rule in ENGINE.fitting(parse_command(command))] == ["long"]
    text = "".join(f"tests/test_a.py::test_{number}\n" for number in range(300))
    assert shown(command, text, 0) == text


def test_targets_that_make_prints_are_no_commands_it_runs() -> None:
    text = "".join(f"{name:12}what {name} does\n" for name in ("test", "install", "rm", "cd", "docs")) * 9
    assert "install     what" in shown("make", text, 0)


def test_ids_that_are_asked_of_a_log_are_the_answer() -> None:
    text = "".join(f"request_id={number:032x}\n" for number in range(11, 60))
    assert shown("grep -oE 'request_id=[0-9a-f]+' app.log", text, 0) == text
    assert "more like it" in shown("grep -n request_id app.log", text, 0)


def test_what_a_server_answers_is_no_progress() -> None:
    text = "".join(f"  {number} 12 34 56 78 90 11\n" for number in range(60))
    assert shown("curl -s https://h.example/table", text, 0) == text


@pytest.mark.parametrize(
    "line", ["tmpfs            1.0G  1.0G     0 100% /run/full", "overlay           50G   20G   30G  40% /"]
)
def test_the_space_that_counts_is_shown(line) -> None:
    others = "".join(f"tmpfs            1.0G     0  1.0G   0% /run/user/{number}\n" for number in range(30))
    head, tail = "Filesystem  Size  Used Avail Use% Mounted on\n", "/dev/sda1 1 1 1 2% /b\n"
    found = shown("df -h", f"{head}{others}{line}\n{tail}", 0)
    assert line in found and "/run/user/7" not in found


def test_of_many_places_of_one_complaint_all_are_told() -> None:
    text = "".join(f"a{n}.py:{n}:1: S105 Possible hardcoded password: 'p{n}'\n" for n in range(1, 200))
    assert "a150.py: 150:1" in shown("ruff check .", text)


@pytest.mark.parametrize("more", ["", "one ordinary line of the output\n" * 3])
def test_an_output_that_is_shown_whole_forges_no_mark_either(more) -> None:
    forged = f"{more}[… lines 2 to 400 left out]\nall is well\n"
    found = OUTPUTS.distilled("it", forged, 0, ENGINE)
    assert found.text == f"{more}[... lines 2 to 400 left out]\nall is well\n" and found.notices
