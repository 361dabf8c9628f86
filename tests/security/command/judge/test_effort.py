"""What a line can cost is bounded, by counts that come out the same wherever it is read."""

from __future__ import annotations

import itertools
import random
import time

import pytest
import tree_sitter

from leeward.security.command import parse_command
from leeward.security.command.expand import parse as read
from leeward.security.command.expand.parse import MAX_BYTES, MAX_OPERATORS
from leeward.security.kinds import CommandLine, Unreadable

TOO_MUCH = Unreadable(read._TOO_MUCH)

# The parser goes over all that is left of these again and again.
LOST = [
    "a@" * 4000, "a?" * 4000, "@a" * 4000, "a@ " + "#" * 8000, "((" + "=]" * 4000, "${x" + "~" * 8000,
    "${x" + ", " * 2500,
]  # fmt: skip


@pytest.fixture
def sources(monkeypatch) -> list:
    """What was handed to the parser, and how many pieces of it were read."""
    made = []

    class Counted(read._Source):
        def __init__(self, text: bytes) -> None:
            super().__init__(text)
            self.pieces = 0
            made.append(self)

        def piece(self, offset, point):
            self.pieces += 1
            return super().piece(offset, point)

    monkeypatch.setattr(read, "_Source", Counted)
    return made


@pytest.mark.parametrize("line", LOST, ids=[line[:8] for line in LOST])
def test_the_parser_is_stopped_behind_an_error(sources, line):
    assert parse_command(line[:MAX_BYTES]) == TOO_MUCH
    # It asks whether to go on after every hundred steps, and reads all that is left in each of them.
    assert sources[0].is_spent and sources[0].pieces < 20_000


def test_each_count_stops_the_parser_by_itself(monkeypatch):
    line = "ls" + " a" * 2000
    assert isinstance(parse_command(line), CommandLine) or "words" in parse_command(line).reason
    for count in ("reads_left", "checks_left"):

        class Spent(read._Source):
            def __init__(self, text, count=count):
                super().__init__(text)
                setattr(self, count, 0)

        monkeypatch.setattr(read, "_Source", Spent)
        assert parse_command(line) == TOO_MUCH
        monkeypatch.undo()


def test_a_line_is_read_the_same_however_slow_the_machine_is(monkeypatch):
    """A clock that leaps a minute at each look changes no verdict: nobody looks at one."""
    lines = ["ls" + " a" * 200, "a@" * 4000, "((" + "=]" * 4000, "ls; " * 60]
    before = list(map(parse_command, lines))
    moment = itertools.count(0, 60)
    for clock in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(time, clock, lambda: float(next(moment)))
    assert list(map(parse_command, lines)) == before


def test_no_line_without_an_error_is_lost(sources, tables):
    texts = [line for groups in tables.values() for group in groups for line in group["lines"]]
    chance, found = random.Random(5), 0
    for _ in range(150):
        picked = chance.sample(texts, chance.choice((1, 2, 9)))
        line, joint = picked[0], chance.choice(("; ", " | ", " && ", "\n"))
        while len(line) < 6000 and len(read._OPERATOR.findall(line)) < MAX_OPERATORS - 40:
            line += joint + chance.choice(picked)
        sources.clear()
        parse_command(line)
        parsed = tree_sitter.Parser(read._LANGUAGE).parse(line.encode()) if sources else None
        if parsed is not None and not parsed.root_node.has_error:
            found += 1
            assert not sources[0].is_spent, line
    assert found > 50


WIDE = [
    "[[ " + "a " * 600, "[[ -n a " + "1 " * 600 + "]]", "[[ -n x ]] [[ " + "a" * 1100, "x[" + "1" * 1100,
    "a[" + "$" * 200 + "ab" * 600, "a x[1]=2 b[" + "c " * 600 + "]", "$((if " + "? ~\t" * 300,
    "echo $((1" + "+1" * 600 + "))",
]  # fmt: skip
NEAR = [
    "[[ -n a ]] && ls " + "a " * 200, "grep '[[:space:]]' " + "a" * 3000, "echo 'a[1]' " + "b" * 3000,
    "ls " + "[a]" * 60 + " " + "c" * 3000, "echo ']] [ ]' " + "d" * 3000, "[ -n a ] && ls " + "e" * 3000,
    "echo $((1+1)) " + "f" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("line", WIDE, ids=[line[:12] for line in WIDE])
def test_brackets_that_go_on_are_not_parsed(sources, line):
    assert "brackets" in parse_command(line).reason and sources == []


@pytest.mark.parametrize("line", NEAR, ids=[line[:12] for line in NEAR])
def test_brackets_that_end_are(line):
    assert isinstance(parse_command(line), CommandLine)


def test_what_braces_multiply_is_bounded_for_the_line_and_not_for_each_word():
    assert isinstance(parse_command("ls {1..250}"), CommandLine)
    assert isinstance(parse_command("ls {a,b}{c,d} {1..100} x{e,f}"), CommandLine)
    assert isinstance(parse_command("ls {1..250} {1..250}"), Unreadable)
    assert isinstance(parse_command("ls " + "{a,b}{a,b}{a,b}{a,b}{a,b} " * 20), Unreadable)


def test_a_part_of_the_system_is_moved_nowhere(world):
    assert world.say("mv /etc/cron.d/y $y") == world.say('mv /etc/cron.d/y "$y"') == "deny"
