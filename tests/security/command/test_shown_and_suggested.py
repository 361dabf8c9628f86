"""What a person is shown of a line, in what order its commands are found, and what is suggested instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.command import Say, explain, is_shown_in_full, parse_command, suggestion_for
from leeward.security.command.expand.visit import commands_of
from leeward.security.kinds import CommandLine
from leeward.security.policy import Policy, ShellRules
from loading import rows_beside

ROWS = rows_beside(__file__)


def suggested(*given):
    found = suggestion_for(*given)
    return found[0] if found is not None else None


def shown(line: str) -> list[str]:
    return list(explain(parse_command(line), line))


# Each command in the order of the text, wherever in the line it is.
COMMANDS = ROWS["commands"]


@pytest.mark.parametrize(("line", "names"), COMMANDS, ids=[line for line, _ in COMMANDS])
def test_every_command_is_found_in_the_order_of_the_text(line, names):
    assert " ".join(one.name or "-" for one in commands_of(parse_command(line).root)) == names


PARTS = [
    "p 'a b'", "cat x > o", "X=1 make", "sudo rm y", "ls $(id -u)", "sh -c 'q; r'",
    "for v in 1 2; do p $v; done", "if p; then q; fi", "curl https://a.example", "! p", "echo 'x\ty\nz'",
    "(cd z && make)", "echo '\u202ea'", "p &", "f() { q; }",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4))
def test_nothing_a_line_does_is_left_out_of_what_is_shown(parts):
    """Every program, every file written and every place reached; and each line of it is one line."""
    line = "\n".join(parts)
    read = parse_command(line)
    if not isinstance(read, CommandLine):
        return
    lines = shown(line)
    text = "\n".join(lines)
    for command in commands_of(read.root):
        assert command.program in text
        for redirection in command.redirections:
            assert f"writes: {redirection.target.text} (" in text
    assert ("connects to: https://a.example" in text) == any("curl" in part for part in parts)
    assert ("sudo changes who runs it" in text) == any("sudo" in part for part in parts)
    assert all(one.isprintable() for one in lines)


@pytest.mark.parametrize(
    ("line", "lines"),
    ROWS["how_a_line_is_shown"],
)
def test_how_a_line_is_shown(line, lines):
    assert shown(line) == lines


@pytest.mark.parametrize(
    ("line", "is_full"),
    [
        ("p", True), ("p " + "a" * 390, True), ("p " + "a" * 400, False),
        ("; ".join(f"p{at}" for at in range(60)), True), ("; ".join(f"p{at}" for at in range(61)), False),
        ("p; " * 80 + "p", True),
    ],
)  # fmt: skip
def test_what_is_shown_at_once(line, is_full):
    assert is_shown_in_full(tuple(shown(line))) == is_full


NEAR = [
    ("sudo cat README.md", "cat README.md"), ("sudo -u x cat README.md", "cat README.md"),
    ("sudo make", None), ("doas ls", "ls"), ("watch ls", "ls"), ("watch 'ls; ls'", None),
    ("rm -rf build", None), ("rm -r .", "git clean -n -d"), ("git clean -fd", "git clean -n -d"),
    ("git push -f origin main", None), ("git restore .", None), ("ls; sudo ls", None),
    ("less README.md", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "instead"), NEAR, ids=[line for line, _ in NEAR])
def test_what_is_suggested_and_where_nothing_is(world, line, instead):
    """Whatever is suggested is milder than the line, or a safer way to the same; the rest has none."""
    found = suggested(world.read(line), world.policy, world.rules)
    assert (found.value if found else None) == instead
    if found is not None and not found.is_safer:
        assert world.ruling(found.value).say < world.ruling(line).say


def test_no_suggestion_is_worse_or_unread(world, tables):
    """For every line of the tables: what is suggested can be read, is judged no stricter, and suggests
    nothing in turn.
    """
    seen = 0
    for group in (*tables["ordinary"], *tables["adversarial"]):
        for line in group["lines"]:
            read = world.read(line)
            found = suggested(read, world.policy, world.rules) if isinstance(read, CommandLine) else None
            if found is not None and found.tool == "shell" and group["say"] != "nothing":
                seen += 1
                said = world.ruling(found.value).say
                assert said == Say.NOTHING or said < world.ruling(line).say or found.is_safer, (
                    line,
                    found.value,
                )
                again = suggested(world.read(found.value), world.policy, world.rules)
                assert again is None or again.value != line, (line, found.value)
    assert seen > 5


def test_a_suggestion_is_held_against_the_persons_own_rules(world):
    assert suggested(world.read("sudo cat README.md"), world.policy, world.rules) is not None
    for rules, policy in [
        (ShellRules(blocked=("cat",)), world.policy),
        (world.rules, Policy("/srv/ws", "/home/ada", secret_paths=("/srv/ws/README.md",))),
    ]:  # fmt: skip
        world.rules, world.policy = rules, policy
        assert suggested(world.read("sudo cat README.md"), policy, rules) is None


BOMBS = [
    ":(){ :|:& };:", "b(){ b|b& }; b", "b () { b | b & } ; b", "function b { b & b; }; b",
    "sh -c 'b(){ b|b& };b'", "eval ':(){ :|:& };:'", "if x; then b(){ b & b; }; b; fi",
]  # fmt: skip
HARMLESS = [
    "b(){ p | q; }; b", "b(){ b; }", "b(){ c|c & }; b", "while true; do p; done",
    "while true; do p & wait; done", "while true; do p & sleep 1; done", "while p; do q & done",
    "for x in a b; do p & done", "p & q &", "echo ':(){ :|:& };:'", "grep 'b(){ b|b& }' x",
]  # fmt: skip


@pytest.mark.parametrize("line", BOMBS)
def test_what_starts_itself_without_end_is_refused(world, line):
    ruling = world.ruling(line)
    assert ruling.say == Say.DENY and ruling.rule == "destructive"


@pytest.mark.parametrize("line", HARMLESS)
def test_what_ends_is_not(world, line):
    assert world.ruling(line).say != Say.DENY
