"""What a hostile reader found: values that become options, wrappers that hide, prints that are not what was
judged.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tree_sitter

from leeward.security.command import parse_command
from leeward.security.command.expand import parse as read
from leeward.security.command.expand.visit import commands_of
from leeward.security.command.syntax.grammar import read_tree
from leeward.security.command.syntax.nodes import Unread
from leeward.security.command.syntax.words import Effort
from leeward.security.kinds import CommandLine
from leeward.security.policy import ShellRules


def line(text: str) -> CommandLine:
    found = parse_command(text)
    assert isinstance(found, CommandLine), (text, found)
    return found


# How a deny rule sees a line: each action as it stands, and again as somebody would forbid it.
FORMS = [
    ("git -C . push", [("git", "-C", ".", "push")], [("git", "push")]),
    ("/usr/bin/git push", [("/usr/bin/git", "push")], [("git", "push")]),
    (
        "git -c a.b=c --no-pager push x",
        [("git", "-c", "a.b=c", "--no-pager", "push", "x")],
        [("git", "push", "x")],
    ),
    ("git --git-dir x push", [("git", "--git-dir", "x", "push")], [("git", "push")]),
    ("command git push", [("command", "git", "push"), ("git", "push")], []),
    ("env rm x", [("env", "rm", "x"), ("rm", "x")], []),
    (
        "bash -c 'git -C / push'",
        [("bash", "-c", "git -C / push"), ("git", "-C", "/", "push")],
        [("git", "push")],
    ),
    ("python3 -m pip install x", [("python3", "-m", "pip", "install", "x")], [("pip", "install", "x")]),
    (
        "kubectl -n prod delete x",
        [("kubectl", "-n", "prod", "delete", "x")],
        [("kubectl", "prod", "delete", "x"), ("kubectl", "delete", "x")],
    ),
    ("npm --prefix=a run b", [("npm", "--prefix=a", "run", "b")], [("npm", "run", "b")]),
    ("git push; git -C . push", [("git", "push"), ("git", "-C", ".", "push")], []),
    ("ls -la src", [("ls", "-la", "src")], []),
]


@pytest.mark.parametrize(("text", "said", "again"), FORMS, ids=[text for text, _, _ in FORMS])
def test_actions_are_said_once_more_as_they_would_be_forbidden(text, said, again):
    found = line(text)
    assert (list(found.written), set(found.restated)) == (said, set(again))
    assert set(found.actions) == {*said, *again} and set(found.open_actions) == set(said)


@pytest.mark.parametrize(
    "text",
    [
        "env rm x",
        "git -C . push",
        "git -c a.b=c push",
        "command git push",
        "/usr/bin/git push",
        "xargs git push",
        "bash -c 'git push'",
        "git -c alias.p=push p",
        "timeout 5 sh -c 'git -C a push'",
        "env -S 'git push' a",
        "uv run --with a git push",
        "flock l -c 'git push'",
        "linux32 git push",
    ],
)
def test_no_wrapper_value_or_option_hides_what_is_blocked(world, text):
    world.rules = ShellRules(blocked=("git push", "rm"))
    assert world.say(text) == "deny"


@pytest.mark.parametrize(
    "text", ["x=push; git $x", "echo 'git push' | sh", "sh <<< 'git push'", "for v in push; do git $v; done"]
)
def test_what_only_running_it_tells_is_for_a_person_present(world, text):
    world.rules = ShellRules(blocked=("git push",))
    assert world.say(text) == "force"


@pytest.mark.parametrize(
    ("text", "constructs"),
    [
        ("bash -c 'echo $(ls)'", {"$("}),
        ("eval 'cat <<< x'", {"<<<"}),
        ("timeout 5 sh -c 'a `b`'", {"`"}),
        ("echo '$(ls)'", set()),
    ],
)
def test_a_construct_inside_of_code_is_one(world, text, constructs):
    assert line(text).constructs == constructs
    assert world.say(text) != "nothing" or not constructs


# Code inside of a wrapper is read, so its print runs and not its text.
PRINTS = [
    ("timeout 5 sh -c 'r\\m  x'", "timeout 5 sh -c 'rm x'"),
    ("env nice bash -c \"'l's\"", "env nice bash -c ls"),
    ("find . -exec sh -c 'l\\s' \\;", "find . -exec sh -c ls ';'"),
    ("su -c'r\\m x' y", "su '-crm x' y"),
    ("env eval l\\s a", "env eval 'ls a'"),
    ("rg -g '!.*'  x", "rg -g '!.*' x"),
    ("git  status", "git status"),
    ("cat > a <<E\nx\nE", "cat <<< x > a"),
    ("cat > a <<E\n$(cat a)\nE", 'cat > a <<< "$( cat a )"'),
]


@pytest.mark.parametrize(("text", "printed"), PRINTS, ids=[text for text, _ in PRINTS])
def test_what_a_wrapper_runs_is_printed_from_what_was_read(text, printed):
    assert line(text).printed == printed


@pytest.mark.parametrize("name", ["x", "NAME", "X1"])
def test_variables_of_the_line_itself_are_no_more_than_a_question(world, name):
    assert world.say(f"{name}=a; echo ${name}") == world.say(f"{name}=a ls") == "ask"


@pytest.mark.parametrize(
    "name", ["PATH", "BASH_ENV", "IFS", "PS4", "GIT_DIR", "REPLY", "OPTIND", "LANG", "USER", "HISTFILE"]
)
def test_variables_that_are_obeyed_are_asked_about(world, name):
    assert world.say(f"{name}=../a; ls") in {"ask", "force"}


def test_a_tree_of_any_depth_is_walked_within_bounds():
    """The limits stop such a line before it is parsed; what walks the tree must not rely on that."""
    source = b"$(" * 10_000 + b"a" + b")" * 10_000
    tree = tree_sitter.Parser(read._LANGUAGE).parse(source)
    with pytest.raises(Unread):
        read_tree(source.decode("latin-1"), tree.root_node, Effort())


def test_code_inside_of_a_line_shares_one_measure():
    many = line("; ".join("sh -c '" + "a " * 200 + "'" for _ in range(18)))
    assert sum(len(argv) for argv in many.actions) < 900
    assert "code" in {note.rule for command in commands_of(many.root) for note in command.notes}


@pytest.mark.skipif(
    shutil.which("bwrap") is None or not Path("/bin/bash").exists(), reason="needs bash and bubblewrap"
)
def test_what_runs_unasked_changes_nothing_and_prints_no_secret(script):
    report = script("fuzz/command_quiet_fuzz.py").fuzzed(600, 20_251, batch=600)
    assert report.quiet > 60 and report.wrong == []
