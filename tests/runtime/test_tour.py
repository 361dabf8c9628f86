"""The tour: everything it shows really happens."""

from __future__ import annotations

import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "examples" / "tour.leeward"


@pytest.fixture
def tour(leeward, monkeypatch):
    """Run the tour from the root of the repository, as `make run` does."""
    monkeypatch.chdir(TOUR.parents[1])
    leeward.configure("[tools.retry]\nfirst_wait = 0.01\n")
    program, *given = shlex.split(re.search(r"(?m)^run:.*\n\t(.*)$", Path("Makefile").read_text())[1])
    assert program == "$(BIN)/leeward"
    return lambda *words: leeward(*given, *words)


def test_the_account_shows_everything_that_was_promised(tour):
    ran = tour()
    assert ran.code == 0, ran.err
    for line in (
        '→ read {"path": "examples/tour/notes.md"}',
        "✗ allowed, then error (network_error)",
        "✗ denied by grounding (not_provided): fetch rejected: URL was not provided by the user",
        (
            "✗ denied by arguments (path_traversal): Argument 'id' contains a rejected pattern "
            "[INVALID_AGENT_INPUT]"
        ),
        "✗ denied by commands (destructive): this command is refused",
        "✗ asked by commands (",
        "): shell was not run: nobody is here to say yes",
        "exit code 0, kept as of_",
        "! critical: read: anomaly window: 4 of 5 failed; /trust read LEVEL lifts it",
        "✗ denied by anomaly (blocked)",
        "21 steps, 19 calls, 6 refused; session s_",
    ):
        assert line in ran.err
    assert [int(number) for number in re.findall(r"^ ?(\d+) › ", ran.err, re.MULTILINE)] == list(range(1, 22))
    for line in (
        "output filters (long) show 400 of 20000 lines",
        "characters 60000 to 60060 of 108894",
        "URLs, labels and grants of this session are forgotten",
    ):
        assert line in ran.out


def test_trials_keep_and_discard_what_is_promised(leeward, monkeypatch):
    monkeypatch.delenv("LEEWARD_TOOLS__SHELL__TRIAL")
    # Something is written, and taken back: not where others look.
    shutil.copytree(TOUR.parent, leeward.workspace / "examples")
    checked = leeward("check", "shell", '{"command": "touch x"}', "--output", "json").json["data"]
    if checked.get("runs") != "trial":
        pytest.skip("nothing can be run on trial here; leeward doctor says why")
    ran = leeward("--script", "examples/trials.leeward", "--model", "offline")
    assert ran.code == 0, ran.err
    assert ran.err.count("keep what it changed?") == 2 and "10 steps, 7 calls, 2 refused" in ran.err
    assert not (leeward.workspace / "examples/tour/tide.txt").exists()
    assert " allowed, on trial " in ran.out and " keep " in ran.out


def test_the_audit_lists_all_of_it(tour):
    steps = tour("--output", "json").json["data"]["steps"]
    calls = [call for step in steps for call in step["calls"]]
    listed = steps[-1]["text"]
    assert len(calls) == 19
    assert listed.count(" decision ") == 19
    assert listed.count(" outcome ") == sum(call["status"] != "denied" for call in calls)
    for call in calls:
        assert call["call"][:13] in listed
    for word in (
        "grant     shell",
        "block     read",
        "trust     read",
        "forgot",
        "https://www.harbour.example/ (person)",
    ):
        assert word in listed


def test_nothing_in_the_repository_is_changed(tour):
    def seen():
        return {path: path.stat().st_mtime_ns for path in TOUR.parent.rglob("*")}

    before = seen()
    tour()
    assert seen() == before


def test_each_step_that_calls_says_what_it_expects():
    lines = [line for line in TOUR.read_text().splitlines() if line and not line.startswith("#")]
    steps = [line for line in lines if not line.startswith(("!", "/"))]
    assert len(steps) > 10
    for line, after in zip(lines, lines[1:], strict=False):
        if line.split()[0] in {"fetch", "guess", "call", "run"}:
            assert after.startswith("!expect"), line


def test_the_tour_is_the_same_every_time(tour):
    def story():
        told = [
            e for e in tour("--output", "jsonl").lines if e["type"] != "output"
        ]  # how it is cut up is chance
        lines = [(e["type"], e.get("tool"), e.get("status"), e.get("gate")) for e in told]
        begins = [number for number, line in enumerate(lines) if line[0] == "step"] + [len(lines)]
        # Calls that only read run side by side: in which order they end is chance, too.
        return [sorted(lines[start:end], key=str) for start, end in pairwise(begins)]

    first = story()
    assert len(first) == 21
    assert first == story()
