"""What a repository cannot be without is not removed by name; a lock that git left behind is asked about."""

from __future__ import annotations

import pytest

from loading import rows_beside

ROWS = rows_beside(__file__)

REFUSED = [
    "find . -type d -name objects -exec rm -rf {} +", "find . -name HEAD -exec rm -rf {} +",
    "find . -name refs | xargs rm -rf", "find . -name 'HEA?' -delete",
    "rm .git/index", "rm -f .git/config", "rm -f .git/hooks/pre-commit.lock", "rm -f .git/x.lock/../config",
    "rm -rf .git", "echo x > .git/index.lock",
]  # fmt: skip
ASKED = ROWS["asked"]


@pytest.mark.parametrize("line", REFUSED)
def test_what_a_repository_cannot_be_without_stays(world, line):
    assert world.say(line) == "deny"


@pytest.mark.parametrize("line", ASKED)
def test_locks_and_searches_that_spare_git_are_asked_about(world, line):
    assert world.say(line) in {"ask", "force"}
