"""What a line can cost is bounded, by counts that come out the same wherever it is read."""

from __future__ import annotations

import itertools
import random
import time

import pytest
import tree_sitter

from leeward.security.command import CommandLine, parse_command
from leeward.security.command.expand import loops
from leeward.security.command.expand import parse as read
from leeward.security.command.expand.parse import MAX_BYTES, MAX_OPERATORS
from leeward.security.command.judge import assessment as weighed
from leeward.security.command.judge import destructive
from leeward.security.command.judge.assessment import outline_of
from leeward.security.kinds import Unreadable
from leeward.security.policy import Policy

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


# Each would be read again 48 times and more, with all that it runs.
HEAVY = [
    "x='" + "ls a;" * 80 + "'; " + "eval $x; " * 60,
    "x='" + "ls;" * 30 + "'; " + "sh -c $x; " * 48,
    "x='" + "ls a " * 60 + "'; " + 'sh -c "$x"; ' * 48,
    "for x in " + "a " * 16 + "; do " + "find $x " + "-exec ls {} \\; " * 30 + "; done",
    "for x in " + "a " * 16 + "; do " + 'env env env env env env sh -c "ls $x"; ' * 8 + "done",
]


@pytest.mark.parametrize("line", HEAVY, ids=[line[:24] for line in HEAVY])
def test_what_is_read_again_is_bounded_by_all_it_holds(monkeypatch, line):
    characters = []

    def counted(command, words):
        found = read.again(command, words)
        inside = (visit.command for visit in loops.visits(found))
        characters.append(sum(len(word.text) for one in inside for word in one.words))
        return found

    monkeypatch.setattr(loops, "again", counted)
    outline = outline_of(parse_command(line), Policy("/srv/ws", "/home/ada"))
    assert sum(characters) < 10_000 and len(characters) <= 64
    assert len(outline.likely) < 400


def test_what_words_hide_is_looked_at_only_so_far(world, monkeypatch):
    looked_at = []

    def counted(at, scene):
        looked_at.append(len(at.command.words) if at.command.program == "rm" else 0)
        return destructive.destruction(at, scene)

    monkeypatch.setattr(weighed, "destruction", counted)
    one = "'rm -rf " + "../a " * 30 + "' "
    assert world.say("foo " + one) == "ask"
    looked_at.clear()
    # Over the limit it counts as one that destroys.
    assert world.say("foo " + one * 45) == "force" and sum(looked_at) < 2 * 1024


def test_what_nothing_sets_may_be_set_outside(world):
    assert world.say("mv /etc/cron.d/y $y") == world.say('mv /etc/cron.d/y "$y"') == "deny"


def notes(line: str) -> str:
    command = parse_command(line).root
    return " ".join(note.reason for note in read.again(command, command.words).notes)


def test_code_that_a_variable_brings_is_read_up_to_a_length():
    assert "longer than" in notes("sh -c 'ls " + "a" * 600 + "'")
    assert notes("sh -c 'ls " + "a" * 400 + "'") == ""
