"""Searches that remove: narrowed by a name they are asked about, else refused at a root; the real `find`
agrees.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from leeward.security.command import CommandLine, Say, parse_command, ruling_of, surveyed, wanted
from leeward.security.policy import Policy, ShellRules
from leeward.tools.survey import looked_up
from loading import rows_beside

ROWS = rows_beside(__file__)

FIND = shutil.which("find")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ASKED = ROWS["asked"]
FORCED = [
    'rm -rf "$TMPDIR/foo"', 'find . -name "$x" -delete', "find $d -type f | xargs rm",
    'find . -regex "$x" -delete',
]  # fmt: skip
REFUSED = ROWS["refused"]
READING = [
    "find . -exec echo -delete \\;", "find . -exec echo rm {} \\;", "find . -name -delete",
    "find . -printf -delete", "find . -name '*.o' -exec echo -delete {} +",
]  # fmt: skip


@pytest.mark.parametrize(
    ("says", "lines"),
    [("ask", ASKED), ("force", FORCED), ("deny", REFUSED), ("nothing", READING)],
    ids=["narrowed", "unknown", "whole roots", "only read"],
)
def test_what_a_search_removes_is_told_by_its_tests(world, says, lines):
    assert [(line, said) for line in lines if (said := world.say(line)) != says] == []


FILES = (
    "keep.txt main.py a.o b.pyc empty.d/x.o src/keep.py src/c.pyc src/old.orig build/out.o build/deep/y.bak "
    ".git/HEAD .git/objects/ab/cd sub/.gitkeep docs/guide.md .hidden"
).split()
STARTS = [".", ".", ".", "./", "$PWD", "src", "build src", ". src", "src/.."]
TESTS = ROWS["tests"]
ACTIONS = [
    "-delete", "-delete", "-exec rm -rf {} +", "-exec rm -f {} \\;", "-print", "-exec echo -delete \\;",
    "-exec echo {} -delete +", "-printf -delete", "-exec env rm -r {} +",
]  # fmt: skip
BEHIND = ["", "", "", " | xargs rm -rf", " | xargs rm -f", " | sort | xargs rm -f", " | xargs echo"]


def expression(chance: random.Random, depth: int = 0) -> str:
    """A random expression, with operators and actions wherever they may stand."""
    kind = chance.random()
    if depth > 2 or kind < 0.45:
        return chance.choice(TESTS)
    if kind < 0.6:
        return chance.choice(ACTIONS)
    if kind < 0.7:
        return f"! {expression(chance, depth + 1)}"
    joined = chance.choice([" ", " ", " -a ", " -o ", " , "])
    both = f"{expression(chance, depth + 1)}{joined}{expression(chance, depth + 1)}"
    return f"\\( {both} \\)" if chance.random() < 0.5 else both


def grown(folder: Path) -> None:
    """Make the tree a search is let loose on."""
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name.endswith(".gitkeep") else name)
    (folder / "link").symlink_to("nowhere")


@pytest.mark.skipif(FIND is None, reason="there is no find here to compare with")
@pytest.mark.parametrize("seed", range(4))
def test_a_search_does_what_it_was_judged_by(tmp_path, seed):
    """What is quiet removes nothing; what only takes a question leaves what no name in it means."""
    chance, (workspace, home) = random.Random(seed), (tmp_path / "w", tmp_path / "home")
    home.mkdir()
    policy, counts = Policy(str(workspace), str(home)), dict.fromkeys(range(4), 0)
    for _ in range(120):
        search = f"find {chance.choice(STARTS)} {expression(chance)} {chance.choice([*ACTIONS, ''])}"
        line = search.rstrip() + chance.choice(BEHIND)
        shutil.rmtree(workspace, ignore_errors=True)
        grown(workspace)
        read = parse_command(line)
        assert isinstance(read, CommandLine), line
        facts = looked_up(wanted(read, policy, ShellRules()), policy, PATH)
        said = ruling_of(surveyed(read, facts, policy), line, policy, ShellRules()).say
        counts[said] += 1
        if said not in {Say.NOTHING, Say.ASK}:
            continue
        subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=workspace,
            env={"PATH": PATH, "HOME": str(home)},
            capture_output=True,
            timeout=20,
            check=False,
        )
        gone = [name for name in FILES if not (workspace / name).exists()]
        assert said != Say.NOTHING or gone == [], line
        assert (workspace / "main.py").exists() and (workspace / ".git/HEAD").exists(), line
    assert all(counts[say] for say in (Say.NOTHING, Say.ASK, Say.DENY)), counts
