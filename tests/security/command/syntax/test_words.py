"""Quote removal, expansions and braces, held against what a real bash makes of the same words."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.security.command import parse_command
from leeward.security.command.syntax.nodes import PartKind
from leeward.security.kinds import CommandLine, Unreadable
from loading import rows_beside

ROWS = rows_beside(__file__)


def words_of(line: str):
    found = parse_command(line)
    assert isinstance(found, CommandLine), (line, found)
    return found.root.words[1:]


def bash_words(lines: list[str]) -> list[list[str]]:
    """What bash hands to a program for each of these lists of words, in one run."""
    script = "set -f; show() { printf '%s\\0' \"$@\"; printf '\\1\\0'; }\n" + "".join(
        f"show x {line}\n" for line in lines
    )
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", "--", script], capture_output=True, timeout=30, check=True,
        env={"LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    found: list[list[str]] = [[]]
    for word in done.stdout.decode().split("\0")[:-1]:
        if word == "\1":
            found.append([])
        else:
            found[-1].append(word)
    return [one[1:] for one in found[:-1]]


# Lists of words that are literal to the end, whatever marks stand in them.
SPELLED = ROWS["spelled"]


def test_quote_removal_is_bashs_own():
    ours = [[word.text for word in words_of(f"x {line}")] for line in SPELLED]
    wrong = [
        (line, mine, theirs)
        for line, mine, theirs in zip(SPELLED, ours, bash_words(SPELLED), strict=True)
        if mine != theirs
    ]
    assert wrong == []


def test_what_is_literal_is_told_apart_from_what_is_not():
    assert [line for line in SPELLED if not all(word.is_literal for word in words_of(f"x {line}"))] == []


PLAIN = st.text(
    st.sampled_from("ab1 '\"\\$`*?[]{},~#!;|&<>()=\n\té漢-/.^%@:+"), min_size=0, max_size=12
).filter(
    lambda text: "\\\n" not in text  # what is continued is not read, in quotes either
)


def single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    return '"' + "".join(f"\\{char}" if char in '"\\$`' else char for char in text) + '"'


def escaped(text: str) -> str:
    return "".join("'\n'" if char == "\n" else f"\\{char}" for char in text) or "''"


def ansi(text: str) -> str:
    return "$'" + "".join(f"\\x{byte:02x}" for byte in text.encode()) + "'"


def ansi_octal(text: str) -> str:
    return "$'" + "".join(f"\\{byte:03o}" for byte in text.encode()) + "'"


WAYS = (single, double, escaped, ansi, ansi_octal)


@given(PLAIN, st.lists(st.sampled_from(WAYS), min_size=1, max_size=4), st.data())
@example("rm", [ansi], None)
@example("a'b", [single, double], None)
def test_a_word_quoted_in_any_of_bashs_ways_is_the_same_word(text, ways, data):
    """Cut anywhere, each piece quoted in another way: one literal word, and its print is one too."""
    pieces, rest = [], text
    for way in ways[:-1]:
        at = data.draw(st.integers(0, len(rest))) if data is not None else len(rest) // 2
        pieces.append(way(rest[:at]))
        rest = rest[at:]
    line = "x " + "".join(pieces) + ways[-1](rest) + " ."  # the grammar knows no escaped blank at the end
    found = parse_command(line)
    assert isinstance(found, CommandLine), (line, found)
    assert found.actions == (("x", text, "."),) and found.root.words[1].is_literal
    assert bash_words([found.printed.removeprefix("x ")]) == [[text, "."]]


@given(st.lists(PLAIN, min_size=1, max_size=3), st.sampled_from(WAYS))
@settings(max_examples=settings().max_examples * 2 // 5)
def test_what_is_quoted_runs_as_a_program_of_that_name(names, way):
    """In command position, too: no quoted text becomes a keyword, an assignment or two words."""
    if names[0]:
        found = parse_command(" ".join(map(way, names)))
        # The grammar does not know every place where an escaped blank may stand.
        assert way is escaped if isinstance(found, Unreadable) else found.written == (tuple(names),)


# An open word, and its pieces: what each is, its text, and `"` where the shell neither splits nor expands it.
PIECES = ROWS["pieces"]


@pytest.mark.parametrize(("text", "pieces"), PIECES, ids=[text for text, _ in PIECES])
def test_the_pieces_of_an_open_word(text, pieces):
    (word,) = words_of(f"x {text}")
    quoted = {PartKind.VARIABLE, PartKind.EXPANSION, PartKind.ARITHMETIC, PartKind.SUBSTITUTION}
    assert [f"{part.kind} {part.text}" for part in word.parts] == [
        piece.rstrip('"') for piece in pieces.split(", ")
    ]
    marks = [part.quoted for part in word.parts if part.kind in quoted]
    assert marks == [
        piece.endswith('"')
        for piece in pieces.split(", ")
        if any(piece.startswith(str(kind)) for kind in quoted)
    ]


# What stands open, and what looks like it and is text: an `a` for each, or they would be one word.
@pytest.mark.parametrize(
    ("text", "is_open"),
    ROWS["what_looks_open_and_is_text"],
)
def test_what_looks_open_and_is_text(text, is_open):
    (word,) = words_of(f"x {text}")
    assert word.is_literal != is_open


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("x " + "a " * 255, True), ("x " + "a " * 256, False), ("x " + "'a'" * 2000, True),
        ("x " + "$a" * 255, True), ("x " + "$a" * 256, False), ('x "' + "$a" * 254 + '"', True),
        ('x "' + "$a" * 256 + '"', False), ("x {1..240}", True), ("x {1..257}", False),
        ("x {1..15}{1..15}", True), ("x {1..16}{1..17}", False),
    ],
)  # fmt: skip
def test_there_are_only_so_many_words_and_pieces(line, size):
    assert isinstance(parse_command(line), CommandLine if size else Unreadable)
