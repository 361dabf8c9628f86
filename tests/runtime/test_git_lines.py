"""Git in whole sessions: branches, stashes, merges, rebases, for real and on trial; no lock stays behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from leeward.security.call import Asker
from leeward.security.ports import Answer
from loading import rows_beside

LINES = rows_beside(__file__)["lines"]
SETTINGS = """[user]
\tname = Ann
\temail = ann@harbour.example
[commit]
\tgpgSign = false
"""
AROUND = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "LC_ALL": "C.UTF-8",
}


def bare(folder: Path, line: str, *, check: bool = True) -> str:
    """Run a line as the person does, with nobody's settings."""
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=AROUND, capture_output=True, text=True, check=check, timeout=60
    )
    return done.stdout


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    """A repository with three branches, of which one clashes, and a tag."""
    ws = tmp_path_factory.mktemp("git").resolve() / "sample"
    ws.mkdir()
    bare(ws, "git init -q -b main")
    with (ws / ".git" / "config").open("a") as file:
        file.write(SETTINGS)
    bare(ws, "echo one > a.txt; git add .; git commit -qm first; git branch topic; git branch clash")
    bare(ws, "echo two >> a.txt; git commit -qam second; git tag v1")
    bare(ws, "git switch -q topic; echo t > t.txt; git add .; git commit -qm 'on topic'")
    bare(ws, "git switch -q clash; echo other > a.txt; git commit -qam clash; git switch -q main")
    return ws


@pytest.fixture
def ws(tmp_path, sample) -> Path:
    return Path(shutil.copytree(sample, tmp_path.resolve() / "ws", symlinks=True))


def state(ws: Path) -> tuple[str, ...]:
    """What git, and a person, find in a repository; commits by what they hold, for their times differ."""
    told = (
        "git for-each-ref --format='%(refname) %(subject) %(tree)' refs/heads refs/tags",
        "git log --all --not --exclude=refs/stash --format='%s %T' ; git log --format='%s %T %D'",
        "git status --porcelain=v2 --branch | grep -v branch.oid",
        "git stash list --format=%gs; git stash show -p --include-untracked 2>/dev/null",
        "git symbolic-ref HEAD; git fsck --connectivity-only 2>&1 | grep -v dangling",
    )
    files = sorted(path for path in ws.rglob("*") if path.is_file() and ".git" not in path.parts)
    held = (f"{path.relative_to(ws)}: {path.read_text()}" for path in files)
    return (*(bare(ws, line, check=False) for line in told), *held)


