"""Searches for secret files by their names: asked about outside of the workspace, and nowhere else."""

from __future__ import annotations

import pytest

from loading import rows_beside

ROWS = rows_beside(__file__)

ASKED = ROWS["asked"]
QUIET = ROWS["quiet"]


@pytest.mark.parametrize("line", ASKED)
def test_a_search_outside_for_a_secret_by_name_is_asked_about(world, line):
    assert world.say(line) == "ask"


@pytest.mark.parametrize("line", ["locate id_rsa", "locate -i .ssh"])
def test_what_is_the_name_of_a_secret_is_asked_about_by_force_where_it_could_be_a_path(world, line):
    assert world.say(line) == "force"


@pytest.mark.parametrize("line", QUIET)
def test_other_searches_and_those_inside_are_quiet(world, line):
    assert world.say(line) == "nothing"


@pytest.mark.parametrize(
    "line", ["cat ~/.oci/config", "head ~/.vault-token", "grep x ~/.config/rclone/rclone.conf"]
)
def test_places_of_credentials_are_not_read(world, line):
    assert world.say(line) == "deny"
