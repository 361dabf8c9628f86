"""Searches that remove: narrowed by a name they are asked about, else refused at a root; the real `find` agrees."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from leeward.security.command import CommandLine, Say, parse_command, ruling_of, surveyed, wanted
from leeward.security.policy import Policy, ShellRules
from leeward.tools.survey import looked_up

FIND = shutil.which("find")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ASKED = [
    "find . -name '*.pyc' -delete", "find . -name *.pyc -delete", "find . -name '*.[oa]' -delete", "find . -name '*~' -delete", "find . -iname thumbs.db -delete",
    "find build -type f -mtime +3 -exec rm {} +", "find build -delete", "find src -name '*' -delete", "find . -empty -delete", "find . -xtype l -delete",
    "find . -name '*.orig' | xargs rm -f", "find . -name '*.orig' -print0 | xargs -0 rm -f", "find . -name '*.orig' | sort | xargs rm", "cd src && find . -type f | xargs rm",
    "find . \\( -name '*.tmp' -o -name '*.bak' \\) -delete", "find . -name '*.tmp' -o -name '*.bak' | xargs rm", "find . -type d -name __pycache__ -exec rm -rf {} +",
    "find . -name node_modules -prune -exec rm -rf '{}' +", "find . -path ./.git -prune -o -name '*.o' -exec rm {} +", "find . -path './build/*' -delete", "find /srv/ws -path '/srv/ws/build/*' -delete",
    "find . -regex '.*\\.pyc' -delete", "find . -regex '.*\\.\\(pyc\\|pyo\\)' -delete", "find . -name '*.py' -exec grep -l TODO {} + | xargs rm", "find . -name ws -delete",
    "find ~ -name .DS_Store -delete", "find ~ -name .DS_Store -exec rm {} +", "find /tmp -name 'build-*' -exec rm -rf {} +", "find /tmp -type f -mtime +7 -delete", "find . -inum 4711 -delete", "find . -size 0 -delete", "find . -mindepth 2 -name .git -exec rm -rf {} +",
    "rm -rf /tmp/build-x", "rm -rf /tmp/a /var/tmp/b", "rm -rf /data/project-x/old", "rm -rf /data", "rm -rf /opt/x", "cd /tmp/build && rm -rf *", "chmod -R 755 /data",
]  # fmt: skip
FORCED = ['rm -rf "$TMPDIR/foo"', 'find . -name "$x" -delete', "find $d -type f | xargs rm", 'find . -regex "$x" -delete']  # fmt: skip
REFUSED = [
    "find . -delete", "find . -type f -delete", "find . -name '*' -delete", "find . -name '**' -delete", "find . -name '?*' -delete", "find . -name '*.*' -delete", "find . -name '[a-z]*' -delete", "find . -name '*e*' -delete",
    "find . ! -name x -delete", "find . -not -name '*.py' -delete", "find . -name x -o -true -delete", "find . -true -delete", "find . -not -false -delete", "find . -size +0 -delete", "find . -path '*' -delete", "find . -path './*' -delete",
    "find . -newermt 1970-01-01 -delete", "find . -maxdepth 9 -delete", "find . -mindepth 1 -delete", "find . -mtime -9999 -delete", "find . -mtime +0 -delete", "find . -user root -delete", "find . -perm -0 -delete", "find . -type f -mtime +30 -delete",
    "find . -name '*.o' -o -delete", "find . -name '*.o' , -delete", "find . \\( -name x -o -type f \\) -delete", "find . -name '*.o' -prune -o -delete", "find . -regex '.*' -delete", "find . -regex '.*\\.o\\|.*' -delete", "find . -regex '.*git' -delete",
    "find . -type f | xargs rm", "find . | xargs rm", "find . -type f | sort | xargs rm", "find . -name '*.o' -o -type f | xargs rm", "find . -name '*.o' -print -o -print | xargs rm", "find . -exec grep -l x {} + | xargs rm", "cd / && find . -type f | xargs rm",
    "find . -exec env rm -rf {} +", "find . -exec sh -c 'rm -f \"$@\"' _ {} +", "find . -execdir rm {} \\;", "find . -name .git -exec rm -rf {} +", "find . -path '*/.git/*' -delete", "find . -path './.git/objects/*' -delete", "find . -path './.git/*' -name 'a*' -delete", "find . -name '.g*' -exec rm -rf {} +",
    "find /srv/ws -name ws -exec rm -rf {} +", "find .git -name '*.lock' -delete", "find . -iname '.GIT' -exec rm -rf {} +",
    "find / -delete", "find / -name '*' -delete", "find / -name '*.pyc' -delete", "find /etc -name '*.bak' -delete", "find ~ -delete", "find ~ -exec rm -rf {} +", "find ~ -exec mv {} /tmp/x \\;", "find /tmp -exec rm -rf {} +", "find ~ -type f -delete", "find ~ -mtime +30 -delete", "find ~ -name '.*' -delete", "find ~ -name .ssh -exec rm -rf {} +", "find ~ -name .bashrc -delete",
    "find ~root -name '*.o' -delete", "find -D tree / -name x.o -delete", "find -files0-from l -name x.o -delete", "rm -rf /tmp", "rm -rf /tmp/*", "rm -rf /opt", "rm -rf /home", "rm -rf /var/tmp", "rm -rf /srv",
]  # fmt: skip
READING = ["find . -exec echo -delete \\;", "find . -exec echo rm {} \\;", "find . -name -delete", "find . -printf -delete", "find . -name '*.o' -exec echo -delete {} +"]  # fmt: skip


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
TESTS = [
    "-name '*.o'", "-name '*.pyc'", "-name '*'", "-name '?*'", "-name '*.*'", "-name x.o", "-name 'k*'", "-iname '*.PYC'", "-path './build/*'", "-path '*/.git/*'", "-path '*'", "-regex '.*\\.o'", "-regex '.*'", "-regex '.*\\.\\(o\\|bak\\)'",
    "-type f", "-type d", "-type l", "-true", "-false", "-size +0", "-size 0", "-empty", "-mtime +3", "-mtime -3", "-mindepth 1", "-maxdepth 1", "-newermt 1970-01-01", "-prune", "-user root", "-name .git", "-name '.g*'", "-name '[a-z]*'", "-name src", "-quit", "-name '*~'", "-perm -0",
]  # fmt: skip
ACTIONS = ["-delete", "-delete", "-exec rm -rf {} +", "-exec rm -f {} \\;", "-print", "-exec echo -delete \\;", "-exec echo {} -delete +", "-printf -delete", "-exec env rm -r {} +"]  # fmt: skip
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
