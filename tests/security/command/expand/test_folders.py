"""Where a line looks: the folder each command starts in, held against where a real bash starts it."""

from __future__ import annotations

import random
import subprocess

import pytest

from leeward.security.command import parse_command
from leeward.security.command.expand.paths import Candidate, placed, where
from leeward.security.command.expand.visit import commands_of
from leeward.security.command.syntax.nodes import PartKind, literal
from leeward.security.kinds import CommandLine
from leeward.security.policy import Policy
from loading import rows_beside

ROWS = rows_beside(__file__)

WS, HOME = "/srv/ws", "/home/ada"
GROUND = Policy(WS, HOME)


def starts(line: str, ground: Policy = GROUND) -> dict[str, list]:
    """The folders in which each `here N` may start, by N."""
    read = parse_command(line)
    assert isinstance(read, CommandLine), (line, read)
    found: dict[str, list] = {}
    for at in placed(read.root, ground):
        if at.command.name == "here":
            found.setdefault(at.command.words[1].text, []).append(at.folders)
    return found


# Where the only `here` of a line may start; None for unknown.
STARTS = [
    ("here 1", {WS}), ("cd a; here 1", {WS, f"{WS}/a"}), ("cd a && here 1", {f"{WS}/a"}),
    ("cd a || here 1", {WS}), ("cd a && cd b && here 1", {f"{WS}/a/b"}),
    ("cd a/b && cd .. && here 1", {f"{WS}/a"}), ("cd /x && here 1", {"/x"}), ("cd && here 1", {HOME}),
    ("cd ~ && here 1", {HOME}), ("cd ~/p && here 1", {f"{HOME}/p"}),
    ('cd "$HOME/p" && here 1', {f"{HOME}/p"}), ("cd -- a && here 1", {f"{WS}/a"}),
    ("cd -L a && here 1", {f"{WS}/a"}), ("cd -x a; here 1", None), ("cd ./a/../a && here 1", {f"{WS}/a"}),
    ("cd -; here 1", None), ("cd $x && here 1", None), ("cd * && here 1", None),
    ("cd -P a && here 1", {f"{WS}/a"}), ("cd a b; here 1", None), ("popd; here 1", None),
    ("pushd a && here 1", {f"{WS}/a"}), ("pushd && here 1", None), ("pushd +1 && here 1", None),
    ("cd '' && here 1", None),
    ("(cd a && here 1)", {f"{WS}/a"}), ("(cd a); here 1", {WS}), ("(cd a) && here 1", {WS}),
    ("{ cd a; } && here 1", {f"{WS}/a"}), ("{ cd a; }; here 1", {WS, f"{WS}/a"}), ("cd a | here 1", {WS}),
    ("ls | cd a && here 1", {WS}), ("ls | { cd a && here 1; }", {f"{WS}/a"}), ("cd a & here 1", {WS}),
    ("cd a && ls & here 1", {WS}), ("! cd a && here 1", {WS}), ("! cd a || here 1", {f"{WS}/a"}),
    ("time cd a && here 1", {f"{WS}/a"}),
    ("echo $(cd a); here 1", {WS}), ("echo $(cd a && here 1)", {f"{WS}/a"}),
    ("cat <(cd a && here 1)", {f"{WS}/a"}), ("x=$(cd a && here 1)", {f"{WS}/a"}),
    ("cd a && echo $(here 1)", {f"{WS}/a"}), ("cd a && ls > $(here 1)", {f"{WS}/a"}),
    ("if cd a; then here 1; fi", None), ("if true; then cd a; fi; here 1", None),
    ("if true; then here 1; fi", {WS}), ("while cd ..; do here 1; done", None),
    ("for i in 1 2; do here 1; cd a; done", None), ("for i in 1; do ls; done; here 1", {WS}),
    ("f() { cd a; }; f; here 1", None), ("case x in x) cd a;; esac; here 1", None),
    ("eval cd a && here 1", {f"{WS}/a"}), ("eval 'cd a; cd b' && here 1", {f"{WS}/b", f"{WS}/a/b"}),
    ("command cd a && here 1", {f"{WS}/a"}), ("builtin cd a && here 1", {f"{WS}/a"}),
    ("sh -c 'cd a'; here 1", {WS}), ("sh -c 'cd a && here 1'", {f"{WS}/a"}),
    ("cd a && sh -c 'here 1'", {f"{WS}/a"}), ("env -C a here 1", None), ("env here 1", {WS}),
    ("sudo here 1", {WS}), ("sudo -i here 1", None), ("sudo -D / here 1", None), ("sudo ls -R; here 1", {WS}),
    ("su -c 'here 1'", {WS}), ("su - ada -c 'here 1'", None), ("ssh h here 1", None),
    ("find . -execdir here 1 \\;", None), ("find . -exec here 1 \\;", {WS}),
    ("cd a && xargs here 1", {f"{WS}/a"}), ("trap 'here 1' EXIT", {WS}),
    ("cat <<E | cd a && here 1\nx\nE\n", {WS}), ("cat <<E || cd a && here 1\nx\nE\n", {WS, f"{WS}/a"}),
    ("cat <<E && cd a && here 1\nx\nE\n", {f"{WS}/a"}), ("cd " + "a && cd " * 16 + "a && here 1", None),
    ("true && cd a; here 1", {WS, f"{WS}/a"}), ("cd a && cd b || here 1", {WS, f"{WS}/a"}),
    ("cd a || cd c && here 1", {f"{WS}/a", f"{WS}/c"}),
    ("cd a && ls 2>&1 | here 1", {f"{WS}/a"}), ("cd a && ls > x | ls 2>&1 | here 1", {f"{WS}/a"}),
    ("cd a || ls 2>&1 | here 1", {WS}), ("cd a && ls 2>&1 | ls && here 1", {f"{WS}/a"}),
    ("cd a 2>&1 | here 1", {WS}), ("cd a > x && here 1", {f"{WS}/a"}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "folders"), STARTS, ids=[line for line, _ in STARTS])
