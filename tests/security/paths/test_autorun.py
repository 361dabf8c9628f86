"""Files that act later without being named: found wherever they lie, their like left alone, answered by name
only.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Asker
from leeward.security.gates import paths
from leeward.security.kinds import Effect, Kind
from leeward.security.paths import is_meant_to_run_later, runs_later_reason
from leeward.security.permissions.answers import answer_in_advance
from leeward.security.policy import Autonomy, Rule, RuleAction
from leeward.security.session import Grant, Granted
from loading import rows_beside

ROWS = rows_beside(__file__)

LATER = ROWS["later"]
ORDINARY = ROWS["ordinary"]


@pytest.mark.parametrize("path", LATER)
def test_what_runs_later_is_found(path: str) -> None:
    assert runs_later_reason(f"/ws/{path}")


@pytest.mark.parametrize("path", ORDINARY)
def test_what_is_like_it_is_not(path: str) -> None:
    assert runs_later_reason(f"/ws/{path}") is None


def test_the_obvious_wrong_list_is_caught(planted) -> None:
    wrong = planted("runs_later").runs_later_reason
    missed = {path for path in LATER if not wrong(f"/ws/{path}")}
    blocked = {path for path in ORDINARY if wrong(f"/ws/{path}")}
    assert {"MAKEFILE", ".github", "tests/unit/conftest.py"} <= missed and {
        "Makefile.md",
        "my_conftest.py",
    } <= blocked


@given(st.text(st.sampled_from("ab.-_~ é/"), max_size=12), st.sampled_from(LATER), st.booleans())
def test_it_does_not_matter_where_it_lies_or_how_it_is_spelled(folder: str, path: str, upper: bool) -> None:
    spelled = path.upper() if upper and path.isascii() else path
    assert runs_later_reason(f"/ws/{folder.strip('/')}/{spelled}")


MEANT = [
    "Makefile",
    "/ws/Makefile",
    "**/Makefile",
    "**/conftest.py",
    ".github/**",
    ".github/workflows/*",
    "**/.vscode/*",
    "*.service",
    "~/units/*.timer",
    "AGENTS.md",
    ".husky/**/",
]
NOT_MEANT = [
    "**",
    "*",
    "/**",
    "src/**",
    "/ws/**",
    "*.py",
    "*.json",
    "M*",
    "**/*",
    "docs/*.md",
    "?akefile",
    "[M]akefile",
    ".git*/**",
    ".*",
]


@pytest.mark.parametrize("pattern", MEANT)
def test_patterns_that_name_such_files(pattern: str) -> None:
    assert is_meant_to_run_later(pattern)


@pytest.mark.parametrize("pattern", NOT_MEANT)
def test_patterns_that_only_happen_to_match(pattern: str) -> None:
    assert not is_meant_to_run_later(pattern)


def asked(make, raw="Makefile", asker=Asker.MODEL, **held):
    action = make.action(
        make.spec(effects=Effect.WRITE, kinds={"path": Kind.PATH}), {"path": raw}, asker=asker
    )
    return action, paths(action, make.session(**held))


def answer(make, *events, raw="Makefile", asker=Asker.MODEL, **held) -> str | None:
    action, ask = asked(make, raw, asker)
    return answer_in_advance("paths", ask, action, make.session(*events, **held))


def rule(match):
    return Rule("*", RuleAction.ALLOW, match, where="config.toml:1")


@pytest.mark.parametrize("pattern", [None, "**", "*", "/ws/**", "M*", "Makefil?"])
def test_neither_full_autonomy_nor_a_wide_rule_or_grant_answers(make, pattern) -> None:
    assert answer(make, rules=(rule(pattern),), autonomy=Autonomy.FULL, allowed_paths=("/ws",)) is None
    assert (
        answer(make, Granted(0, Grant("", "tool", pattern)), autonomy=Autonomy.FULL, allowed_paths=("/ws",))
        is None
    )


@pytest.mark.parametrize("pattern", ["Makefile", "/ws/Makefile", "**/Makefile"])
def test_a_rule_or_grant_that_names_it_answers(make, pattern) -> None:
    assert "config.toml:1" in answer(make, rules=(rule(pattern),))
    assert "grant" in answer(make, Granted(0, Grant("", "tool", pattern)))
    assert answer(make, rules=(rule(pattern),), raw="other/conftest.py") is None


def test_what_the_person_typed_is_answered_and_the_question_is_not_forced(make) -> None:
    assert answer(make, asker=Asker.PERSON) == "the person, by typing it"
    assert asked(make)[1].force is False


def test_one_name_in_a_rule_does_not_answer_for_another_file(make) -> None:
    tool = make.spec(effects=Effect.WRITE, kinds={"a": Kind.PATH, "b": Kind.PATH})
    action = make.action(tool, {"a": "Makefile", "b": "AGENTS.md"})
    session = make.session(rules=(rule("Makefile"), rule("**")))
    assert answer_in_advance("paths", paths(action, session), action, session) is None
    both = make.session(rules=(rule("Makefile"), rule("AGENTS.md")))
    assert answer_in_advance("paths", paths(action, both), action, both) is not None
