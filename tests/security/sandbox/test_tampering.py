"""Tampering that must be undone, and everyday changes by git that must not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.sandbox import (
    HOOK_NAMES,
    Mark,
    MarkChange,
    MarkKind,
    Role,
    changes_to_undo,
    places_named,
)
from leeward.security.sandbox.tampering import harmful_settings
from loading import rows_beside

ROWS = rows_beside(__file__)

FOLDER, FILE, LINK = MarkKind.FOLDER, MarkKind.FILE, MarkKind.LINK
REPOSITORY = Mark(Role.REPOSITORY, FOLDER)
PLAIN = b"[core]\n\tbare = false\n[user]\n\tname = Ada\n"
RUNNING = b"[core]\n\tpager = evil\n"


def undone(before: dict[str, Mark], after: dict[str, Mark]) -> list[str]:
    return [change.path for change in changes_to_undo(before, after)]


def file(role: Role, content: bytes | None = b"x", **fields) -> Mark:
    return Mark(role, FILE, fields.pop("digest", str(content)), content=content, **fields)


# What appears where nothing was, and whether it has to go.
NEW = [
    (Mark(Role.REPOSITORY, FOLDER), False), (Mark(Role.HOOK, FOLDER), False),
    (file(Role.SETTINGS, PLAIN), False), (file(Role.SETTINGS, b""), False),
    (file(Role.SETTINGS, RUNNING), True), (file(Role.SETTINGS, None), True),
    (Mark(Role.SETTINGS, LINK, "x"), True), (Mark(Role.SETTINGS, FOLDER), True), (file(Role.HOOK), True),
    (Mark(Role.HOOK, LINK, "x"), True), (Mark(Role.REPOSITORY, LINK, "x"), True),
    (Mark(Role.REPOSITORY, MarkKind.OTHER), True), (file(Role.OURS), True), (Mark(Role.OURS, FOLDER), True),
    (file(Role.PROTECTED), True), (Mark(Role.PROTECTED, FOLDER), True),
    (file(Role.REPOSITORY, b"gitdir: /elsewhere\n"), True), (file(Role.REPOSITORY, b"x"), True),
    (file(Role.REPOSITORY, None), True),
]  # fmt: skip


@pytest.mark.parametrize(("mark", "goes"), NEW)
def test_what_may_appear(mark, goes):
    assert undone({}, {"/ws/p": mark}) == (["/ws/p"] if goes else [])
    assert undone({"/ws/p": mark}, {"/ws/p": mark}) == [], "what was there may stay"


@pytest.mark.parametrize(
    ("content", "goes"),
    ROWS["where_a_file_in_the_place_of_a_repository_may_lead"],
)
def test_where_a_file_in_the_place_of_a_repository_may_lead(content, goes):
    """Into a repository that another one keeps for its parts, as git spells it, and that was looked at."""
    kept = {"/ws/.git": REPOSITORY, "/ws/.git/modules/sub": REPOSITORY}
    assert undone(
        kept, {**kept, "/ws/sub/.git": file(Role.REPOSITORY, content.encode())},
    ) == (["/ws/sub/.git"] if goes else [])  # fmt: skip
    unseen = {"/ws/.git": REPOSITORY}
    assert undone(unseen, {**unseen, "/ws/sub/.git": file(Role.REPOSITORY, content.encode())}) != []


@pytest.mark.parametrize(
    ("content", "owner", "goes"),
    [
        (b"../..\n", "/ws/.git/worktrees/a", False), (b"../..", "/ws/.git/worktrees/a", False),
        (b"../../..\n", "/ws/.git/worktrees/a", True), (b"/evil\n", "/ws/.git/worktrees/a", True),
        (b"../..\n", "/ws/other/worktrees/a", True), (None, "/ws/.git/worktrees/a", True),
    ],
)  # fmt: skip
def test_which_folder_a_work_tree_may_share(content, owner, goes):
    known = {"/ws/.git": REPOSITORY}
    path = f"{owner}/commondir"
    assert undone(known, {**known, path: file(Role.COMMON_FOLDER, content, owner=owner)}) == (
        [path] if goes else []
    )


CHANGED = [
    (file(Role.HOOK, b"a"), file(Role.HOOK, b"b"), True),
    (file(Role.HOOK, b"a", mode=0o644), file(Role.HOOK, b"a", mode=0o755), True),
    (file(Role.HOOK, b"a"), Mark(Role.HOOK, LINK, "b'a'"), True),
    (file(Role.SETTINGS, PLAIN), file(Role.SETTINGS, PLAIN + b"\n"), True),
    (REPOSITORY, replace(REPOSITORY, mode=0o700), False),
    (REPOSITORY, Mark(Role.REPOSITORY, LINK, "x"), True),
    (file(Role.OURS, None, digest="1"), file(Role.OURS, None, digest="2"), True),
    (file(Role.OURS, b"a"), file(Role.OURS, None, digest="b'a'"), False),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "goes"), CHANGED)
def test_what_may_be_changed(old, new, goes):
    before, after = {"/ws/p": old}, {"/ws/p": new}
    assert undone(before, after) == (["/ws/p"] if goes else [])
    assert not goes or changes_to_undo(before, after) == (MarkChange("/ws/p", old, new),)


def test_what_is_gone_is_missed_unless_its_repository_went_with_it():
    hook = file(Role.HOOK, owner="/ws/a/.git")
    before = {"/ws/a/.git": REPOSITORY, "/ws/a/.git/hooks/x": hook, "/ws/Makefile": file(Role.PROTECTED)}
    assert undone(before, {"/ws/a/.git": REPOSITORY}) == ["/ws/Makefile", "/ws/a/.git/hooks/x"]
    assert undone(before, {"/ws/Makefile": before["/ws/Makefile"]}) == []


MARKS = st.builds(
    Mark, st.sampled_from(Role), st.sampled_from(MarkKind), st.sampled_from(["a", "b"]),
    st.sampled_from([0, 0o755]), st.sampled_from([None, b"", PLAIN, RUNNING]),
    st.sampled_from(["", "/ws/.git"]),
)  # fmt: skip
TREES = st.dictionaries(st.sampled_from(["/ws/.git", "/ws/.git/config", "/ws/a", "/ws/a/b"]), MARKS)


@given(TREES, TREES)
def test_undoing_what_is_named_leaves_nothing_to_undo(before, after):
    """Each change is one that happened, outer folders come first, and with all undone the tree is at rest."""
    changes = changes_to_undo(before, after)
    assert all(before.get(one.path) == one.before and after.get(one.path) == one.after for one in changes)
    assert [one.path for one in changes] == sorted(one.path for one in changes)
    again = dict(after)
    for one in changes:
        again.pop(one.path, None)
        if one.before is not None:
            again[one.path] = one.before
    # What is put back may be what a new thing was allowed by, or what misses another; then there is less.
    left = changes_to_undo(before, again)
    assert all(one.path not in {change.path for change in changes} for one in left)


def test_what_git_writes_every_day_is_harmless_and_what_runs_something_is_not(git, tmp_path):
    """Written by git itself: `init`, `clone`, branches, remotes, submodules; and then one setting after
    another.
    """
    git(tmp_path, "init", "-q", "-b", "main", "a")
    git(tmp_path / "a", "commit", "-q", "--allow-empty", "-m", "x")
    git(tmp_path, "clone", "-q", "a", "b")
    git(tmp_path / "b", "remote", "add", "other", "https://a.example/x")
    git(tmp_path / "b", "checkout", "-q", "-b", "topic", "--track", "origin/main")
    git(tmp_path / "b", "submodule", "add", "-q", str(tmp_path / "a"), "sub")
    git(tmp_path / "b", "config", "pull.rebase", "true")
    config = tmp_path / "b" / ".git" / "config"
    assert harmful_settings(config.read_bytes()) == ()
    for name in (
        "core.pager", "core.hookspath", "core.fsmonitor", "core.sshcommand", "core.worktree", "alias.a",
        "filter.x.clean", "diff.x.textconv", "include.path", "credential.helper", "remote.origin.vcs",
        "submodule.sub.update", "url.a.insteadof", "unheard.of",
    ):  # fmt: skip
        git(tmp_path, "config", "-f", str(config), name, "x")
        assert name in harmful_settings(config.read_bytes()), name


def test_where_a_repositorys_settings_lead():
    config = (
        b'[core]\nhooksPath = "a b"\n[include]\npath = x\n[includeIf "gitdir:/y"]\npath = '
        b"../y\n[user]\nname = z\n"
    )
    assert places_named(config) == (("a b",), ("x", "../y"))
    assert places_named(PLAIN) == ((), ()) and {"pre-commit", "post-checkout"} <= set(HOOK_NAMES)