def test_where_a_command_starts(line, folders):
    assert starts(line)["1"] == [None if folders is None else frozenset(folders)]


STEPS = [
    "cd a", "cd b", "cd ..", "cd nope", "cd ./a", "cd a/b", "cd ../c", "cd", "cd ~/a", "pushd a", "true",
    "false", "ls", "eval cd a", "command cd c", "cd -- a",
]  # fmt: skip
# No functions: what is in one runs wherever it is called, and is never quiet.
JOINS = ROWS["joins"]


def random_line(chance: random.Random, count: list[int], depth: int = 0) -> str:
    """A line in which every `here` has a number of its own."""
    if depth > 2 or chance.random() < 0.25:
        step = chance.choice(STEPS)
        if chance.random() < 0.6:
            count[0] += 1
            here = f"here {count[0]}"
            step = chance.choice([here, f"{step} && {here}", f"{step} || {here}", f"{step}; {here}"])
        return step
    join = chance.choice(JOINS)
    inside = [random_line(chance, count, depth + 1) for _ in range(2)]
    # What is quoted holds no quotes, and a here-document stands at the end of a line.
    if "'" in join or "<<E" in join or "$(" in join:
        inside = [one if not set("'\n") & set(one) else "cd a" for one in inside]
    return join.format(*inside)


