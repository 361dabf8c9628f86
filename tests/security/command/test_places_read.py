"""Which paths an action reads or lists, program by program, and what comes of each kind of place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import parse_command, ruling_of, wanted
from leeward.security.command.programs.tables import lines_of
from leeward.security.kinds import CommandFacts, CommandLine
from loading import rows_beside

ROWS = rows_beside(__file__)

SECRET, OUTSIDE, INSIDE = "/home/ada/.ssh/id_rsa", "/home/ada/notes.txt", "README.md"
PROGRAMS = lines_of("programs.toml")
# How it is called so that it reads its operand at all.
FRONT = {"grep": "x"}
CONTENT = [name for name, line in PROGRAMS.items() if line["operands"].endswith("content")]
NAMES = [name for name, line in PROGRAMS.items() if line["operands"].endswith("names")]


def called(name: str, path: str) -> str:
    return f"{name} {FRONT.get(name, '')} {path}"


@pytest.mark.parametrize("name", CONTENT)
def test_what_prints_contents_is_judged_by_where_they_lie(world, name):
    world.links["/srv/ws/key"] = SECRET
    said = {
        path: world.say(called(name, path))
        for path in (INSIDE, OUTSIDE, SECRET, "key", "./a/../key", "$x", "~/notes.txt")
    }  # fmt: skip
    assert said.pop(INSIDE) == "nothing"
    assert {said[path] for path in (SECRET, "key", "./a/../key")} == {"deny"}
    assert {said[path] for path in (OUTSIDE, "~/notes.txt", "$x")} <= {"ask", "force"}


@pytest.mark.parametrize("name", NAMES)
def test_what_lists_names_may_do_so_anywhere_but_where_secrets_are(world, name):
    elsewhere = "ask" if PROGRAMS[name].get("inside") else "nothing"
    assert (world.say(called(name, "src")), world.say(called(name, "/usr/share"))) == ("nothing", elsewhere)
    assert world.say(called(name, "/home/ada/.ssh")) != "nothing" != world.say(called(name, SECRET))
    world.links["/srv/ws/there"] = "/home/ada/.ssh"
    assert world.say(called(name, "there")) != "nothing" != world.say(called(name, "$x"))


def test_the_table_is_small():
    assert len(PROGRAMS) <= 40


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_option_that_is_not_listed_is_a_question(world, name):
    """Whatever it may do. What echo and its like do not know, they print."""
    prints = PROGRAMS[name].get("open", False)
    for option in ("--never-heard-of", "--never-heard-of=x", "-@"):
        assert (world.say(f"{name} {option}") == "nothing") == prints, option
        assert (world.say(f"{called(name, INSIDE)} {option}") == "nothing") == prints, option


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_word_that_is_not_literal_is_a_question(world, name):
    """A pattern, a variable or what a command prints could be an option, or any file."""
    prints = PROGRAMS[name].get("open", False)
    for word in ("$x", '"$x"', "$(pwd)", "*", "-$x"):
        assert world.say(f"{name} {word}") != "nothing" or (prints and word != "*"), word


QUIET = ROWS["quiet"]


@given(
    st.sampled_from(QUIET),
    st.sampled_from(
        ["--never-heard-of", "--never-heard-of=/etc/passwd", "--exec=x", "--write=x", "--never -x"]
    ),
)  # fmt: skip
@settings(max_examples=settings().max_examples * 4 // 5)
def test_an_unknown_option_never_leaves_a_quiet_line_quiet(world, line, option):
    program, _, rest = line.partition(" ")
    assert world.say(line) == "nothing"
    assert world.say(f"{program} {option} {rest}") != "nothing" or program == "echo"


@given(
    st.sampled_from(
        [
            "rm x", "make all", "cp a b", "python x.py", "touch a", "npm test", "git push", "sudo ls",
            "curl https://a.example", "cat /etc/hosts",
        ]
    ),
    st.sampled_from(["--help", "-n", "--version", "--dry-run", "--never-heard-of", "-- x", "-v", "''"]),
)  # fmt: skip
@settings(max_examples=settings().max_examples * 3 // 5)
def test_no_appended_word_turns_an_asked_line_quiet(world, line, word):
    assert world.say(line) != "nothing" and world.say(f"{line} {word}") != "nothing"


# What is asked of the machine before a line can be judged: paths, patterns and programs.
ASKED = ROWS["asked"]


@pytest.mark.parametrize(("line", *"rmp"), ASKED, ids=[one[0] for one in ASKED])
def test_what_is_looked_up(world, line, r, m, p):
    asked = wanted(parse_command(line), world.policy, world.rules)
    found = (asked.real, asked.matches, asked.programs)
    assert [set(one) for one in found] == [set(one.split()) for one in (r, m, p)]


class Every(dict):
    """Answers whatever it is asked, and so knows more than was looked up."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def get(self, key, default=None):
        return self.answer(key)

    __getitem__ = get


def test_what_was_looked_up_is_enough(world, tables):
    """Whoever could look at everything there is would say no other word of a line."""
    every = CommandFacts(
        real=Every(world.real),
        matches=Every(world.matches),
        programs=Every(lambda name: None if name in world.missing else f"/usr/bin/{name}"),
    )
    for group in (*tables["ordinary"], *tables["adversarial"]):
        for text in group["lines"]:
            line = parse_command(text)
            if isinstance(line, CommandLine):
                sure = ruling_of(replace(line, facts=every), text, world.policy, world.rules)
                assert ruling_of(world.read(text), text, world.policy, world.rules) == sure, text
