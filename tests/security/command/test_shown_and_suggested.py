"""What a person is shown of a line, the contexts its commands stand in, and what is suggested instead."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import (
    CommandLine,
    Say,
    explain,
    is_shown_in_full,
    parse_command,
    suggestions_for,
)
from leeward.security.command.expand.visit import visits
from leeward.security.command.judge.assessment import looks_like_bomb
from leeward.security.policy import Policy, ShellRules
from loading import rows_beside

ROWS = rows_beside(__file__)


def first_suggestion(*given):
    return next((found for found, _ in suggestions_for(*given)), None)


def shown(line: str) -> list[str]:
    return list(explain(parse_command(line), line))


# Each command with everything around it, the outermost first.
CONTEXTS = ROWS["contexts"]


@pytest.mark.parametrize(("line", "contexts"), CONTEXTS, ids=[line for line, _ in CONTEXTS])
def test_what_stands_around_each_command(line, contexts):
    found = [
        f"{one.command.name}: {', '.join(one.context)}".rstrip() for one in visits(parse_command(line).root)
    ]
    assert found == contexts


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
    for visit in visits(read.root):
        assert visit.command.program in text
        for redirection in visit.command.redirections:
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
    ("tail -n 3 -f app.log", "tail -n 3 app.log"), ("tail --follow app.log", "tail app.log"),
    ("less -N README.md", "cat -- README.md"),
    ("more README.md docs/guide.md", "cat -- README.md docs/guide.md"),
    ("vim +3 src/main.py", "cat -- src/main.py"), ("nano '-x'", None), ("less", None),
    ("less ~/.ssh/id_rsa", None), ("less link-to-secret", None), ("less $x", None),
    ("grep -R x ~/.ssh", None), ("grep -Rl x src", "grep -rl x src"),
    ("grep --dereference-recursive x src", None), ("find src -name x -delete", "find src -name x"),
    ("find src -type f -exec rm {} +", "find src -type f"), ("find . -fprint x", None),
    ("sudo cat README.md", "cat README.md"), ("sudo -u x cat README.md", "cat README.md"),
    ("sudo make", None), ("doas ls", "ls"), ("watch ls", "ls"), ("watch 'ls; ls'", None),
    ("rm -rf .git/worktrees/a b", None), ("rm -rf .git/worktrees", None), ("rm -rf build", None),
    ("rm -r .", "git clean -n -d"), ("git clean -fd", "git clean -n -d"),
    ("git push -f origin main", "git push --force-with-lease origin main"),
    ("git push --force-with-lease", None), ("git push -u origin", None), ("git reset --hard HEAD~1", None),
    ("git restore .", "git stash"), ("git checkout -- .", "git stash"), ("git checkout a", None),
    ("git reset HEAD a b", "git restore --staged -- a b"), ("git reset --soft HEAD", None),
    ("git reset", None), ("unzip -o a.zip", "unzip -l a.zip"), ("unzip", None),
    ("tar -xvf a.tar -C /tmp", "tar -tf a.tar"), ("tar -cf a.tar x", None), ("tar xf a", None),
    ("tar --extract -f a.tar", None), ("sort -o x README.md", "sort README.md"), ("sort README.md", None),
    ("sort -o", None), ("man -k ls", None), ("man ls", "whatis ls"), ("top -d 1", "top -b -n 1"),
    ("ls; less README.md", None), ("less README.md > o", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "instead"), NEAR, ids=[line for line, _ in NEAR])
def test_what_is_suggested_and_where_nothing_is(world, line, instead):
    """Whatever is suggested is milder than the line, or a safer way to the same; the rest has none."""
    found = first_suggestion(world.read(line), world.policy, world.rules)
    if line == "less README.md > o":
        instead = found and found.value  # a redirection is what the line is for; either is right
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
            found = (
                first_suggestion(read, world.policy, world.rules) if isinstance(read, CommandLine) else None
            )
            if found is not None and found.tool == "shell" and group["say"] != "nothing":
                seen += 1
                said = world.ruling(found.value).say
                assert said == Say.NOTHING or said < world.ruling(line).say or found.is_safer, (
                    line,
                    found.value,
                )
                again = first_suggestion(world.read(found.value), world.policy, world.rules)
                assert again is None or again.value != line, (line, found.value)
    assert seen > 5


def test_a_suggestion_is_held_against_the_persons_own_rules(world):
    assert first_suggestion(world.read("less README.md"), world.policy, world.rules) is not None
    for rules, policy in [
        (ShellRules(blocked=("cat",)), world.policy),
        (world.rules, Policy("/srv/ws", "/home/ada", secret_paths=("/srv/ws/README.md",))),
    ]:  # fmt: skip
        world.rules, world.policy = rules, policy
        assert first_suggestion(world.read("less README.md"), policy, rules) is None


BOMBS = [
    ":(){ :|:& };:", "b(){ b|b& }; b", "b () { b | b & } ; b", "function b { b & b; }; b",
    "a(){ b|b; }; b(){ a& }; a", "while true; do make & done", "until false; do p & done",
    "while :; do p & q & done", "sh -c 'b(){ b|b& };b'", "eval ':(){ :|:& };:'",
    "if x; then while true; do p & done; fi",
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


@given(
    st.sampled_from(["b", ":", "bomb_1", "a-b"]), st.sampled_from(["(){", "() {", "( ) { "]),
    st.sampled_from(["|", " | ", "&", " |& "]),
)  # fmt: skip
@settings(max_examples=settings().max_examples * 2 // 5)
def test_a_bomb_that_cannot_be_read_is_seen_all_the_same(world, name, opens, joins):
    text = f"{name}{opens} {name}{joins}{name} & }}; {name} '"
    assert looks_like_bomb(text) and world.say(text) == "deny"
    other = text.replace(f"{joins}{name}", f"{joins}other")
    assert not looks_like_bomb(other)