def really_started(lines: list[str], folder) -> list[set[tuple[str, str]]]:
    """Run each line in a shell of its own; return the numbers with the folders in which they began."""
    stubs = folder / "stubs"
    stubs.mkdir()
    (stubs / "here").write_text('#!/bin/sh\nprintf "%s %s\\n" "$1" "$PWD" >> "$TOP/$LOG"\n')
    (stubs / "here").chmod(0o755)
    for path in ("ws/a/b/a", "ws/b/a", "ws/c", "home/a/b", "c"):
        (folder / path).mkdir(parents=True)
    for at, line in enumerate(lines):
        (folder / f"{at}.sh").write_text(line + "\nwait\n")
    script = f"cd {folder}/ws; for at in {{0..{len(lines) - 1}}}; do LOG=$at bash --norc ../$at.sh; done"
    alone = {"PATH": f"{stubs}:/usr/bin:/bin", "HOME": str(folder / "home"), "TOP": str(folder)}
    subprocess.run(
        ["/bin/bash", "--norc", "-c", "--", script], env=alone, timeout=30, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    logs = [folder / str(at) for at in range(len(lines))]
    said = [log.read_text().splitlines() if log.exists() else [] for log in logs]
    return [{tuple(one.split(" ", 1)) for one in found} for found in said]


def is_understood(line: str) -> bool:
    """Whether a line was read, and all code in it: of what was not, nothing is promised."""
    read = parse_command(line)
    return isinstance(read, CommandLine) and not any(command.notes for command in commands_of(read.root))


@pytest.mark.parametrize("seed", range(3))
def test_no_command_starts_where_nobody_thought(tmp_path, seed):
    chance = random.Random(seed)
    ground = Policy(str(tmp_path / "ws"), str(tmp_path / "home"))
    lines = [random_line(chance, [0]) for _ in range(160)]
    lines = [line for line in lines if "here" in line and is_understood(line)]
    wrong, ran, known = [], 0, 0
    for line, real in zip(lines, really_started(lines, tmp_path), strict=True):
        thought = starts(line, ground)
        for number, folder in real:
            ran += 1
            known += None not in thought[number]
            if not any(folders is None or folder in folders for folders in thought[number]):
                wrong.append((line, number, folder, thought[number]))
    assert wrong == []
    assert ran > 100 and known > ran / 3


WHERE = [
    ("a", [f"{WS}/a"]), ("./a", [f"{WS}/./a"]), ("../a", [f"{WS}/../a"]), ("/a", ["/a"]), ("~", [HOME]),
    ("~/a", [f"{HOME}/a"]), ("'~/a'", [f"{WS}/~/a"]), ("~+/a", [f"{WS}/a"]), ("~-/a", None), ("~bob/a", None),
    ("$HOME/a", [f"{HOME}/a"]), ('"$HOME"/a', [f"{HOME}/a"]), ("$PWD/a", [f"{WS}/a"]), ("$x/a", None),
    ("a$x", None), ("$(a)", None), ("${x:-a}", None), ("<(a)", None), ("''", None), ("$((1))", None),
    ("*", [f"{WS}/*"]), ("a/*.py", [f"{WS}/a/*.py"]), ("'*'", [f"{WS}/*"]), ("~/*", [f"{HOME}/*"]),
    ("'['*", [f"{WS}/[[]*"]), ("/a/?", ["/a/?"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "paths"), WHERE, ids=[text for text, _ in WHERE])
def test_the_paths_a_word_may_mean(text, paths):
    word = parse_command(f"x {text}").root.words[1]
    found = where(word, frozenset({WS}), GROUND)
    is_glob = any(part.kind is PartKind.GLOB for part in word.parts)
    assert found == (paths and tuple(Candidate(path, is_glob) for path in paths))


def test_a_word_means_a_path_in_every_folder_it_may_stand_in():
    several = frozenset({"/b", "/a"})
    assert where(literal("x"), several, GROUND) == (Candidate("/a/x"), Candidate("/b/x"))
    assert (
        where(literal("/x"), None, GROUND) == (Candidate("/x"),) and where(literal("x"), None, GROUND) is None
    )
    word = parse_command("x $PWD/y").root.words[1]
    assert where(word, several, GROUND) is None, "which of the two is not known"
    odd = parse_command("x *").root.words[1]
    assert where(odd, frozenset({"/a[b]*"}), GROUND) == (Candidate("/a[[]b][*]/*", is_glob=True),)


def test_a_home_with_blanks_is_split_where_nothing_quotes_it():
    spaced = Policy(WS, "/home/a da")
    for text, path in [("$HOME/x", None), ('"$HOME/x"', "/home/a da/x"), ("~/x", "/home/a da/x")]:
        found = where(parse_command(f"x {text}").root.words[1], frozenset({WS}), spaced)
        assert found == (None if path is None else (Candidate(path),)), text
