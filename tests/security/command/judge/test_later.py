"""Commands that change what acts later: asked about by force, however they reach it; reading and naming it is
not.
"""

from __future__ import annotations

import pytest

from leeward.security.command import Say
from loading import rows_beside

ROWS = rows_beside(__file__)

CHANGING = ROWS["changing"]
ORDINARY = ROWS["ordinary"]


@pytest.mark.parametrize("line", CHANGING)
def test_what_acts_later_is_asked_about_by_force(world, line: str) -> None:
    ruling = world.ruling(line)
    assert ruling.say == Say.FORCE and any("acts later" in reason for reason, _ in ruling.reasons)


@pytest.mark.parametrize("line", ORDINARY)
def test_what_only_names_or_reads_it_is_not(world, line: str) -> None:
    assert not any("acts later" in reason for reason, _ in world.ruling(line).reasons)
