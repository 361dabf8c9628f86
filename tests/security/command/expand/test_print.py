"""The print: what it says, that it can be read again, and that a real bash does the same by it as by the
line.
"""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leeward.security.command import parse_command
from leeward.security.command.expand.visit import commands_of
from leeward.security.kinds import CommandLine
from loading import rows_beside

ROWS = rows_beside(__file__)

WORDS = [
    "a", "'b c'", '"d"', "e\\ f", "''", "-x", "--y=z", '"it\'s"', "'*'", "$'\\t'", "$V", '"$V"', "${V:-u}",
    "$((1+2))", "{a,b}", "~", "~/z", "~/'a b'", "x=~", "a=b", "\\$V", "'$V'", '"a$V"', "é", "'# no'", "a#b",
    "=", "!", "2", "--", '"$(q 1)"', "$(q)", "`q`", "if", "'time'", "[x", "\\\n b", "*", "[p-q]*", "'a'*",
    '"a\\"b\\\\"',
]  # fmt: skip
SIMPLE = st.builds(
    lambda before, name, words, after: " ".join([*before, name, *words, *after]),
    st.lists(st.sampled_from(["V=1", "W='a b'", "V=$(q)", "V+=x", "V=~/'a b'"]), max_size=1),
    st.sampled_from(
        [
            "p", "q", "r", "'p'", "\\q", "true", "false", "command p", "env p", "eval p", "nice q",
            "sh -c 'q; p' x",
        ]
    ),
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(
        st.sampled_from(
            ["> o", "2>&1", ">> o", "<<< 'a b'", "< /dev/null", "> /dev/null", '<<< "$V"', "3>&1", "2> e"]
        ),
        max_size=2,
    ),
)  # fmt: skip
# No function is called: one of the same name inside of it could call itself without end.
FRAMES = ROWS["frames"]
LINES = st.recursive(
    SIMPLE,
    lambda inner: st.builds(
        lambda frame, one, other: frame.format(one, other), st.sampled_from(FRAMES), inner, inner
    ),
    max_leaves=4,
)


def shape(root) -> str:
    """A tree as text, but for how its literal pieces were quoted."""
    literal = r"(LITERAL: 'literal'>, text=(?:'(?:[^'\\]|\\.)*'|\"[^\"]*\"), quoted=)True"
    return re.sub(literal, r"\1False", repr(root))


@given(LINES)
@example("p &> o; q >| o; r 2>&- <&-")
@example("! p; time -p q")
@example("for V; do p $V; done")
@example("f() ( p ) > o; f")
@example("p <<-E\n\ta\n\tE\n")
@settings(max_examples=settings().max_examples * 2)
def test_what_is_printed_reads_as_the_same_tree(line):
    """Not only the same actions: the same tree, so that whatever is judged of one holds for the other."""
    first = parse_command(line)
    if isinstance(first, CommandLine):
        again = parse_command(first.printed)
        assert isinstance(again, CommandLine), (line, first.printed, again)
        assert (again.written, again.printed) == (first.written, first.printed)
        assert shape(again.root) == shape(first.root)


def test_most_such_lines_are_read_and_printed():
    """Without this, the properties here could hold of nothing."""
    read = [parse_command(frame.format("p 'b c' > o", "q $V")) for frame in FRAMES]
    assert [frame for frame, one in zip(FRAMES, read, strict=True) if not isinstance(one, CommandLine)] == []
    words = [parse_command(f"p {word} x") for word in WORDS]
    assert all(isinstance(one, CommandLine) for one in (*read, *words))


def accepted(text: str) -> bool:
    done = subprocess.run(["/bin/bash", "-n", "-c", "--", text], capture_output=True, timeout=20, check=False)
    return done.returncode == 0 and not done.stderr


@given(LINES)
@settings(max_examples=settings().max_examples * 3 // 5)
def test_bash_takes_every_print_for_a_line(line):
    found = parse_command(line)
    if isinstance(found, CommandLine):
        assert accepted(found.printed), (line, found.printed)
    assert not accepted("p 'a") and not accepted("p )")


def foreseen(called: tuple[str, ...], line: CommandLine) -> bool:
    """Whether a call is one of the actions; behind an open word there may be anything, and a note promises
    nothing.
    """
    if any(command.notes for command in commands_of(line.root)):
        return True
    for argv in line.written:
        sure = next((at for at, word in enumerate(argv) if "⟨" in word), None)
        if called == argv or (sure is not None and called[:sure] == argv[:sure]):
            return True
    return False


@given(line=LINES)
@example(line="p ~/z x=~ {a,b}'*' \"$V\" \\\n'#'; V=3; q <<< $V > o; r < o")
@example(line="p <<E | q\n$V '$V' \\$V\nE\nr")
@settings(max_examples=settings().max_examples * 2 // 5, suppress_health_check=list(HealthCheck))
def test_a_real_bash_calls_the_same_programs_by_the_line_and_by_its_print(calls, line):
    found = parse_command(line)
    if isinstance(found, CommandLine):
        by_line, by_print = calls(line), calls(found.printed)
        assert by_line == by_print, (line, found.printed)
        assert [call for call in by_line if not foreseen(call, found)] == []


PRINTED = ROWS["printed"]


@pytest.mark.parametrize(("line", "printed"), PRINTED, ids=[line for line, _ in PRINTED])
def test_what_a_print_says(line, printed):
    assert parse_command(line).printed == printed


@pytest.mark.parametrize(
    "line",
    [
        "find . -name x -exec sh -c 'p {}' \\;",
        "echo a | xargs -I{} p {}",
        "p; xargs q",
        "find . -exec git push \\;",
    ],
)
def test_what_is_given_when_it_runs_does_not_keep_a_line_from_being_printed(line):
    found = parse_command(line)
    assert parse_command(found.printed).root == found.root
