"""Limits of commands: shown with the key that raises them, named when met, and configurable."""

from __future__ import annotations

import json

import pytest

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker
from leeward.security.ports import Answer

CONFIG = """[tools.shell]
memory = 300000000
processes = 90
timeout = 77
longest_job = 600
max_jobs = 2
trial_bytes = 5000000
[tools.overflow]
threshold = 4000
max_overflow_bytes = 60000
"""
BOUNDS = {
    "tools.shell.memory": 300_000_000,
    "tools.shell.processes": 90,
    "tools.shell.timeout": 77.0,
    "tools.shell.longest_job": 600.0,
    "tools.shell.max_jobs": 2,
    "tools.shell.trial_bytes": 5_000_000,
    "tools.overflow.threshold": 4_000,
    "tools.overflow.max_overflow_bytes": 60_000,
}


async def test_status_shows_each_with_its_key(sessions, tmp_path) -> None:
    async with sessions.session(tmp_path, CONFIG) as runtime:
        told = await dispatch(runtime, parse("/status"))
        assert told.data == {"bounds": BOUNDS}
        for key in BOUNDS:
            section, _, name = key.rpartition(".")
            assert f"[{section}] {name}" in told.text
        assert "286.1 MiB of memory" in told.text and "90 processes" in told.text


def test_a_script_has_them_as_numbers(leeward, tmp_path) -> None:
    leeward.configure(CONFIG)
    script = tmp_path / "script"
    script.write_text("/status\n/help\n")
    ran = leeward("--script", str(script), "--model", "offline", "--output", "json")
    steps = ran.json["data"]["steps"]
    assert steps[0]["data"] == {"bounds": BOUNDS} and "data" not in steps[1]
    ran = leeward("--script", str(script), "--model", "offline", "--output", "jsonl")
    said = [event["data"] for event in ran.lines if event["type"] == "slash"]
    assert said == [{"bounds": json.loads(json.dumps(BOUNDS))}, None]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("for i in $(seq 200); do sleep 20 & done; wait", "[tools.shell] processes"),
        ("python3 -c 'x = bytearray(600_000_000); x[::4096] = b\"x\" * len(x[::4096]); print(1)'", "memory"),
    ],
)
async def test_a_result_names_the_key_of_the_bound_that_was_met(sessions, tmp_path, line, key) -> None:
    person = sessions.Answers(Answer.YES)
    async with sessions.session(tmp_path, CONFIG, approver=person) as runtime:
        result = await runtime.call("shell", {"command": line}, asker=Asker.MODEL)
        assert result.error is not None and key in result.shown, result.shown


async def test_a_trial_run_that_writes_too_much_names_its_key(sessions, tmp_path) -> None:
    """In the question whether it runs once more, and in the result where it does not."""
    person = sessions.Answers(Answer.NO)
    async with sessions.session(tmp_path, CONFIG, trial="auto", approver=person) as runtime:
        if problem := await runtime.sandbox.no_trial_because():
            pytest.skip(f"trial runs are needed: {problem}")
        result = await runtime.call(
            "shell", {"command": "head -c 9000000 /dev/zero > big"}, asker=Asker.MODEL
        )
        [question] = person.questions
        assert "[tools.shell] trial_bytes" in question.asks[0][1].question
        assert "[tools.shell] trial_bytes" in result.shown
        assert not (tmp_path / "ws" / "big").exists()
