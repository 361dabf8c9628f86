"""What programs open without being told to: names they complete."""

from __future__ import annotations

import pytest

from leeward.security.command import explain, parse_command
from leeward.security.policy import ShellRules
from loading import rows_beside

ROWS = rows_beside(__file__)

SECRET = "/home/ada/.ssh/id_rsa"


@pytest.mark.parametrize(
    ("link", "line"),
    [
        ("note.gz", "zcat note"),
        ("note.Z", "zcat -f ./note"),
        ("note-z", "gzip -l note"),
        ("a.zip", "unzip -l a"),
        ("a.ZIP", "zipinfo a"),
    ],
)
def test_a_name_that_a_program_completes_is_judged_too(world, link, line):
    assert world.say(line) == "nothing"
    world.links = {f"/srv/ws/{link}": SECRET}
    assert world.say(line) == "deny"


@pytest.mark.parametrize(
    ("entry", "lines", "others"),
    ROWS["no_other_spelling_gets_past_what_is_blocked"],
)
def test_no_other_spelling_gets_past_what_is_blocked(world, entry, lines, others):
    world.rules = ShellRules(blocked=(entry,))
    assert [line for line in lines if world.say(line) != "deny"] == []
    assert [line for line in others if world.say(line) == "deny"] == []


@pytest.mark.parametrize(
    "line", ["writes: x", "connects to: x", "not understood: x", "runs", "'as' written: x", "pipeline"]
)
def test_no_command_looks_like_a_line_of_ours(line):
    assert explain(parse_command(line), line)[0].startswith("'")


def test_values_that_hold_each_other_end(world):
    doubled = "v0=a;" + ";".join(f"v{at}=$v{at - 1}$v{at - 1}" for at in range(1, 40)) + "; echo > $v39"
    assert world.say(doubled) == "force"
