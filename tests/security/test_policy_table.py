"""The table in the documentation is what the pipeline decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from leeward.security import pipeline

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def policy_table(script):
    return script("security/policy_table.py")


def test_the_documented_table_is_the_one_that_holds(policy_table) -> None:
    written = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert written == policy_table.page(), "run: python tests/security/policy_table.py > docs/policy.md"


def test_a_change_of_policy_is_a_change_of_the_table(policy_table, monkeypatch) -> None:
    gates = tuple(gate for gate in pipeline.GATES if gate.__name__ != "permissions")
    monkeypatch.setattr(pipeline.judge, "__defaults__", (gates,))
    assert policy_table.page() != (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
