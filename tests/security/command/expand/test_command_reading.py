"""From text to actions: quote removal, structure, everything known to fool a reader, and the limits."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.security.command import parse_command
from leeward.security.command.expand import parse as read
from leeward.security.command.expand.parse import MAX_BYTES, MAX_OPERATORS
from leeward.security.kinds import CommandLine, Unreadable
from loading import rows_beside

ROWS = rows_beside(__file__)


def actions(line: str) -> list[str]:
    found = parse_command(line)
    assert isinstance(found, CommandLine), (line, found)
    return [" ".join(argv) for argv in found.written]


# A line, and the words of its first action.
WORDS = [
    ("ls", ["ls"]),
    ("  ls\t-l  ", ["ls", "-l"]),
    ("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
    ("a '' \"\"", ["a", "", ""]),
    ("r\\m 'r'm \"r\"m r''m", ["rm", "rm", "rm", "rm"]),
    ('a "b\\"c\\$d\\\\e\\f\\`"', ["a", 'b"c$d\\e\\f`']),
    ("a $'\\x72\\155' $'\\u00e9\\t\\'x' $'\\cA'", ["a", "rm", "é\t'x", "\x01"]),
    ('a $"b"', ["a", "b"]),
    ("a 'é漢' \"ü\" ß", ["a", "é漢", "ü", "ß"]),
    ("a \"b\nc\" 'd\ne'", ["a", "b\nc", "d\ne"]),
    ('a "b\\\n c" \\\n d', ["a", "b c", "d"]),
    (
        "a {b,c}d{e,f} {1..3} {c..a} x{,y}",
        ["a", "bde", "bdf", "cde", "cdf", "1", "2", "3", "c", "b", "a", "x", "xy"],
    ),
    (
        "a {b {b} {} b} '{b,c}' {a,'b c'} {{a,b},c}",
        ["a", "{b", "{b}", "{}", "b}", "{b,c}", "a", "b c", "a", "b", "c"],
    ),
    ("a b#c x=y -o=z :", ["a", "b#c", "x=y", "-o=z", ":"]),
    ("a *.py ?[a-z]* '*.py' \\*", ["a", "⟨*⟩.py", "⟨?⟩⟨[a-z]⟩⟨*⟩", "*.py", "*"]),
    (
        "a ~ ~/b ~c/d a~b '~' b=~/c --x=~/y x:~",
        ["a", "⟨~⟩", "⟨~⟩/b", "⟨~c⟩/d", "a~b", "~", "b=⟨~⟩/c", "--x=~/y", "x:~"],
    ),
    (
        'a $b ${c} "$d" "x${e}y" \'$f\' \\$g $1 $? $#',
        ["a", "⟨$b⟩", "⟨$c⟩", "⟨$d⟩", "x⟨$e⟩y", "$f", "$g", "⟨$1⟩", "⟨$?⟩", "⟨$#⟩"],
    ),
    (
        "a ${b:-c} ${d%.x} ${#e} ${f//a/b} ${g:1:2}",
        ["a", "⟨${b:-c}⟩", "⟨${d%.x}⟩", "⟨${#e}⟩", "⟨${f//a/b}⟩", "⟨${g:1:2}⟩"],
    ),
    ("a $((1 + 2)) $((0xfF*2)) $ $'' \"$\"", ["a", "⟨$((1 + 2))⟩", "⟨$((0xfF*2))⟩", "$", "", "$"]),
    ("a '⟨b⟩' ⟨c⟩$d", ["a", "⟨b⟩", "⟨⟨⟩c⟩⟨$d⟩"]),
    ("[ -f 'a b' ]", ["[", "-f", "a b", "]"]),
    ("export A=1 'B=c d'", ["export", "A=1", "B=c d"]),
]


@pytest.mark.parametrize(("line", "words"), WORDS, ids=[line for line, _ in WORDS])
def test_a_line_is_read_into_the_words_a_shell_makes_of_it(line, words):
    found = parse_command(line)
    assert isinstance(found, CommandLine) and list(found.actions[0]) == words


# A line, and everything that runs, is assigned or redirected in it.
STRUCTURE = [
    ("a b; c & d && e || f | g |& h\ni", ["a b", "c", "d", "e", "f", "g", "h", "i"]),
    ("a > f 2>&1 < g >> h &> i >| j 2>/dev/null 3<&- >&2", ["a", "> f", "< g", "> h", "> i", "> j"]),
    ("> f a b", ["a b", "> f"]),
    ("a > f b", ["a b", "> f"]),
    ("a | b > f", ["a", "b", "> f"]),
    ("a && b > f", ["a", "b", "> f"]),
    ("X=1 Y='2 3' a", ["a", "X=1", "Y=2 3"]),
    ("LC_ALL=C a", ["a"]),
    ("x=1; y+=2", ["x=1", "y+=2"]),
    ("(a; b) > f", ["> f", "a", "b"]),
    ("{ a; b; } | c", ["a", "b", "c"]),
    ("! a && time -p b | c", ["a", "b", "c"]),
    ("if a; then b; elif c; then d; else e; fi", list("abcde")),
    ("while a; do b; done < f; until c\ndo d\ndone", ["< f", "a", "b", "c", "d"]),
    ("for x in 1 $(a); do b $x; done; for y; do c; done", ["a", "b ⟨$x⟩", "c"]),
    ("case $(a) in b|c) d;; (*) e;; esac", ["a", "d", "e"]),
    ("f() { a; }; function g { b; }\nh() ( c )", ["a", "b", "c"]),
    (
        'a $(b $(c)) `d` "$(e)" <(f) >(g)',
        ["a ⟨$(…)⟩ ⟨$(…)⟩ ⟨$(…)⟩ ⟨<(…)⟩ ⟨>(…)⟩", "b ⟨$(…)⟩", "c", "d", "e", "f", "g"],
    ),
    ("x=$(a) b > $(c)", ["b", "x=⟨$(…)⟩", "> ⟨$(…)⟩", "a", "c"]),
    ("a $(<f)", ["a ⟨$(…)⟩", "< f"]),
    ("[[ -n $(a) && b == c* ]] && d", ["a", "d"]),
    ('a <<< "$(b)"', ["a", "b"]),
    ("a <<E | b && c\nx $(d) 'e'\nE\nf", ["a", "d", "b", "c", "f"]),
    ("a <<'E' > f\n$(b) `c`\nE", ["a", "> f"]),
    ("a <<-E\n\tx\n\tE\nb", ["a", "b"]),
    ("a # b; c\nd", ["a", "d"]),
    ("a \\\n b \\\n| c", ["a b", "c"]),
    ("a;", ["a"]),
    ("a; a; a", ["a"]),
]


@pytest.mark.parametrize(("line", "expected"), STRUCTURE, ids=[line for line, _ in STRUCTURE])
def test_everything_that_runs_is_assigned_or_redirected_is_found(line, expected):
    assert actions(line) == expected


# Whatever fooled a reader once. None of these may be read as something it is not.
UNREAD = [*ROWS["unread"], "\ud800"]


@pytest.mark.parametrize("line", UNREAD, ids=[repr(line) for line in UNREAD])
def test_what_fooled_a_reader_once_is_not_read(line):
    assert isinstance(parse_command(line), Unreadable)


def test_limits_are_counted_before_anything_is_parsed(monkeypatch):
    monkeypatch.setattr(read, "_read", lambda *_: pytest.fail("it was parsed"))
    for line in (
        "a" * (MAX_BYTES + 1),
        "é" * (MAX_BYTES // 2 + 1),
        "a|" * (MAX_OPERATORS + 1),
        "$(" * 10_000,
        "a\n" * 300,
        "`" * 300,
        "a " + "(" * 10_000,
    ):
        assert isinstance(parse_command(line), Unreadable)


FOREIGN = """
from leeward.security.command import parse_command
for around in "{%s", "[[ -%s x ]]", "cat <<E\\n$%s\\nE", "x[%s", "{1..%s}":
    for code in range(0x100, 0x110000, 0x155):
        if not 0xD800 <= code <= 0xDFFF:
            parse_command(around % chr(code))
