"""Which repository is a plain one: what git itself makes is, and whatever leads elsewhere or is too much is
not.
"""

from __future__ import annotations

import os

import pytest

from leeward.security.command import Wanted
from leeward.security.policy import Policy
from leeward.tools import repository
from leeward.tools.repository import doubts_of
from leeward.tools.survey import looked_up


@pytest.fixture
def place(git, tmp_path):
    """A workspace with a repository of some commits, and one outside."""
    for name in ("ws", "other"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q", "-b", "main")
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", name)
        git(tmp_path / name, "branch", "topic")
    return tmp_path / "ws"


def test_what_git_makes_is_plain(git, place, tmp_path) -> None:
    assert doubts_of(str(place)) == ()
    (place / "a").write_text("a\n")
    git(place, "config", "user.name", "Ada [filter] clean = x")
    for line in (
        "add a", "commit -qm a", "gc -q", "stash -u", "remote add origin https://git.example/a.git",
        "checkout -q --detach",
    ):  # fmt: skip
        git(place, *line.split())
    assert doubts_of(str(place)) == ()
    git(tmp_path, "clone", "-q", "--local", str(place), "clone")
    git(tmp_path / "clone", "checkout", "-q", "-B", "feature/x", "--track", "origin/topic")
    assert doubts_of(str(tmp_path / "clone")) == ()
    assert looked_up(Wanted(repositories=(str(place),)), Policy(str(place), "/"), "").repositories == {
        str(place): ()
    }


def test_hooks_and_what_other_programs_keep_there_do_not_count(place) -> None:
    hook = place / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to("../../check")
    (place / ".git" / "lfs").mkdir()
    (place / ".git" / "lfs" / "cache").symlink_to("/var/cache")
    assert doubts_of(str(place)) == ()


def replaced(path, target) -> None:
    path.rename(path.with_name("moved-away"))
    path.symlink_to(target)


ODD = {
    "no folder": lambda git, ws, other: (ws / ".git").rename(ws / "git"),
    "a gitfile": lambda git, ws, other: (
        (ws / ".git").rename(ws / "git"), (ws / ".git").write_text("gitdir: git\n"),
    ),
    "a gitfile with blanks": lambda git, ws, other: (
        (ws / ".git").rename(ws / "git"), (ws / ".git").write_text("  gitdir: git\n"),
    ),
    "a link": lambda git, ws, other: replaced(ws / ".git", other / ".git"),
    "an empty folder": lambda git, ws, other: ((ws / ".git").rename(ws / "git"), (ws / ".git").mkdir()),
    "a folder that is one itself": lambda git, ws, other: (
        (ws / "HEAD").touch(), (ws / "objects").mkdir(), (ws / "refs").mkdir(),
    ),
    "no head": lambda git, ws, other: (ws / ".git/HEAD").unlink(),
    "a head of nothing": lambda git, ws, other: (ws / ".git/HEAD").write_text("x\n"),
    "no settings": lambda git, ws, other: (ws / ".git/config").unlink(),
    "a setting": lambda git, ws, other: git(ws, "config", "core.fsmonitor", "x"),
    "long settings": lambda git, ws, other: (ws / ".git/config").write_text("#" * 300_000),
    "settings that are a FIFO": lambda git, ws, other: (
        (ws / ".git/config").unlink(), os.mkfifo(ws / ".git/config"),
    ),
    "alternates": lambda git, ws, other: (
        ws / ".git/objects/info/alternates"
    ).write_text(f"{other}/.git/objects\n"),
    "a common folder": lambda git, ws, other: (ws / ".git/commondir").write_text(f"{other}/.git\n"),
    "a further work tree": lambda git, ws, other: git(ws, "worktree", "add", "-q", "../tree", "topic"),
    "a submodule": lambda git, ws, other: git(ws, "submodule", "add", "-q", str(other), "sub"),
    "a file of submodules": lambda git, ws, other: (ws / ".gitmodules").symlink_to("nowhere"),
    "a reference that is a link": lambda git, ws, other: replaced(
        ws / ".git/refs/heads/topic", other / ".git/refs/heads/topic",
    ),
    "a reference that is a FIFO": lambda git, ws, other: os.mkfifo(ws / ".git/refs/heads/fifo"),
    "objects that are a link": lambda git, ws, other: replaced(ws / ".git/objects", other / ".git/objects"),
    "some objects that are a link": lambda git, ws, other: (ws / ".git/objects/zz").symlink_to(other),
    "an index that is a link": lambda git, ws, other: replaced(ws / ".git/index", other / ".git/index"),
    "references that are a secret's other name": lambda git, ws, other: (
        ws / ".git/packed-refs"
    ).hardlink_to(other / ".git/HEAD"),
}  # fmt: skip


@pytest.mark.parametrize("made", ODD.values(), ids=ODD.keys())
def test_whatever_leads_elsewhere_or_is_missing_is_told(git, place, made) -> None:
    made(git, place, place.parent / "other")
    assert doubts_of(str(place)) != ()


def test_a_further_work_tree_is_not_plain(git, place) -> None:
    git(place, "worktree", "add", "-q", "../tree", "topic")
    assert doubts_of(str(place.parent / "tree")) == (".git is no folder",)


def test_the_look_is_bounded(git, place, monkeypatch) -> None:
    monkeypatch.setattr(repository, "_MOST_ENTRIES", 5)
    assert ".git is too big to tell" in doubts_of(str(place))
    for at in range(20):
        git(place, "config", f"filter.x{at}.clean", "x")
    assert doubts_of(str(place)) == tuple(f"filter.x{at}.clean" for at in range(4))


def test_what_cannot_be_entered_is_told(place) -> None:
    if os.geteuid() == 0:
        pytest.skip("root enters every folder")
    (place / ".git" / "refs").chmod(0)
    try:
        assert "a part of .git cannot be read" in doubts_of(str(place))
    finally:
        (place / ".git" / "refs").chmod(0o755)


def test_a_folder_without_a_repository_is_named_as_one(tmp_path) -> None:
    assert repository.doubts_of(str(tmp_path)) == ("there is no .git here",)
    (tmp_path / ".git").mkdir()
    assert "there is no .git here" not in repository.doubts_of(str(tmp_path))
