"""Hostile repositories, and an ordinary one: what runs there without a question is really run."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leeward.security.policy import Policy

FUZZ = Path(__file__).resolve().parents[2] / "fuzz" / "git_quiet_fuzz.py"

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None or not Path("/bin/bash").exists(), reason="needs git and bash"
)


@pytest.fixture
def fuzz(monkeypatch):
    spec = importlib.util.spec_from_file_location("git_quiet_fuzz", FUZZ)
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "git_quiet_fuzz", found)
    spec.loader.exec_module(found)
    return found


def test_nothing_more_than_reading_is_done_in_two_hundred_hostile_repositories(fuzz):
    report = fuzz.fuzzed(200, 11)
    assert report.wrong == [] and report.repositories == 200
    assert report.live > 60 and report.plain > 20, "traps must be live, and some repositories quiet"


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
    fuzz.run("git -c core.fsmonitor=false status", place)
    assert place.mark.exists(), "the trap must be live"


@pytest.mark.parametrize(
    "trap",
    ["filter", "fsmonitor", "gitfile", "alternates", "no repository", "device", "passed over for the root"],
)
def test_one_trap_alone_is_enough_for_a_question(fuzz, place, trap):
    fuzz.LOUD[trap](place, fuzz.random.Random(1))
    policy = Policy(str(place.workspace), str(place.home))
    assert fuzz.printed("git status", policy) is None and fuzz.printed("git --version", policy) is not None
