"""What a command touches, by its words: asked about by force, whatever program it is."""

from __future__ import annotations

import pytest

from leeward.security.command import Say
from loading import rows_beside

ROWS = rows_beside(__file__)


@pytest.mark.parametrize(("why", "line"), [(why, line) for why, lines in ROWS["forced"] for line in lines])
def test_what_it_touches_only_a_person_present_may_allow(world, why: str, line: str) -> None:
    ruling = world.ruling(line)
    assert ruling.say == Say.FORCE and any(why in reason for reason, _ in ruling.reasons), ruling


@pytest.mark.parametrize("line", ROWS["ordinary"])
def test_what_only_names_or_reads_it_is_no_more_than_asked_about(world, line: str) -> None:
    assert world.ruling(line).say <= Say.ASK


def test_what_a_pattern_matches_is_touched(world) -> None:
    world.files += (".env", "conf/Makefile")
    assert world.say("cp .e* x") == world.say("tee conf/*") == world.say("python x.py .e*") == "force"
    assert world.say("cp src/*.py x") == "ask"
