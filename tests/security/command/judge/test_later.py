"""Commands that change what acts later: asked about by force, however they reach it; reading and naming it is not."""

from __future__ import annotations

import pytest

from leeward.security.command import Say

CHANGING = [
    "echo x > Makefile", "echo x >> sub/Makefile", "printf x >| .github/workflows/ci.yml", "make &> conftest.py", "cp a.txt Makefile", "cp a.txt setup.py b.txt AGENTS.md", "mv a.yml .gitlab-ci.yml",
    "install -m 755 x .husky/pre-commit", "ln -s x package.json", "tee AGENTS.md", "ls | tee CLAUDE.md", "sed -i s/a/b/ conftest.py", "touch x.pth", "truncate -s 0 Makefile", "dd if=a of=Makefile", "mkdir .husky",
    "cp vendor/Makefile .", "cp vendor/conftest.py tests", "mv vendor/package.json ./", "bash -c 'echo x > Makefile'", "nice tee Makefile", "ls | xargs tee Makefile", "cd .github/workflows && echo x > ci.yml", "true && cp a .vscode/tasks.json",
    "X=Makefile; cp a $X", "for f in Makefile; do cp a $f; done", "find . -name x -exec tee Makefile \\;", "echo x > MAKEFILE",
    "rsync -o x package.json", "rsync -t x package.json", "rsync -avz x/conftest.py tests --exclude b", "scp -i key a Makefile", "cp --target tests x/conftest.py", "cp --target=tests x/conftest.py", "cp $x/package.json .", 'cp "$(pwd)/a/package.json" .', "mv ${x:-y}/conftest.py tests",
]  # fmt: skip
ORDINARY = [
    "make -f Makefile", "make all > log.txt", "cp Makefile old.txt", "git add Makefile", "git commit -m Makefile", "python setup.py build", "grep x Makefile > out.txt", "sed -i s/a/b/ main.py", "tee notes.txt",
    "cp a.txt b.txt", "touch makefile.md", "mkdir src", "npm install", "echo Makefile > list.txt", "mv a.py b.py", "cp conftest.py a.py", "rsync -avt src/ build/", "scp -P 22 a b", "cp $x/a.py .",
]  # fmt: skip


@pytest.mark.parametrize("line", CHANGING)
def test_what_acts_later_is_asked_about_by_force(world, line: str) -> None:
    ruling = world.ruling(line)
    assert ruling.say == Say.FORCE and any("acts later" in reason for reason, _ in ruling.reasons)


@pytest.mark.parametrize("line", ORDINARY)
def test_what_only_names_or_reads_it_is_not(world, line: str) -> None:
    assert not any("acts later" in reason for reason, _ in world.ruling(line).reasons)
