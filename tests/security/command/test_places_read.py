"""Which paths an action reads or lists, program by program, and what comes of each kind of place."""

from __future__ import annotations

import posixpath
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import CommandFacts, CommandLine, parse_command, ruling_of, wanted
from leeward.security.command.programs.tables import table
from loading import rows_beside

ROWS = rows_beside(__file__)

SECRET, OUTSIDE, INSIDE = "/home/ada/.ssh/id_rsa", "/home/ada/notes.txt", "README.md"
PROGRAMS = {
    name: line
    for group, lines in table("programs.toml").items()
    if group != "version"
    for name, line in lines.items()
}
# How each is called so that it reads its operand at all.
FRONT = {
    "awk": "1", "gawk": "1", "mawk": "1", "sed": "p", "grep": "x", "egrep": "x", "fgrep": "x", "rg": "x",
    "ag": "x", "jq": ".", "fd": "x", "fdfind": "x", "gzip": "-l", "unzip": "-l", "xmllint": "--nonet",
    "lsof": "-nP", "cd": "", "tar": "-tf",
}  # fmt: skip
CONTENT = [name for name, line in PROGRAMS.items() if line["operands"].endswith("content")] + ["tar"]
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
    assert world.say(called(name, "src")) == world.say(called(name, "/usr/share")) == "nothing"
    assert world.say(called(name, "/home/ada/.ssh")) != "nothing" != world.say(called(name, SECRET))
    world.links["/srv/ws/there"] = "/home/ada/.ssh"
    assert world.say(called(name, "there")) != "nothing" != world.say(called(name, "$x"))


CONTENT_OPTIONS = [
    (name, token.partition(":")[0]) for name,
    line in PROGRAMS.items() for token in line["options"].split() if token.endswith(":content")
]  # fmt: skip


@pytest.mark.parametrize(("name", "option"), CONTENT_OPTIONS, ids=[" ".join(one) for one in CONTENT_OPTIONS])
def test_a_file_that_an_option_names_is_read_however_it_is_spelled(world, name, option):
    front = "" if name == "tar" else FRONT.get(name, "")
    more = "-t" if name == "tar" else ""
    glued = f"{option}={{}}" if option.startswith("--") else f"{option}{{}}"
    for spelled in (f"{option} {{}}", glued, f"{option} '{{}}'"):
        for path, say in ((SECRET, "deny"), (OUTSIDE, "ask")):
            line = f"{name} {more} {spelled.format(path)} {front if name != 'grep' else ''} {INSIDE}"
            assert world.say(line) == say, line


@pytest.mark.parametrize(
    "name", [name for name, line in PROGRAMS.items() if line["options"] and "check" not in line]
)
def test_an_option_that_is_not_listed_is_a_question(world, name):
    """Whatever it may do. What echo and its like do not know, they print."""
    prints = name in {"echo", "true", "false", ":"}
    for option in ("--never-heard-of", "--never-heard-of=x", "-@"):
        assert (world.say(f"{name} {option}") == "nothing") == prints, option
        assert (world.say(f"{called(name, INSIDE)} {option}") == "nothing") == (
            prints or "quoted" in line_of(name) and "-" not in option
        ), option


def line_of(name: str) -> str:
    return "quoted" if PROGRAMS[name].get("quoted") else ""


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


# What is asked of the machine before a line can be judged: paths, patterns, programs, trees and repositories.
ASKED = ROWS["asked"]


@pytest.mark.parametrize(("line", *"rmpto"), ASKED, ids=[one[0] for one in ASKED])
def test_what_is_looked_up(world, line, r, m, p, t, o):
    asked = wanted(parse_command(line), world.policy, world.rules)
    found = (asked.real, asked.matches, asked.programs, asked.trees, asked.repositories)
    assert [set(one) for one in found] == [set(one.split()) for one in (r, m, p, t, o)]


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
        trees=Every(lambda path: world.below(posixpath.normpath(path))),
        repositories=Every(lambda _: ()),
    )
    for group in (*tables["ordinary"], *tables["adversarial"]):
        for text in group["lines"]:
            line = parse_command(text)
            if isinstance(line, CommandLine):
                sure = ruling_of(replace(line, facts=every), text, world.policy, world.rules)
                assert ruling_of(world.read(text), text, world.policy, world.rules) == sure, text
