"""A run with a key that is killed at any moment is taken up, and nothing that is finished runs twice.

Each step appends a line to a file that git does not see. A real process is killed once it has told so many
lines and an instant later, up to three times; then the same key runs until it ends.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter

import pytest

from chat_model import STORIES, call, say, serving

RULES = '[[permissions.rules]]\ntool = "*"\naction = "allow"\n'
TWO = "printf 'b1\\n' >> ledger/lines; sleep 0.03", "printf 'b2\\n' >> ledger/lines"
SCRIPT = (
    "run printf 'a\\n' >> ledger/lines\n!expect allowed shell\n!approve write\nappend-two\n/status\n"
    "run sleep 0.05; printf 'c\\n' >> ledger/lines\n"
)
MOST_ATTEMPTS = 20


class Ledger:
    """The lines that were appended, and which of them somebody let be appended again, or left out."""

    def __init__(self, leeward, words, marks):
        self.file = leeward.workspace / "ledger" / "lines"
        self.file.unlink(missing_ok=True)
        self.leeward, self.words, self.marks = leeward, words, marks
        self.repeated: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()

    def counts(self):
        return Counter(self.file.read_text().split()) if self.file.exists() else Counter()

    def killed(self, lines, instant):
        """Run until so many lines were told and an instant later; kill it, unless it has ended."""
        with self.leeward.start(*self.words, "--output", "jsonl") as process:
            for _ in range(lines):
                if not process.stdout.readline():
                    break
            time.sleep(instant)
            process.send_signal(signal.SIGKILL)
            process.wait()

    def finished(self, chance):
        """Run until it ends by itself; where an outcome is unknown, either answer is given."""
        more = ()
        for _ in range(MOST_ATTEMPTS):
            ran = self.leeward.process(*self.words, *more, "--output", "json")
            if ran.code != 6:
                return ran
            word = chance.choice(("repeat", "skip"))
            self.note(ran.json["error"], self.repeated if word == "repeat" else self.skipped)
            more = ("--on-unknown", word)
        raise AssertionError("it never ended")

    def note(self, error, noted):
        assert (error["code"], error["retryable"]) == ("UNKNOWN_OUTCOME", False)
        for one in error["calls"]:
            command = json.loads(one["arguments"])["command"]
            assert one["tool"] == "shell" and one["arguments"] in error["message"] and one["at"] > 0
            noted.update(mark for mark in self.marks if f"'{mark}\\n" in command)

    def held_against(self):
        counts = self.counts()
        for mark in self.marks:
            assert counts[mark] <= 1 + self.repeated[mark], f"{mark} ran {counts[mark]} times"
            assert counts[mark] or self.skipped[mark], f"{mark} never ran"


@pytest.fixture
def points(leeward, monkeypatch):
    """Kill a script and a prompt at so many points."""
    monkeypatch.setitem(STORIES, "append-two", [[call("shell", command=one) for one in TWO], [say("Both.")]])
    prompt, script = ("-p", "append-two"), ("--script", leeward.script(SCRIPT))
    (leeward.workspace / "ledger").mkdir()
    (leeward.workspace / ".gitignore").write_text("ledger/\n")

    def points(count, seed):
        chance = random.Random(seed)  # noqa: S311 - moments, not secrets
        with serving() as model:
            leeward.configure(RULES + model.config())
            for number in range(count):
                words, marks = (script, ("a", "b1", "b2", "c")) if number % 4 else (prompt, ("b1", "b2"))
                ledger = Ledger(leeward, (*words, "--key", f"run-{number}"), marks)
                for _ in range(chance.randint(1, 3)):
                    ledger.killed(chance.randint(0, 20), chance.random() * chance.choice((0.0, 0.02, 0.2)))
                ran = ledger.finished(chance)
                assert ran.code == 0, ran
                ledger.held_against()
                asked, counts = len(model.requests), ledger.counts()
                again = leeward.process(*ledger.words, "--output", "json")
                assert (again.code, again.json["data"]["session"]) == (0, ran.json["data"]["session"])
                assert (len(model.requests), ledger.counts()) == (asked, counts), (
                    "a finished key runs nothing"
                )

    return points


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_a_few_points_nothing_finished_runs_twice(points, seed):
    points(2, seed)


# In tens: one test may take three minutes.
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 8))
def test_killed_at_fifty_points_nothing_finished_runs_twice(points, seed):
    points(10, seed)
