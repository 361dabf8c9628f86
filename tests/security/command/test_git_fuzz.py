"""Hostile repositories, and an ordinary one: what runs there without a question is really run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from leeward.security.policy import Policy

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or not Path("/bin/bash").exists(), reason="needs git and bash"
)


@pytest.fixture
def fuzz(script):
    return script("fuzz/git_quiet_fuzz.py")


@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_more_than_reading_is_done_in_hostile_repositories(fuzz, count):
    report = fuzz.fuzzed(count, 11)
    assert report.wrong == [] and report.repositories == count
    assert report.live > 0.3 * count, "traps must be live"
    assert report.plain > 0.1 * count, "some repositories must be quiet"
    assert report.placed.keys() >= fuzz.LOUD.keys(), report.unplaced


@pytest.fixture
def place(fuzz, tmp_path):
    fuzz.made(tmp_path / "base")
    return fuzz.Place(tmp_path / "base")


def test_an_ordinary_clone_is_asked_about_its_state_without_a_question(fuzz, place):
    shutil.rmtree(place.workspace)
    subprocess.run(
        ["git", "clone", "-q", str(place.root / "hostile"), str(place.workspace)], check=True, timeout=60
    )
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org"), ("pull.rebase", "false")):
        subprocess.run(["git", "-C", str(place.workspace), "config", name, value], check=True, timeout=60)
    (place.workspace / "new").write_text("x\n")
    (place.workspace / "x").write_text("changed\n")
    policy = Policy(str(place.workspace), str(place.home))
    said = {line: fuzz.run(text, place) for line in fuzz.PLAIN if (text := fuzz.printed(line, policy))}
    assert set(said) == set(fuzz.PLAIN)
    assert said["git status --porcelain"] == " M x\n?? new\n"
    assert said["git status -sb"].startswith("## main...origin/main\n")
    assert said["git branch --show-current"] == "main\n"
    assert "hostile merged" in said["git log --oneline -5"] and "[origin/main]" in said["git branch -vv"]
    assert said["git rev-parse --show-toplevel"] == f"{place.workspace}\n"


def test_no_other_form_is_quiet_even_there(fuzz, place):
    policy = Policy(str(place.workspace), str(place.home))
    assert [line for line in fuzz.OTHER if fuzz.printed(line, policy) is not None] == []


def test_git_takes_no_other_repository_than_the_one_that_was_looked_at(fuzz, place):
    """Whatever is changed between the look and the run: git would take the folder itself, or walk up."""
    policy = Policy(str(place.workspace), str(place.home))
    lines = [
        fuzz.printed(line, policy)
        for line in ("git status", "cd . && git log --oneline", "git branch -a | cat")
    ]
    fuzz.arm(place)
    fuzz.LOUD["passed over for the root"](place, fuzz.random.Random(1))
    for line in lines:
        assert "fatal: not a git repository" in fuzz.run(line, place)
    assert not place.mark.exists()
    # Of a file that is as it was when the index was written, git asks no filter.
    (place.workspace / "b.txt").write_text("changed\n")
    fuzz.run("git -c core.fsmonitor=false status", place)
    assert place.mark.exists(), "the trap must be live"


def test_one_trap_alone_is_enough_for_a_question(fuzz, place, tmp_path):
    lines = [line for line in fuzz.PLAIN if any(word in line for word in ("status", "branch", "log"))]
    assert len(lines) >= 20
    quiet = {}
    for at, (name, trap) in enumerate(fuzz.LOUD.items()):
        one = fuzz.Place(tmp_path / str(at))
        shutil.copytree(place.root, one.root, symlinks=True)
        trap(one, fuzz.random.Random(1))
        policy = Policy(str(one.workspace), str(one.home))
        assert fuzz.printed("git --version", policy) is not None
        quiet[name] = [line for line in lines if fuzz.printed(line, policy) is not None]
    # The repository around is out of git's reach: what is printed names the one that was looked at.
    del quiet["passed over for the parent"]
    assert {name: found for name, found in quiet.items() if found} == {}
