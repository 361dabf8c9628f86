"""A session killed at any point is resumed: the history is valid, no call runs twice.

A real process is killed after so many lines of what it tells, and again while a program runs.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import time

import pytest

from leeward.runtime.app import Runtime
from leeward.runtime.config import find_places, load

TURNS = 3
RULES = (
    '[[permissions.rules]]\ntool = "write"\naction = "allow"\n\n[[permissions.rules]]\ntool = '
    '"shell"\naction = "allow"\n\n[agent]\nmax_turns = 50\n'
)


def model(leeward, name: str, *replies: str) -> str:
    path = leeward.home / name
    path.write_text("".join(f"[[reply]]\n{reply}\n" for reply in replies))
    return f"scripted:{path}"


def writing(leeward, turns: int) -> str:
    """A model that writes one file after the other, two in one reply, and says what it did."""
    calls = [
        (
            f'calls = [{{ tool = "write", args = {{ path = "{n}a.txt", content = "x" }} }}, {{ tool = '
            f'"write", args = {{ path = "{n}b.txt", content = "x" }} }}]'
        )
        for n in range(turns)
    ]
    return model(leeward, "writing.toml", *(reply for call in calls for reply in (call, 'text = "written"')))


def rows(leeward, sql: str):
    with contextlib.closing(sqlite3.connect(leeward.data / "leeward.db")) as connection:
        return connection.execute(sql).fetchall()


async def resumed(leeward, sessions):
    """Go on with the latest session, in this process, with a model that insists on a valid history."""
    loaded, heard, says = load(), [], sessions.Says("on we go")
    async with Runtime.open(
        loaded, places=find_places(loaded.config), provider=says, listener=heard.append
    ) as runtime:
        left = await runtime.resume()
        ended = await runtime.turn("go on")
        return (
            runtime.session_id,
            left,
            ended,
            says.requests[0].messages,
            [event.message for event in heard if hasattr(event, "message")],
        )


@pytest.mark.parametrize("lines", [2, 3, 4, 5, 7, 8, 9, 12, 14, 17])
async def test_killed_at_any_point_it_is_gone_on_with(leeward, sessions, lines) -> None:
    leeward.configure(RULES)
    script = leeward.script("".join(f"write number {n}\n" for n in range(TURNS)))
    process = leeward.start("--script", script, "--model", writing(leeward, TURNS), "--output", "jsonl")
    with process:
        for _ in range(lines):
            line = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert json.loads(line)
    decided = rows(leeward, "SELECT count(*) FROM audit WHERE kind = 'decision'")[0][0]
    there = {path.name for path in leeward.workspace.glob("*.txt")}
    assert len(there) <= decided, "no effect without a decision"
    (session,) = rows(leeward, "SELECT id FROM conversation WHERE turns > 0")[0]
    name, left, ended, messages, told = await resumed(leeward, sessions)
    assert name == session and ended.text == "on we go"
    assert [m.text for m in messages if m.role == "user"] == [
        f"write number {n}" for n in range(left.conversation.turns)
    ] + ["go on"]
    assert {path.name for path in leeward.workspace.glob("*.txt")} == there, "nothing is done again"
    unknown = rows(
        leeward,
        (
            "SELECT count(*) FROM audit AS d WHERE kind = 'decision' AND NOT EXISTS (SELECT 1 FROM audit AS "
            "o WHERE o.call = d.call AND o.kind = 'outcome' AND json_extract(o.body, '$.status') <> "
            "'unknown')"
        ),
    )[0][0]
    assert len([line for line in told if line.startswith("unknown outcome: write")]) == unknown
    _, left, _, again, told = await resumed(leeward, sessions)
    assert [(m.role, m.text, m.call_id) for m in again[: len(messages)]] == [
        (m.role, m.text, m.call_id) for m in messages
    ], "what was put right is kept"
    assert not any(line.startswith("unknown outcome") for line in told), "and told once"


async def test_a_program_that_ran_is_told_of_and_not_run_again(leeward, sessions) -> None:
    leeward.configure(RULES)
    call = 'calls = [{ tool = "shell", args = { command = "touch began; sleep 15" } }]'
    process = leeward.start("-p", "begin", "--model", model(leeward, "m.toml", call), "--output", "jsonl")
    with process:
        for line in process.stdout:
            if json.loads(line)["type"] == "call":
                break
        while not (leeward.workspace / "began").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    (leeward.workspace / "began").unlink()
    _, _, ended, messages, told = await resumed(leeward, sessions)
    assert ended.calls == 0 and not (leeward.workspace / "began").exists()
    assert [line for line in told if line.startswith("unknown outcome: shell ") and "touch began" in line]
    assert "what was done by then is unknown" in [m.text for m in messages if m.role == "tool"][0]
    assert "outcome: unknown: the process ended" in leeward.process("audit", "why", "last").out


def test_on_the_command_line(leeward) -> None:
    """The same id, the whole past, a second process refused, and what went wrong told by its code."""
    first = leeward.process("-p", "read notes.md", "--model", "offline", "--output", "json").json["data"][
        "session"
    ]
    again = leeward.process("-p", "read notes.md", "--model", "offline", "--resume", "--output", "json")
    assert (again.code, again.json["data"]["session"]) == (0, first)
    assert "No model is configured" not in again.json["data"]["text"], "it was said in the first turn"
    script = leeward.script("read notes.md\n!expect text ferry\n/sessions\n")
    by_name = leeward.process(
        "--script", script, "--model", "offline", "--resume", first[:6], "--output", "json"
    )
    assert by_name.json["data"]["session"] == first and "3 turns" in by_name.json["data"]["steps"][1]["text"]
    missing = leeward.process("-p", "x", "--model", "offline", "--resume", "s_nope", "--output", "json")
    assert (missing.code, missing.json["error"]["code"]) == (5, "NOT_FOUND")
    assert leeward.process("--resume", "x", "tools").code == 2


def test_what_another_process_has_open_is_left_to_it(leeward) -> None:
    leeward.configure(RULES)
    first = leeward.process("-p", "read notes.md", "--model", "offline", "--output", "json").json["data"][
        "session"
    ]
    with leeward.start("-p", "run sleep 20", "--model", "offline", "--resume", "--output", "jsonl") as holder:
        assert json.loads(holder.stdout.readline())["type"] in {"text", "call"}
        for words in (("-p", "x", "--model", "offline", "--resume", first), ("sessions", "delete", first)):
            refused = leeward.process(*words, "--output", "json")
            assert (refused.code, refused.json["error"]["code"]) == (4, "SESSION_IN_USE")
            assert f"open already, by process {holder.pid}" in refused.json["error"]["message"]
        holder.kill()
    assert leeward.process("-p", "x", "--model", "offline", "--resume", first).code == 0
    assert leeward.process("sessions", "delete", first).code == 0
    assert leeward.process("-p", "x", "--model", "offline", "--resume", first).code == 5
    assert json.loads(leeward.process("audit", "list", "--session", first, "--output", "json").out)["data"][
        "records"
    ]
