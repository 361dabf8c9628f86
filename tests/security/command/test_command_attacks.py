"""What a hostile reader found: values that become options, wrappers that hide, prints that are not what was
judged.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tree_sitter

from leeward.security.command import CommandLine, parse_command
from leeward.security.command.expand import loops
from leeward.security.command.expand import parse as read
from leeward.security.command.expand.visit import nodes, visits
from leeward.security.command.judge import assessment as bombs
from leeward.security.command.syntax.grammar import read_tree
from leeward.security.command.syntax.nodes import Command, Unread
from leeward.security.command.syntax.words import Effort
from leeward.security.policy import ShellRules


def line(text: str) -> CommandLine:
    found = parse_command(text)
    assert isinstance(found, CommandLine), (text, found)
    return found


# How a deny rule sees a line: each action as it stands, and again as somebody would forbid it.
FORMS = [
    ("git -C . push", [("git", "-C", ".", "push")], [("git", "push")]),
    ("/usr/bin/git push", [("/usr/bin/git", "push")], [("git", "push")]),
    (
        "git -c a.b=c --no-pager push x",
        [("git", "-c", "a.b=c", "--no-pager", "push", "x")],
        [("git", "push", "x")],
    ),
    ("git --git-dir x push", [("git", "--git-dir", "x", "push")], [("git", "push")]),
    ("command git push", [("command", "git", "push"), ("git", "push")], []),
    ("env rm x", [("env", "rm", "x"), ("rm", "x")], []),
    (
        "bash -c 'git -C / push'",
        [("bash", "-c", "git -C / push"), ("git", "-C", "/", "push")],
        [("git", "push")],
    ),
    ("python3 -m pip install x", [("python3", "-m", "pip", "install", "x")], [("pip", "install", "x")]),
    (
        "kubectl -n prod delete x",
        [("kubectl", "-n", "prod", "delete", "x")],
        [("kubectl", "prod", "delete", "x"), ("kubectl", "delete", "x")],
    ),
    ("npm --prefix=a run b", [("npm", "--prefix=a", "run", "b")], [("npm", "run", "b")]),
    ("git push; git -C . push", [("git", "push"), ("git", "-C", ".", "push")], []),
    ("ls -la src", [("ls", "-la", "src")], []),
]


@pytest.mark.parametrize(("text", "said", "again"), FORMS, ids=[text for text, _, _ in FORMS])
def test_actions_are_said_once_more_as_they_would_be_forbidden(text, said, again):
    found = line(text)
    assert (list(found.said), set(found.restated)) == (said, set(again))
    assert set(found.actions) == {*said, *again} and set(found.open_actions) == set(said)


@pytest.mark.parametrize(
    "text",
    [
        "env rm x",
        "git -C . push",
        "git -c a.b=c push",
        "command git push",
        "/usr/bin/git push",
        "xargs git push",
        "bash -c 'git push'",
        "x=push; git $x",
        "echo 'git push' | sh",
        "git -c alias.p=push p",
        "timeout 5 sh -c 'git -C a push'",
        "env -S 'git push' a",
        "for v in push; do git $v; done",
        "uv run --with a git push",
        "flock l -c 'git push'",
        "linux32 git push",
    ],
)
def test_no_wrapper_value_or_option_hides_what_is_blocked(world, text):
    world.rules = ShellRules(blocked=("git push", "rm"))
    assert world.say(text) == "deny"


@pytest.mark.parametrize(
    ("text", "constructs"),
    [
        ("bash -c 'echo $(ls)'", {"$("}),
        ("eval 'cat <<< x'", {"<<<"}),
        ("timeout 5 sh -c 'a `b`'", {"`"}),
        ("echo '$(ls)'", set()),
        ("echo 'a $(b)' | sh", {"$("}),
    ],
)
def test_a_construct_inside_of_code_is_one(world, text, constructs):
    assert line(text).constructs == constructs
    assert world.say(text) != "nothing" or not constructs


# Code inside of a wrapper is read, so its print runs and not its text; git and rg run neutralised there, too.
PRINTS = [
    ("timeout 5 sh -c 'r\\m  x'", "timeout 5 sh -c 'rm x'"),
    ("env nice bash -c \"'l's\"", "env nice bash -c ls"),
    ("find . -exec sh -c 'l\\s' \\;", "find . -exec sh -c ls ';'"),
    ("su -c'r\\m x' y", "su '-crm x' y"),
    ("env eval l\\s a", "env eval 'ls a'"),
    ("rg x", "rg -g '!.*' x"),
    ("rg -g '!.*' x", "rg -g '!.*' x"),
    ("timeout 5 rg x src", "timeout 5 rg -g '!.*' x src"),
    ("rg --hidden x", "rg --hidden x"),
    ("cat > a <<E\nx\nE", "cat <<< x > a"),
    ("cat > a <<E\n$(cat a)\nE", 'cat > a <<< "$( cat a )"'),
]


@pytest.mark.parametrize(("text", "printed"), PRINTS, ids=[text for text, _ in PRINTS])
def test_what_a_wrapper_runs_is_printed_from_what_was_read(text, printed):
    assert line(text).printed == printed


def test_no_git_runs_unasked_but_neutralised(world, tables):
    seen = 0
    for group in tables["ordinary"]:
        for text in group["lines"] if group["say"] == "nothing" else ():
            printed = world.read(text).printed
            for one in (visit.command for visit in visits(line(printed).root)):
                if one.program == "git" and one.words[-1].text != "--version":
                    seen += 1
                    assert any(word.text == "core.fsmonitor=false" for word in one.words), printed
    assert seen > 10


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("bash <<< 'x y'", "x y"),
        ("bash -s <<E\nx y\nE", "x y"),
        ("echo 'x y' | sh", "x y"),
        ("echo x y | xargs -n1 z", "z x y"),
        ("x y | sh", None),
        ("echo $a | sh", None),
        ("echo x | cat", None),
        ("echo x | tee y | sh", None),
    ],
)
def test_what_a_shell_is_sent_is_looked_into(text, runs):
    inner = [
        " ".join(word.text for word in one.words)
        for one in nodes(line(text).root)
        if isinstance(one, Command)
    ]
    assert runs in inner if runs else not any(inner.count(said) > 1 for said in inner)
    assert (
        "code" in {note.rule for visit in visits(line(text).root) for note in visit.command.notes}
        or "xargs" in text
        or "cat" in text
    )


@pytest.mark.parametrize(
    ("trees", "quiet", "asked"),
    [
        (
            {"/srv/ws": ("/srv/ws/.env",)},
            [
                "rg x",
                "rg -t py x",
                "rg -g '*.py' x",
                "grep -rn x --include=*.py .",
                "find . -name '*.py' -exec cat {} +",
            ],
            [
                "grep -rn x .",
                "rg --hidden x",
                "rg -uu x",
                "rg -g '*.env' x",
                "rg -g '{a,.env}' x",
                "rg --iglob a x",
                "find . -exec cat {} +",
                "find . -not -name '*.py' -exec cat {} +",
                "find . -name a -o -name '*.py' -exec cat {} +",
            ],
        ),
        (
            {"/srv/ws": ("/srv/ws/a/server.key",)},
            ["rg -g '*.py' x", "find . -name 'server.p?' -exec cat {} +"],
            [
                "rg x",
                "ag x",
                "rg -g 'server.*' x",
                "find . -name 'server.ke?' -exec cat {} +",
                "find . -name 'server\\.key' -exec cat {} +",
                "find . -name '[^a]erver.key' -exec cat {} +",
                "find . -name '*.[[:alpha:]]ey' -exec cat {} +",
            ],
        ),
        (
            {"/srv/ws": ("/srv/ws/out",)},
            ["rg x", "grep -rn x .", "find . -type f -exec cat {} +", "find . -name '*.py' -exec cat {} +"],
            [
                "diff -r . src",
                "find . -exec cat {} +",
                "find . -type f -o -exec cat {} +",
                "find . -exec cat {} + -type f",
                "find . -exec echo -type f \\; -exec cat {} +",
                "find . -name 'o*' -exec cat {} \\;",
            ],
        ),
        ({"/srv/ws": None}, ["ls -R", "find ."], ["rg x", "grep -r x .", "find . -type f -exec cat {} +"]),
    ],
)
def test_what_is_opened_below_a_folder(world, trees, quiet, asked):
    world.trees = trees
    assert (
        [text for text in quiet if world.say(text) != "nothing"],
        [text for text in asked if world.say(text) == "nothing"],
    ) == ([], [])


def test_a_pattern_glued_to_an_option_stays_what_it_is_unless_a_file_is_named_like_it(world):
    assert world.say("grep -rn x --include=*.py src") == "nothing"
    world.files = ("--include=a.py",)
    assert world.say("grep -rn x --include=*.py src") == "ask"
    world.files = ("@x", "+x", "a")
    assert world.say("nm *") == "ask"


@pytest.mark.parametrize("name", ["_", "PWD", "BASH_COMMAND", "RANDOM", "LINENO"])
def test_a_loop_binds_no_variable_that_the_shell_sets_itself(world, name):
    assert world.say(f'for {name} in README.md; do cat "${name}"; done') != "nothing"


@pytest.mark.parametrize("name", ["x", "NAME", "X1"])
def test_variables_of_the_line_itself_harm_nobody(world, name):
    assert world.say(f"{name}=a; echo ${name}") == "nothing" and world.say(f"{name}=a ls") == "ask"


@pytest.mark.parametrize(
    "name", ["PATH", "BASH_ENV", "IFS", "PS4", "GIT_DIR", "REPLY", "OPTIND", "LANG", "USER", "HISTFILE"]
)
def test_variables_that_are_obeyed_are_asked_about(world, name):
    assert world.say(f"{name}=../a; ls") in {"ask", "force"}


def test_a_bomb_is_one_through_any_number_of_functions():
    assert all(
        bombs.bomb(nodes(line(text).root))
        for text in (
            "a(){ a|a& }; a",
            "a(){ b; }; b(){ c & }; c(){ a; }; a",
            "while true; do a & done",
            "bash -c ':(){ :|:& };:'",
        )
    )
    assert not any(
        bombs.bomb(nodes(line(text).root))
        for text in (
            "a(){ b | c; }; a",
            "a(){ a; }; a",
            "while true; do a & sleep 1; done",
            "while read x; do a & done",
        )
    )
    assert all(map(bombs.looks_like_bomb, ("炸(){ 炸|炸& };炸", "function f { f | f & }", "f ( ) { f&f")))
    assert not any(
        map(bombs.looks_like_bomb, ("f(){ g|g; }", "a" * 8000, "aa (){ " * 900, "f() { ff | f; }"))
    )


def test_a_tree_of_any_depth_is_walked_within_bounds():
    """The limits stop such a line before it is parsed; what walks the tree must not rely on that."""
    source = b"$(" * 10_000 + b"a" + b")" * 10_000
    tree = tree_sitter.Parser(read._LANGUAGE).parse(source)
    with pytest.raises(Unread):
        read_tree(source.decode("latin-1"), tree.root_node, Effort())


BUSY = [
    "for a in a b c d e f g h i j k l m n o p; do " + "ls $a; " * 60 + "done",
    "".join(f"x{number}=a; " for number in range(60)) + "".join(f"cat $x{number}; " for number in range(60)),
    'for a in a b c d e f g h i j k l m n o p; do sh -c "' + "ls; " * 100 + '$a"; done',
]


@pytest.mark.parametrize("text", BUSY, ids=["loops", "values", "code"])
def test_commands_are_read_again_only_so_often(world, monkeypatch, text):
    """Reading again for each value is what could take long; how often and how much is bounded."""
    count = []

    def counted(command, words):
        count.append(words)
        return read.again(command, words)

    monkeypatch.setattr(loops, "again", counted)
    assert world.say(text) in {"ask", "force"} and len(count) <= 6 * 48


def test_code_inside_of_a_line_shares_one_measure():
    many = line("; ".join("sh -c '" + "a " * 200 + "'" for _ in range(18)))
    assert sum(len(argv) for argv in many.actions) < 900
    assert "code" in {note.rule for visit in visits(many.root) for note in visit.command.notes}


@pytest.mark.skipif(
    shutil.which("bwrap") is None or not Path("/bin/bash").exists(), reason="needs bash and bubblewrap"
)
def test_what_runs_unasked_changes_nothing_and_prints_no_secret(script):
    report = script("fuzz/command_quiet_fuzz.py").fuzzed(600, 20_251, batch=600)
    assert report.quiet > 60 and report.wrong == []
