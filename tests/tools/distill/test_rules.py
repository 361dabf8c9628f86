"""Filter rules: what is refused and where; what a person and a workspace may change."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from leeward.tools.distill import Engine, RuleSet, built_in_rules
from leeward.tools.distill.similar import normalised
from loading import load_module

OUTPUTS = load_module(Path(__file__).with_name("outputs.py"))
CASES = OUTPUTS.CASES

HEAD = '[[rules]]\nname = "x"\nmatch.prefix = "x"\n'
STRIP = '{kind = "strip_noise", patterns = ["^a"]}'


def strips(patterns: str) -> str:
    return f'{HEAD}strategy = {{kind = "strip_noise", patterns = {patterns}}}'


def cuts(lines: str, head: int) -> str:
    return f'{HEAD}strategy = {{kind = "truncate", max_lines = {lines}, head = {head}, tail = 2}}'


WRONG = {
    "no pattern of RE2": (strips('["a(?=b)"]'), "RE2"),
    "an open bracket": (strips('["ok", "a("]'), "RE2"),
    "too long a pattern": (strips(f'["{"a" * 501}"]'), "500"),
    "no pattern": (strips("[]"), "at least 1"),
    "the ends of a text": (strips("['a\\z']"), "ends of a text"),
    "an unknown strategy": (f'{HEAD}strategy = {{kind = "summarise"}}', "summarise"),
    "an unknown parameter": (f'{HEAD}strategy = {{kind = "dedup", fuzzy = true}}', "unknown key"),
    "no strategy": (HEAD, "must be given"),
    "a negative number": (cuts("5", -1), "-1"),
    "text for a number": (cuts('"5"', 1), "'5'"),
    "an unknown runner": (f'{HEAD}strategy = {{kind = "test_summary", runner = "pascal"}}', "pascal"),
    "an unknown exit": (f'{HEAD}strategy = {STRIP}\non_exit = "sometimes"', "sometimes"),
    "an unknown key": (f"{HEAD}strategy = {STRIP}\ncolour = true", "unknown key"),
    "a name nobody can type": (f'[[rules]]\nname = "X Y"\nmatch.any = true\nstrategy = {STRIP}', "X Y"),
    "blanks to match": (f'[[rules]]\nname = "x"\nmatch.prefix = " "\nstrategy = {STRIP}', "pattern"),
    "nothing to match": (f'[[rules]]\nname = "x"\nmatch = {{}}\nstrategy = {STRIP}', "expected exact"),
    "two of a name": (f"{HEAD}strategy = {STRIP}\n{HEAD}strategy = {STRIP}", "another rule x"),
    "another table": ("[filters]\na = 1", "unknown key"),
    "no table": ("rules = 3", "expected [[rules]]"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_bad_rule_is_refused_with_its_reason(name) -> None:
    text, reason = WRONG[name]
    _, problems = built_in_rules().with_file(tomllib.loads(text), "yours")
    assert problems and reason in " ".join(problem.message for problem in problems)


def test_the_person_lays_rules_over_the_built_in_ones() -> None:
    text = '[[rules]]\nname = "pytest"\nenabled = false\n[[rules]]\nname = "ls"\non_exit = "zero"\n'
    found, problems = built_in_rules().with_file(tomllib.loads(text), "yours")
    assert problems == [] and set(found.of_layer("yours")) == {"pytest", "ls"}
    assert not found.rules["pytest"].enabled and found.rules["ls"].on_exit == "zero"
    assert found.rules["ls"].strategy == built_in_rules().rules["ls"].strategy
    assert list(found.rules) == list(built_in_rules().rules)


def of_workspace(text: str) -> tuple[RuleSet, list[str]]:
    found, problems = built_in_rules().with_file(tomllib.loads(text), "workspace")
    return found, [problem.message for problem in problems]


def test_a_workspace_may_only_fold() -> None:
    found, problems = of_workspace(f'{HEAD}strategy = [{{kind = "dedup"}}, {{kind = "group_by_rule"}}]')
    assert problems == [] and found.of_layer("workspace") == ("x",)
    for strategy in (
        STRIP, '{kind = "truncate", max_lines = 1, head = 0, tail = 0}',
        '{kind = "keep_matching", patterns = ["a"]}',
        '{kind = "strip_annotated", patterns = ["a"]}', '{kind = "test_summary", runner = "tap"}',
        '{kind = "git_diff"}', '{kind = "git_status"}',
    ):  # fmt: skip
        _, problems = of_workspace(f"{HEAD}strategy = [{{kind = 'dedup'}}, {strategy}]")
        assert len(problems) == 1 and "may only fold" in problems[0]


@pytest.mark.parametrize("change", ["enabled = false", 'strategy = {kind = "dedup"}', 'on_exit = "nonzero"'])
def test_a_workspace_changes_no_rule_of_another(change) -> None:
    found, problems = of_workspace(f'[[rules]]\nname = "pytest"\n{change}\n')
    assert "may not change the rule pytest" in problems[0]
    assert found.rules["pytest"] == built_in_rules().rules["pytest"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_workspaces_rule_drops_no_line_that_is_kept_without_it(case) -> None:
    found, _ = of_workspace(
        '[[rules]]\nname = "x"\nmatch.any = true\n'
        'strategy = [{kind = "dedup", scope = "all"}, {kind = "group_by_rule"}]'
    )
    without = OUTPUTS.distilled(case.command, case.text, case.exit, Engine()).text.split("\n")
    folded = OUTPUTS.distilled(case.command, case.text, case.exit, Engine(found)).text
    kept = {normalised(line.partition("  [… ")[0].encode()) for line in folded.split("\n")}
    for line in without:
        plain = line.partition("  [… ")[0]
        place = re.search(r"(\d+:\d+|\d+,\d+|:\d+)", plain)
        is_listed = place is not None and place[0].lstrip(":") in folded
        assert not plain.strip() or plain.startswith("[… ") or is_listed or normalised(plain.encode()) in kept
