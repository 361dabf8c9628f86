"""What sed, awk and find are told to do, held against the programs; and what each word of an argument vector
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
from leeward.security.command.programs.awk_sed import awk_is_pure, awk_runs, sed_is_pure, sed_runs
from leeward.security.command.programs.find import find_only_looks, find_starts, found_name, search_runs
from leeward.security.command.programs.options import parse_options
from leeward.security.command.syntax.nodes import literal
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


@pytest.mark.parametrize("seed", range(2))
def test_a_pure_sed_program_does_nothing_else(tmp_path, touching, seed):
    """Sed runs it in its sandbox, too, which refuses `e`, `r` and `w`; each that is not pure is near enough
    to one.
    """
    chance, tried, impure = random.Random(seed), 0, 0
    for _ in range(1500):
        program = "".join(chance.choices(SED_PIECES, k=chance.randrange(1, 4)))
        words = tuple(map(literal, ("sed", "-n", program, "in")))
        if not sed_is_pure(words):
            impure += 1
            continue
        tried += 1
        if tried > 70 or not set("ewrWRF") & set(program):
            continue
        assert sed_runs(words) is None, program
        boxed = subprocess.run(
            ["sed", "--sandbox", "-n", program],
            capture_output=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert b"sandbox" not in boxed.stderr, program
        assert effects([shutil.which("sed"), "-n", program, "in"], tmp_path, touching) == [], program
    assert tried > 100 and impure > 100


@pytest.mark.parametrize("seed", range(2))
def test_a_pure_awk_program_does_nothing_else(tmp_path, touching, seed):
    chance, tried = random.Random(seed), 0
    awk = shutil.which("awk")
    if awk is None:
        pytest.skip("there is no awk")
    while tried < 60:
        body = " ".join(chance.choices(AWK_PIECES, k=chance.randrange(1, 6)))
        program = body if chance.random() < 0.3 else f"{{ {body} }}"
        if awk_is_pure(tuple(map(literal, ("awk", program, "in")))):
            tried += 1
            assert effects([awk, program, "in"], tmp_path, touching) == [], program


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


SED = ROWS["sed"]


@pytest.mark.parametrize(("program", "is_pure", "runs"), SED, ids=[repr(one[0]) for one in SED])
def test_what_a_sed_program_does(program, is_pure, runs):
    for line in (
        f"sed {quoted(program)} x", f"sed -n -e {quoted(program)} x", f"sed --expression={quoted(program)} x",
        f"sed -ne{quoted(program)} x" if program else "sed -e '' x",
    ):  # fmt: skip
        words = parse_command(line).root.words
        assert (sed_is_pure(words), sed_runs(words) is not None) == (is_pure, runs), line


@pytest.mark.parametrize(
    ("line", "is_pure"),
    [
        ("sed -i p x", False), ("sed -n p -i x", False), ("sed -f x y", False), ("sed -nf x y", False),
        ("sed --in-place=.b p x", False), ("sed -e p -e w\\ x", False), ("sed -s p x", True),
        ("sed -nEz p x", True), ("sed $x y", False), ("sed p $x", True), ("sed", False),
        ("sed --posix p", True), ("sed --unheard p", False),
    ],
)  # fmt: skip
def test_options_of_sed(line, is_pure):
    assert sed_is_pure(parse_command(line).root.words) == is_pure


# Each of these could be read in as many ways as two multiplied by itself for every bracket, and never ended.
@pytest.mark.parametrize(
    "program",
    [
        "/" + "[]]" * 2000, "/" + "[^]]" * 1500 + "w", "1,/" + "[]]" * 2000, " " * 7000 + "w",
        "1" + " " * 7000 + "w",
    ],
)  # fmt: skip
def test_a_sed_program_of_brackets_is_read_once(program):
    words = (literal("sed"), literal(program), literal("f"))
    assert not sed_is_pure(words)
    sed_runs(words)
    assert parse_command(f"sed '{program}' f") is not None


def test_brackets_in_a_sed_address_are_still_read():
    for program in ("/[]]/p", "/[^]a]/d", "/x[a-z]*y/,/[[:space:]]$/p", "/a/p\n/b/p\n", "1,3 p ; $ d"):
        assert sed_is_pure((literal("sed"), literal(program), literal("f"))), program


AWK = ROWS["awk"]


@pytest.mark.parametrize(("program", "is_pure"), AWK, ids=[one[0] for one in AWK])
def test_what_an_awk_program_does(program, is_pure):
    for line in (
        f"awk {quoted(program)} x", f"awk -F: -v a=b {quoted(program)} x", f"awk -F : {quoted(program)}",
        f"awk -- {quoted(program)}", f"gawk --posix {quoted(program)}",
    ):  # fmt: skip
        assert awk_is_pure(parse_command(line).root.words) == is_pure, line
    for line in (
        f"awk -f x {quoted(program)}", f"awk --unheard {quoted(program)}", "awk $x",
        f"awk -i inplace {quoted(program)}",
    ):  # fmt: skip
        assert not awk_is_pure(parse_command(line).root.words), line
    assert awk_runs(parse_command("awk --unheard p").root.words) is not None


def test_a_bar_of_an_awk_program_may_stand_on_another_line_than_its_print():
    for program in ('BEGIN{print "x" \\\n| "sh"}', 'BEGIN{print 1,\n2 | "sh"}'):
        assert awk_runs(parse_command(f"awk {quoted(program)}").root.words) is not None
    assert awk_runs(parse_command("awk '{print $1} $2 || $3'").root.words) is None


FIND = ROWS["find"]


@pytest.mark.parametrize(("line", "begins", "looks", "runs"), FIND, ids=[one[0] for one in FIND])
def test_what_a_search_does(line, begins, looks, runs):
    words = parse_command(line).root.words
    assert find_only_looks(words[1:]) == looks
    assert [" ".join(word.text for word in one) for one in search_runs(words)[0]] == runs
    assert [word.text for word in find_starts(words[1:])] == begins


def test_the_name_of_what_is_found_is_known_only_where_a_test_says_it():
    (run,), _ = search_runs(parse_command("find . -name '*.py' -exec p {} +").root.words)
    (other,), _ = search_runs(parse_command("find . -name a -o -name b -exec p {} +").root.words)
    assert [found_name(one[-1].parts[-1].text) for one in (run, other)] == ["*.py", ""]


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
