"""What sed, awk and find are told to run, held against the programs; and what each word of an argument vector
means.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import parse_command
from leeward.security.command.programs.find import find_starts, search_runs
from leeward.security.command.programs.options import parse_options
from leeward.security.command.syntax.nodes import literal
from leeward.security.kinds import CommandLine
from loading import rows_beside

ROWS = rows_beside(__file__)

SED_PIECES = ROWS["sed_pieces"]
AWK_PIECES = ROWS["awk_pieces"]


def effects(argv: list[str], folder, stubs) -> list[str]:
    """What a program left behind or showed that it was not given: files, calls, and the secret."""
    work, log = folder / "work", folder / "log"
    for one in (work, log):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir()
    (work / "in").write_text("a 1\nb 2\na/b 3\n")
    (work / "secret").write_text("hunter2\n")
    alone = {"PATH": str(stubs), "LOG": str(log), "LC_ALL": "C"}
    done = subprocess.run(
        argv, cwd=work, env=alone, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL
    )
    found = [one.name for one in work.iterdir() if one.name not in {"in", "secret"}]
    found += [one.read_text() for one in log.iterdir()]
    return found + (["hunter2"] if b"hunter2" in done.stdout else [])


@pytest.fixture(scope="session")
def touching(stubs):
    """The stubs, with some that a script could run."""
    for name in ("touch", "cat"):
        (stubs / name).unlink(missing_ok=True)
        (stubs / name).symlink_to("stub")
    (stubs / "sh").unlink(missing_ok=True)
    (stubs / "sh").symlink_to("/bin/sh")
    return stubs


def is_plain(*words: str) -> bool:
    """Whether nothing is said against a program in a language of its own."""
    line = parse_command(" ".join(map(quoted, words)))
    return isinstance(line, CommandLine) and line.root.notes == ()


@pytest.mark.parametrize(("program", "pieces"), [("sed", SED_PIECES), ("awk", AWK_PIECES)])
def test_a_program_that_is_called_plain_neither_runs_writes_nor_reads_another_file(
    tmp_path, touching, program, pieces
):
    chance, tried, near = random.Random(7), 0, 0
    path = shutil.which(program)
    for _ in range(4000):
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 4)))
        words = ["-n", text, "in"] if program == "sed" else [text, "in"]
        if not is_plain(program, *words):
            near += 1
            continue
        tried += 1
        if tried <= 80:
            assert effects([path, *words], tmp_path, touching) == [], text
    assert tried > 80 and near > 80


def test_the_programs_here_would_be_seen_to_do_more(tmp_path, touching):
    """The two properties above rest on this."""
    for program in ("w out", "s/a/b/w out", "r secret", "1e touch out", "s/.*/touch out/e"):
        assert effects([shutil.which("sed"), "-n", f"{program}\np", "in"], tmp_path, touching), program
    for program in (
        '{print > "out"}',
        '{system("touch out")}',
        'BEGIN{while((getline l < "secret")>0)print l}',
    ):
        assert effects([shutil.which("awk"), program, "in"], tmp_path, touching), program


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize(("program", "plain"), ROWS["plain"], ids=[repr(one) for _, one in ROWS["plain"]])
def test_which_programs_are_plain(program, plain):
    assert is_plain(program, plain, "x") and is_plain(program, "--", plain)
    assert not is_plain(program, "--unheard", plain) and not is_plain(program, "-f", "/dev/stdin")
    assert parse_command(f"{program} $x y").root.notes != ()


@pytest.mark.parametrize(("program", "other"), ROWS["other"], ids=[repr(one) for _, one in ROWS["other"]])
def test_which_are_not(program, other):
    assert not is_plain(program, other, "x")


# Whatever has to be tried in several ways is tried once for each character.
@pytest.mark.parametrize(
    "text", ["/" + "[]]" * 2000, " " * 7000 + "w", "s/" + "a" * 7000, "print " * 1200 + "|"]
)
def test_a_program_is_read_once(text):
    assert not is_plain("sed", text) or not is_plain("awk", text)


FIND = ROWS["find"]


@pytest.mark.parametrize(("line", "begins", "runs"), FIND, ids=[one[0] for one in FIND])
def test_what_a_search_does(line, begins, runs):
    words = parse_command(line).root.words
    assert [" ".join(word.text for word in one) for one in search_runs(words)[0]] == runs
    assert [word.text for word in find_starts(words[1:])] == begins


DESCRIBED = "-abc -n: -f:content -w? --all --lines: --file:content --color? -#"
PARSED = [
    ("-a", [("-a", None)], []), ("-ab", [("-a", None), ("-b", None)], []), ("-n5", [("-n", "5")], []),
    ("-n 5", [("-n", "5")], []), ("-abn5 x", [("-a", None), ("-b", None), ("-n", "5")], ["x"]),
    ("-an 5 x", [("-a", None), ("-n", "5")], ["x"]), ("-w x", [("-w", None)], ["x"]),
    ("-w3 x", [("-w", "3")], ["x"]), ("-aw3", [("-a", None), ("-w", "3")], []),
    ("--all x", [("--all", None)], ["x"]), ("--lines=5", [("--lines", "5")], []),
    ("--lines 5", [("--lines", "5")], []), ("--lines= x", [("--lines", "")], ["x"]),
    ("--color x", [("--color", None)], ["x"]), ("--color=x", [("--color", "x")], []),
    ("-20 x", [("-#", None)], ["x"]), ("x -a y", [("-a", None)], ["x", "y"]), ("-- -a x", [], ["-a", "x"]),
    ("x -- -a", [], ["x", "-a"]), ("- -a", [("-a", None)], ["-"]), ("-n -- x", [("-n", "--")], ["x"]),
    ("-n -a", [("-n", "-a")], []), ("--file a -f b", [("--file", "a"), ("-f", "b")], []), ("", [], []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "operands"), PARSED, ids=[one[0] for one in PARSED])
def test_options_and_operands(text, options, operands):
    found = parse_options(parse_command(f"p {text}").root.words[1:], DESCRIBED)
    said = [(name, value and value.text) for name, value, _ in found.options]
    assert (said, [word.text for word in found.operands], found.unknown) == (options, operands, None)


@pytest.mark.parametrize(
    "text",
    [
        "-z", "-az", "-za", "--al", "--all=x", "--unheard", "--unheard=x", "-n", "-an", "--lines", "-20a",
        "-a$x", "--file$x", "--all$x", "--Lines=5",
    ],
)  # fmt: skip
def test_what_is_no_known_option_is_said_to_be_unknown(text):
    found = parse_options(parse_command(f"p {text}").root.words[1:], DESCRIBED)
    assert found.unknown is not None and found.unknown.text.startswith(text.partition("$")[0])


def test_an_open_value_stays_one_and_an_open_word_is_no_option():
    found = parse_options(parse_command("p -n$x --lines=$y -f $z $v").root.words[1:], DESCRIBED)
    assert [value.text for _, value, _ in found.options] == ["⟨$x⟩", "⟨$y⟩", "⟨$z⟩"]
    assert [word.text for word in found.operands] == ["⟨$v⟩"] and found.unknown is None


GROUPS = ["-a", "-b", "-n5", "-n 5", "--all", "--lines=5", "--lines 5", "--color", "-w3", "-20", "-f x"]


@given(
    st.lists(st.sampled_from(GROUPS), max_size=4, unique=True),
    st.lists(st.sampled_from(["x", "y", "-"]), max_size=2),
)
@settings(max_examples=settings().max_examples * 3 // 5)
def test_the_order_of_options_says_nothing(groups, operands):
    """Before, behind and between the operands; and where wrappers stop, all behind the first is an
    operand.
    """
    read = set()
    for order in list(permutations([*groups]))[:12]:
        for words in ([*order, *operands], [*operands, *order]):
            text = " ".join(words).split()
            found = parse_options(tuple(map(literal, text)), DESCRIBED)
            assert [word.text for word in found.operands] == operands
            read.add(frozenset((name, value and value.text) for name, value, _ in found.options))
    assert len(read) == 1
    text = tuple(map(literal, " ".join([*operands, *groups]).split()))
    if operands:
        assert parse_options(text, DESCRIBED, stops=True).operands == text


@given(st.permutations("abn"), st.booleans())
@settings(max_examples=settings().max_examples // 5)
def test_bundled_flags_are_those_flags(letters, attached):
    """Behind the one that takes a value everything is its value."""
    before = "".join(letters[: letters.index("n")])
    found = parse_options(
        tuple(map(literal, [f"-{before}n", "v"] if not attached else [f"-{before}nv"])), DESCRIBED
    )
    assert [
        (name, value and value.text) for name, value, _ in found.options
    ] == [*((f"-{letter}", None) for letter in before), ("-n", "v")]  # fmt: skip
