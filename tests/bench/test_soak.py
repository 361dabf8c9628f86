"""A short soak: inputs and tools that do not want to end, each of which ends in time."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from loading import load_module

ROOT = Path(__file__).resolve().parents[2]
SHORT = {
    "-p, closed input",
    "-p, silent input",
    "-p, slow input",
    "--script -, slow input",
    "-p -, endless input",
    "scan -, silent input",
    "a tool that is swallowing",
    "a tool that is spinning, json",
    "a tool that is holding the interpreter",
    "a program that ignores signals",
    "an answer that nobody reads",
    "several scripts, one stuck",
}


@pytest.fixture(scope="module")
def soak():
    loaded = load_module(ROOT / "bench" / "soak.py")
    # Five seconds are a figure of `make soak`; beside other tests on a busy machine a process ends later.
    loaded.LATE *= 3
    return loaded


def run(soak, folder, runs, kinds):
    found = soak.soak(runs, 1, soak.Place(folder), kinds=kinds)
    time.sleep(0.5)
    assert (found.problems, soak.left_over()) == ([], [])
    assert found.runs == runs
    return found


def test_whatever_comes_in_and_does_not_stop_a_run_ends(soak, tmp_path):
    kinds = [kind for kind in soak.KINDS if kind.name in SHORT]
    found = run(soak, tmp_path, len(SHORT), kinds)
    assert set(found.by_kind) == SHORT and found.slowest < soak.LATE


@pytest.mark.slow
def test_every_kind_of_run_ends(soak, tmp_path):
    run(soak, tmp_path, 2 * len(soak.KINDS), soak.KINDS)


def test_what_was_ended_the_hard_way_is_told_of_at_the_next_start(soak, tmp_path):
    """As after a kill: the call has an unknown outcome, and a key asks about it."""
    place = soak.Place(tmp_path)
    key = next(kind for kind in soak.KINDS if kind.name.startswith("a key"))
    words = [*place.words(replace(key, timeout=7), 1), "--output", "json"]

    def ended():
        process = soak.popen(words, place, None, -1)
        out, err = process.communicate(timeout=30)
        return process.returncode, json.loads(out)["error"], err.decode()

    code, error, err = ended()
    assert (code, error["code"], error["message"]) == (10, "TIMEOUT", "not done within 7 s")
    assert "something did not stop, so the process was ended" in err
    code, error, err = ended()
    assert (code, error["code"], [one["tool"] for one in error["calls"]]) == (
        6,
        "UNKNOWN_OUTCOME",
        ["shielded"],
    )
