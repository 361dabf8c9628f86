"""What of a git command starts a program, what git hands to a shell, and which sub-command it is."""

from __future__ import annotations

import pytest

from leeward.security.command import parse_command
from leeward.security.command.programs.git import git_notes, git_runs, without_globals
from leeward.security.command.syntax.nodes import literal
from loading import rows_beside

ROWS = rows_beside(__file__)


def words(line: str):
    return parse_command(f"git {line}").root.words


@pytest.mark.parametrize("line", ROWS["secret_by_name"])
def test_a_secret_file_that_is_named_is_for_a_person_present(world, line):
    assert world.say(f"git {line}") == "force"


@pytest.mark.parametrize("line", ["status", "show HEAD:README.md", "log --author=.environment", "push"])
def test_any_other_line_is_asked_about_and_runs_as_it_stands(world, line):
    assert world.say(f"git {line}") == "ask"
    assert parse_command(f"git {line}").printed == f"git {line}"


@pytest.mark.parametrize(
    ("line", "noted"),
    ROWS["what_may_start_a_program_of_somebodys_choosing"],
)
def test_what_may_start_a_program_of_somebodys_choosing(line, noted):
    assert bool(git_notes(words(line))) == noted


@pytest.mark.parametrize(
    ("line", "code"),
    ROWS["what_git_hands_to_a_shell"],
)
def test_what_git_hands_to_a_shell(line, code):
    assert [word.text for word in git_runs(words(line))] == code


def test_without_globals_takes_the_value_of_an_option_for_no_command():
    said = [
        without_globals(tuple(map(literal, line.split())))
        for line in (
            "-C push log", "-c push=x log", "--git-dir push log", "--git-dir=push log", "--namespace a log",
            "--bare log", "log -C push",
        )
    ]  # fmt: skip
    assert said == [("log",)] * 6 + [("log", "-C", "push")]