def renewed(folder: Path, sample: Path) -> None:
    """Make a repository what it was in the morning; the folder itself stays."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(sample, folder, symlinks=True, dirs_exist_ok=True)


@pytest.mark.parametrize("how", ["for real", "kept", "discarded"])
async def test_git_does_what_it_does_without_us(sessions, tmp_path, sample, ws, how) -> None:
    """On trial a line does it once it is kept, and nothing when it is not."""
    alone, before = tmp_path / "alone", state(ws)
    alone.mkdir()
    person = sessions.Answers(Answer.NO if how == "discarded" else Answer.YES)
    trial = "off" if how == "for real" else "auto"
    wrong = []
    async with sessions.session(tmp_path, trial=trial, approver=person) as runtime:
        if trial == "auto" and (problem := await runtime.sandbox.no_trial_because()):
            pytest.skip(f"trial runs are needed: {problem}")
        for line in LINES:
            renewed(alone, sample)
            renewed(ws, sample)
            bare(alone, line, check=False)
            result = await runtime.call("shell", {"command": line}, asker=Asker.MODEL)
            wanted, found = before if how == "discarded" else state(alone), state(ws)
            if result.error is not None or found != wanted or (ws / ".git" / "index.lock").exists():
                wrong.append(
                    (
                        line,
                        result.shown,
                        *(pair for pair in zip(wanted, found, strict=False) if pair[0] != pair[1]),
                    )
                )
    assert wrong == []


LEAVES = "touch .git/index.lock .git/refs/heads/main.lock; echo begun > begun"
# It is killed at a bound, or waits to be.
FLOODS = f"{LEAVES}; for i in $(seq 300); do sleep 60 & done; wait"
CONFIG = "[tools.shell]\nprocesses = 60\n"


def locks(ws: Path) -> list[str]:
    return sorted(str(path.relative_to(ws)) for path in (ws / ".git").rglob("*.lock"))


async def test_no_lock_stays_of_a_command_that_was_killed_at_a_bound(sessions, tmp_path, ws) -> None:
    (ws / ".git" / "HEAD.lock").write_text("of somebody else, from before")
    async with sessions.session(tmp_path, CONFIG, approver=sessions.Answers(Answer.YES)) as runtime:
        if runtime.sandbox.level == "none":
            pytest.skip("a sandbox is needed: without one nothing is looked at afterwards")
        await trio.sleep(0.05)
        result = await runtime.call("shell", {"command": FLOODS}, asker=Asker.MODEL)
        assert (ws / "begun").exists() and "removed .git/index.lock" in result.shown, result.shown
    assert locks(ws) == [".git/HEAD.lock"]


async def test_no_lock_stays_of_a_command_that_was_cancelled(sessions, tmp_path, ws) -> None:
    async with sessions.session(tmp_path, approver=sessions.Answers(Answer.YES)) as runtime:
        if runtime.sandbox.level == "none":
            pytest.skip("a sandbox is needed: without one nothing is looked at afterwards")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.call, "shell", {"command": f"{LEAVES}; sleep 600"})
            with trio.fail_after(60):
                while not (ws / "begun").exists():
                    await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
    assert locks(ws) == []


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


async def test_a_lock_stays_where_another_git_is_at_work_or_a_link_leads_out(sessions, tmp_path, ws) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(ws / ".git" / "logs")
    shutil.rmtree(ws / ".git" / "refs" / "tags")
    (ws / ".git" / "refs" / "tags").symlink_to(outside)
    words = ["git", "hash-object", "--stdin-paths"]
    waiting = subprocess.Popen(words, cwd=ws, env=AROUND, stdin=subprocess.PIPE)
    try:
        async with sessions.session(tmp_path, CONFIG, approver=sessions.Answers(Answer.YES)) as runtime:
            if runtime.sandbox.level == "none":
                pytest.skip("a sandbox is needed: without one nothing is looked at afterwards")
            (outside / "theirs.lock").touch()
            await runtime.call("shell", {"command": FLOODS}, asker=Asker.MODEL)
            assert ".git/index.lock" in locks(ws), "it may be that of the git at work"
            end(waiting)
            await runtime.call("shell", {"command": f"rm -f .git/*.lock; {FLOODS}"}, asker=Asker.MODEL)
            (outside / "late.lock").touch()
    finally:
        end(waiting)
    assert ".git/index.lock" not in locks(ws)
    assert sorted(path.name for path in outside.iterdir()) == ["late.lock", "theirs.lock"]


async def test_a_lock_stays_where_a_git_may_be_at_work_in_a_linked_tree(sessions, tmp_path, ws) -> None:
    bare(ws, "git worktree add -q ../linked")
    words = ["git", "hash-object", "--stdin-paths"]
    waiting = subprocess.Popen(words, cwd=tmp_path / "linked", env=AROUND, stdin=subprocess.PIPE)
    theirs = ".git/worktrees/linked/index.lock"
    try:
        async with sessions.session(tmp_path, CONFIG, approver=sessions.Answers(Answer.YES)) as runtime:
            if runtime.sandbox.level == "none":
                pytest.skip("a sandbox is needed: without one nothing is looked at afterwards")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.call, "shell", {"command": "echo begun > begun; sleep 600"})
                with trio.fail_after(60):
                    while not (ws / "begun").exists():
                        await trio.sleep(0.02)
                (ws / theirs).touch()
                nursery.cancel_scope.cancel()
    finally:
        end(waiting)
    assert locks(ws) == [theirs]