print("alive")
"""


def test_no_character_ends_the_process():
    # Where the grammar looks behind the end of its table, it is not the same in every process.
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", FOREIGN], capture_output=True, text=True, timeout=60)
        assert done.stdout == "alive\n", done.returncode


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("x한=1 ls", ("x한=1", "ls")),
        ("é=1 ls", ("é=1", "ls")),
        ('echo "$x한"', ("echo", "⟨$x⟩한")),
        ("echo {文,件}.md", ("echo", "文.md", "件.md")),
        ("echo 😀'한'\"é\"a", ("echo", "😀한éa")),
    ],
)
def test_what_is_not_ascii_is_a_part_of_a_word(line, argv):
    assert parse_command(line).actions == (argv,)


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("git commit -F - <<'E'\nhi - <<x\nE", ("git", "commit", "-F", "-")),
        ("cat - <<E\nhi\nE", ("cat", "-")),
        ("cat -  <<-E\nhi\nE", ("cat", "-")),
        ("cat a- <<E\nhi\nE", ("cat", "a-")),
        ("cat - <<< - ", ("cat", "-")),
        ("echo 'a - <<E'", ("echo", "a - <<E")),
        ("cat \\ - <<E\nhi\nE", ("cat", " -")),
    ],
)
def test_a_dash_in_front_of_a_here_document_is_a_word(line, argv):
    assert parse_command(line).actions == (argv,)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_grammar_is_given_text_of_the_same_length_that_it_stands(line):
    given_text = read._Source(line).text
    assert len(given_text) == len(line.encode()) and all(ord(one) < 0x100 for one in given_text.decode())
    assert [one for one in given_text.decode() if one.isascii() and one not in "a-"] == [
        one for one in line if one.isascii() and one not in "a-"
    ]


def test_what_is_within_the_limits_is_walked_without_deep_recursion():
    for line in (
        "$(" * 85 + "a" + ")" * 85,
        "(" * 120 + "a" + ")" * 120,
        "! " * 4000 + "a",
        "if a; then " * 60 + "b" + "; fi" * 60,
        "sudo " * 1000,
        "nice " * 300 + "rm x",
        "find . -exec " * 200,
        "{a,b}" * 30,
        "a" * MAX_BYTES,
        "\\x" * 4000,
        "eval " * 200,
    ):
        parse_command(line)
    assert actions("a" + " | b" * 255)[1] == "b" and actions("$(" * 6 + "a" + ")" * 6)[-1] == "a"


TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Lo", "Mn", "So"]),
    max_size=20,
)


@given(st.lists(TEXT, min_size=1, max_size=5))
@example(["if"])
@example(["a=b", "c"])
@example(["~", "~/x", "*", "{a,b}", "$(rm)", "`x`", "-", ""])
@example(["time", "x"])
@example(["2", ">f"])
@settings(max_examples=settings().max_examples * 2)
def test_what_is_printed_is_what_was_meant(argv):
    """Quoted by anybody, read, printed and read again, an argument vector stays the same."""
    first = parse_command("'x' " + shlex.join(argv))
    assert isinstance(first, CommandLine) and first.actions[0] == ("x", *argv)
    assert parse_command(first.printed).actions == first.actions


@pytest.mark.parametrize("line", [line for line, _ in (*WORDS, *STRUCTURE)])
def test_the_print_is_a_fixed_point(line):
    first = parse_command(line)
    assert isinstance(first, CommandLine)
    again = parse_command(first.printed.replace("\x01", ""))
    first = parse_command(line.replace("\\cA", ""))
    assert isinstance(again, CommandLine) and (again.actions, again.printed) == (first.actions, first.printed)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("r\\m 'a b'  \"c\"", "rm 'a b' c"),
        ("ls *.py ~/x '*.py' $x \"$y\"", "ls *.py ~/x '*.py' ${x} \"${y}\""),
        ("'if' a", "'if' a"),
        ("'X=1' a", "'X=1' a"),
        ("a;b&&c|d>e 2>&1&", "a; b && c | d > e 2>&1 &"),
        ("cat <<E\na b\nE\n", "cat <<< 'a b'"),
        ("sh -c \"r\\\\m  'x'\"", "sh -c 'rm x'"),
        ("eval a  'b  c'", "eval 'a b c'"),
        ('for x in a b\ndo c "$x"\ndone', 'for x in a b ; do c "${x}"; done'),
        ("echo ~/'a b'", "echo ~/a' 'b"),
    ],
)
def test_a_line_is_printed_in_one_plain_spelling(line, printed):
    assert parse_command(line).printed == printed
