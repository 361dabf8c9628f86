"""This version reads, resumes and honours what version 0.1.0 stored."""

from __future__ import annotations

import sqlite3
import tomllib
from contextlib import closing
from typing import Any

import pytest

# Verdicts on record in `v0_1` that this version would not give again, by tool, hop, gate and rule as they
# stand
# on record, each with the reason why it decides otherwise.
DIFFERENCES: dict[tuple[str, int, str | None, str], str] = {
    (
        "fetch",
        1,
        None,
        "",
    ): "0.1.0 did not record that a redirect led to the URL (`led`), so nothing grounds it",
    ("memory_save", 0, None, ""): "0.1.0 had no gate `flow`, which asks about it once a page was read",
}

NOT_SHOWN = "(not shown)"


def answer(machine: Any, *words: str) -> Any:
    """The data of a command that succeeds."""
    ran = machine.run(*words, "--output", "json")
    assert ran.code == 0, ran
    return ran.json["data"]


# ---------------------------------------------------------------------------------------------- the audit


def test_the_audit_is_whole_also_against_the_heads_kept_elsewhere(moved, expected) -> None:
    told = answer(moved, "audit", "verify")
    assert told["problem"] is None
    assert told["records"] > len(expected["verdicts"])
    kept = moved.home / "elsewhere.heads"
    assert len(kept.read_text().splitlines()) == 2
    for head in (str(kept), expected["head"]):
        assert answer(moved, "audit", "verify", "--head", head)["problem"] is None


def test_the_audit_is_gone_on_with_in_one_chain(moved, expected) -> None:
    before = answer(moved, "audit", "verify")["records"]
    assert answer(moved, "call", "read", '{"path": "notes.md"}')["status"] == "ok"
    assert answer(moved, "audit", "verify", "--head", expected["head"])["records"] > before
    shown = moved.run("audit", "verify", "--head", str(moved.home / "elsewhere.heads"))
    assert shown.code == 0, shown


def test_a_changed_record_of_the_earlier_version_is_still_found(moved) -> None:
    with closing(sqlite3.connect(moved.data / "leeward.db")) as database, database:
        changed = (
            "UPDATE audit SET body = replace(body, 'grounding', 'nobody') WHERE kind = 'decision' AND body "
            "LIKE '%grounding%'"
        )
        assert database.execute(changed).rowcount > 0
    database.close()
    assert moved.run("audit", "verify").code == 1


def test_each_call_on_record_gets_its_verdict_again(moved, expected) -> None:
    on_record = {
        (call, hop): (tool, hop, gate, rule) for _, call, tool, hop, _, gate, rule in expected["verdicts"]
    }
    asked = [
        (("audit", "replay", "--session", session, "--output", "json"), "") for session in expected["untold"]
    ]
    replays = dict(zip(expected["untold"], (ran.json["data"] for ran in moved.run_each(asked)), strict=True))
    decisions = 0
    for session, untold in expected["untold"].items():
        told = replays[session]
        decisions += told["decisions"]
        assert told["untold"] == untold
        changed = [call for call in told["calls"] if call["changed"]]
        others = [call for call in changed if on_record[call["call"], call["hop"]] not in DIFFERENCES]
        assert others == []
    assert decisions == len(expected["verdicts"])


def test_the_verdicts_on_record_are_listed_as_they_were(moved, expected) -> None:
    records = answer(moved, "audit", "list", "--kind", "decision", "--limit", "1000")["records"]
    listed = [
        [
            one["session"],
            one["call"],
            one["tool"],
            *(one["body"][key] for key in ("hop", "allowed", "gate", "rule")),
        ]
        for one in records
    ]
    assert listed[: len(expected["verdicts"])] == expected["verdicts"]


def test_a_call_on_record_is_explained(moved, expected) -> None:
    refused = next(row[1] for row in expected["verdicts"] if row[5] == "grounding")
    ran = moved.run("audit", "why", refused)
    assert ran.code == 0, ran
    assert "URL was not provided by the user" in ran.out


def test_the_call_that_was_running_when_its_process_was_killed_is_told_of_once(moved) -> None:
    told = [moved.run("call", "read", '{"path": "notes.md"}').err for _ in range(2)]
    assert ["unknown outcome" in err for err in told] == [True, False], told
    outcomes = answer(moved, "audit", "list", "--kind", "outcome", "--limit", "1000")["records"]
    assert [one["body"]["status"] for one in outcomes].count("unknown") == 1


# ------------------------------------------------------------------------------------------------ sessions


def test_sessions_are_listed_shown_and_found(moved, expected) -> None:
    listed = {one["id"]: one for one in answer(moved, "sessions", "list")["sessions"]}
    assert {**listed, **{one["id"]: one for one in expected["sessions"]}} == listed
    for session, entries in expected["entries"].items():
        assert answer(moved, "sessions", "show", session)["entries"] == entries
        assert moved.run("sessions", "export", session).code == 0
    found = answer(moved, "sessions", "search", "ferry")["found"]
    assert all(one in found for one in expected["found"])


