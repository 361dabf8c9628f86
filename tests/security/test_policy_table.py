"""The table in the documentation is what the pipeline decides."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from leeward.security import pipeline
from leeward.security.session import SkillUsed

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def policy_table(script):
    return script("security/policy_table.py")


def test_the_documented_table_is_the_one_that_holds(policy_table) -> None:
    written = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert written == policy_table.page(), "run: python tests/security/policy_table.py > docs/policy.md"


@pytest.mark.parametrize("uses", [None, (("tell", None),)])
def test_a_skill_in_force_that_uses_a_tool_changes_no_cell(policy_table, monkeypatch, uses) -> None:
    monkeypatch.setattr(policy_table, "IN_FORCE", (SkillUsed(0, "review", "d", uses),))
    assert policy_table.page() == (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")


def test_a_skill_in_force_that_uses_no_tool_leaves_no_cell_that_allows_or_asks(
    policy_table, monkeypatch
) -> None:
    monkeypatch.setattr(policy_table, "IN_FORCE", (SkillUsed(0, "review", "d", ()),))
    cells = {cell for row in trio.run(policy_table.rows) for cell in row[3:]}
    assert all(cell.startswith("deny (") for cell in cells) and "deny (permissions)" in cells


def test_a_change_of_policy_is_a_change_of_the_table(policy_table, monkeypatch) -> None:
    gates = tuple(gate for gate in pipeline.GATES if gate.__name__ != "permissions")
    monkeypatch.setattr(pipeline.judge, "__defaults__", (gates,))
    assert policy_table.page() != (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
