"""Every built-in rule on real outputs: what is shown, saved, and never lost."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest

from leeward.tools.distill import Engine, built_in_rules
from leeward.tools.distill.page import Page
from loading import load_module

OUTPUTS = load_module(Path(__file__).with_name("outputs.py"))
CASES = OUTPUTS.CASES
ENGINE = Engine()

# `bench/distill.py` plants with many more. The last two put a line into the middle of a run it resembles.
SEEDS = (1, 14, 35)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_shown_of_an_output(case) -> None:
    shown = OUTPUTS.distilled(case.command, case.text, case.exit, ENGINE).text
    assert shown == case.shown_file.read_text(encoding="utf-8"), (
        "python tests/tools/distill/outputs.py writes it"
    )


def test_every_rule_has_outputs_of_success_and_failure() -> None:
    whole = {(rule, case.exit == 0) for rule in built_in_rules().rules for case in CASES if case.rule == rule}
    missing = {(rule, well) for rule in built_in_rules().rules for well in (True, False)} - whole
    # What tsc accepts it prints nothing about, and `seq` does not fail.
    assert missing == {("tsc", True), ("long", False)}
    assert {case.origin for case in CASES} == {"captured", "written"}
    assert {path.stem for path in (OUTPUTS.HERE / "golden").iterdir()} == {case.name for case in CASES}


def test_most_rules_save_most_of_an_output() -> None:
    saved = {}
    for rule in built_in_rules().rules:
        sizes = [(len(case.text), case.shown_file.stat().st_size) for case in CASES if case.rule == rule]
        saved[rule] = 1 - sum(after for _, after in sizes) / sum(before for before, _ in sizes)
    assert statistics.median(saved.values()) >= 0.7, saved


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_failure_shows_every_line_that_a_success_does(case) -> None:
    well, failed = (
        Counter(line.partition("  [… ")[0] for line in found.text.split("\n") if not line.startswith("[… "))
        for found in (OUTPUTS.distilled(case.command, case.text, code, ENGINE) for code in (0, 1))
    )
    assert not [line for line in well - failed if line.strip()]


def lost(case, seed: int, code: int) -> list[str]:
    text, lines = OUTPUTS.planted(case.text, seed)
    shown = OUTPUTS.distilled(case.command, text, code, ENGINE, room=10**9).text.split("\n")
    return [line for line in lines if not OUTPUTS.is_shown(line, shown)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lines_that_matter_are_found_again(case) -> None:
    for seed in SEEDS:
        assert lost(case, seed, case.exit) == [], f"seed {seed}"
        assert lost(case, seed, 1 - min(case.exit, 1)) == [], f"seed {seed}, the other exit code"


def test_without_a_guard_they_are_lost(planted, monkeypatch) -> None:
    monkeypatch.setattr(Page, "after", planted("unguarded").after)
    assert sum(bool(lost(case, 1, case.exit)) for case in CASES) >= 10