def test_a_session_is_gone_on_with_under_what_was_granted_and_undone(recorded, expected) -> None:
    notes = recorded.workspace / "notes.md"
    assert notes.read_text() == "the ferry leaves at eight\n"
    script = recorded.home / "on.leeward"
    script.write_text(
        """\
/undo
!expect text "notes.md"
read notes.md
!expect text "leaves at seven"
overflow limit 60
!expect allowed read_overflow
!expect text "of 13893"
run touch ready
!expect asked shell
write plan.md: take the other ferry
!expect allowed write
run mkdir another
!expect asked shell
/memory
!expect text "the ferry leaves at seven"
/browse
!expect text "/timetable"
/permissions
!expect text "touch ready"
""",
        encoding="utf-8",
    )
    ran = recorded.run("--resume", expected["long"], "--script", str(script), "--model", "offline")
    assert ran.code == 0, ran
    assert notes.read_text() == "the ferry leaves at seven\n"
    # A page was read in that session: what was allowed before runs on trial, and keeping it is asked about.
    assert not (recorded.workspace / "ready").exists()
    assert answer(recorded, "audit", "verify", "--head", expected["head"])["problem"] is None
    (gone_on,) = [
        one for one in answer(recorded, "sessions", "list")["sessions"] if one["id"] == expected["long"]
    ]
    before = next(one["turns"] for one in expected["sessions"] if one["id"] == expected["long"])
    assert gone_on["turns"] > before


def test_what_was_undone_is_done_again(recorded, expected) -> None:
    for command, word in (("/undo", "seven"), ("/redo", "eight")):
        ran = recorded.run("--resume", expected["long"], "--script", "-", stdin=f"{command}\n")
        assert ran.code == 0, ran
        assert word in (recorded.workspace / "notes.md").read_text()


def test_lasting_grants_answer_where_they_were_given_and_nowhere_else(recorded, expected) -> None:
    assert agrees(answer(recorded, "permissions", "list")["grants"], expected["grants"])
    plan = '{"path": "plan.md", "content": "take the ferry"}'
    assert recorded.run("check", "write", plan).out.startswith("allow")
    assert recorded.run("check", "shell", '{"command": "mkdir quay"}').out.startswith("allow")
    other = recorded.home / "other"
    other.mkdir()
    there = ("--workspace", str(other))
    assert recorded.run("check", "write", plan, *there).code == 4
    assert recorded.run("check", "shell", '{"command": "mkdir quay"}', *there).out.startswith("allow")
    for grant in expected["grants"]:
        assert recorded.run("permissions", "revoke", grant["id"]).code == 0
    assert recorded.run("check", "shell", '{"command": "mkdir quay"}', "--rung", "real").code == 4


def test_a_session_that_is_gone_on_with_elsewhere_keeps_its_words_and_loses_its_grants(
    moved, expected
) -> None:
    asked = ("--script", "-", "--resume", expected["long"], "--model", "offline")
    ran = moved.run(*asked, stdin="run touch ready\n!expect asked shell\n")
    assert ran.code == 0, ran
    assert "no longer counts" in ran.err
    shown = answer(moved, "sessions", "show", expected["long"])["entries"]
    assert shown[: len(expected["entries"][expected["long"]])] == expected["entries"][expected["long"]]


def test_a_fork_is_gone_on_with(recorded, expected) -> None:
    (fork,) = [one["id"] for one in expected["sessions"] if one["forked_from"]]
    ran = recorded.run("--resume", fork, "-p", "read notes.md", "--model", "offline")
    assert ran.code == 0, ran


# ------------------------------------------------------------------------- configurations and scripts


def agrees(shown: Any, written: Any) -> bool:
    """Whether a value is shown as it was written, or not shown; a key that was added since holds nothing."""
    match shown, written:
        case str(), _ if shown == NOT_SHOWN:
            return True
        case dict(), dict():
            return shown.keys() >= written.keys() and all(
                agrees(shown[key], written.get(key)) for key in shown
            )
        case list(), list():
            return len(shown) == len(written) and all(map(agrees, shown, written))
    return shown == written or (written is None and not shown)


def leaves(tree: dict[str, Any], keys: set[str], at: str = "") -> dict[str, Any]:
    """The values of a configuration by their dotted keys."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        here = f"{at}.{name}" if at else name
        found |= leaves(value, keys, here) if isinstance(value, dict) and here not in keys else {here: value}
    return found


def test_a_configuration_with_every_key_is_read_as_it_was_meant(moved, v0_1) -> None:
    file = v0_1 / "every_key.toml"
    shown = answer(moved, "config", "show", "--config", str(file))["values"]
    written = leaves(tomllib.loads(file.read_text(encoding="utf-8")), set(shown))
    assert len(written) == 65
    for key, value in written.items():
        assert agrees(shown[key]["value"], value), key
        assert shown[key]["source"].startswith(str(file)), key


@pytest.mark.parametrize("output", ["text", "json", "jsonl"])
def test_a_script_with_expectations_runs_to_its_end(moved, v0_1, output) -> None:
    (moved.workspace / "notes.md").write_text("the ferry leaves at seven\n", encoding="utf-8")
    words = ("--script", str(v0_1 / "steps.leeward"), "--model", "offline", "--output", output)
    ran = moved.run(*words)
    assert ran.code == 0, ran
