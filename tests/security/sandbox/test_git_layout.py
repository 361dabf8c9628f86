"""Files of a repository are classified; an unknown one is never kept."""

from __future__ import annotations

import pytest

from leeward.security.sandbox import (
    OddRefs,
    Part,
    is_ref_name,
    is_stored,
    judge_settings,
    logged,
    packed_refs,
    part_of,
    ref_value,
    settings_listed,
)

OID = "1" * 40


@pytest.mark.parametrize(
    ("rest", "part"),
    [
        ("HEAD", Part.HEAD),
        ("index", Part.INDEX),
        ("config", Part.CONFIG),
        ("refs/heads/a/b", Part.REF),
        ("logs/refs/heads/a", Part.LOG),
        (f"objects/{OID[:2]}/{OID[2:]}", Part.LOOSE_OBJECT),
        (f"objects/pack/pack-{OID}.idx", Part.PACK),
        ("COMMIT_EDITMSG", Part.MESSAGE),
        ("index.lock", Part.LEFTOVER),
    ],
)
def test_what_git_keeps_is_known(rest, part) -> None:
    assert part_of(rest) is part


@pytest.mark.parametrize(
    "rest",
    [
        "hooks/pre-commit", "hooks/pre-commit.sample.sh", "info/attributes", "info/grafts", "config.worktree",
        "commondir", "gitdir", "modules/x/config", "worktrees/x/HEAD", "objects/info/alternates",
        "objects/info/http-alternates", "refs/replace/x", "logs/refs/replace/x", "head", "INDEX", "x",
        "objects/zz/x", "rr-cache/x", "remotes/x", "shared", "sharedindex.x", "hooks/../x", "config\n",
    ],
)  # fmt: skip
def test_what_git_runs_or_is_led_by_is_not_kept(rest) -> None:
    assert part_of(rest) is Part.DENIED
    assert not is_stored(f"/ws/.git/{rest}")


@pytest.mark.parametrize("path", ["/ws/.git/index", "/ws/sub/.git/refs/heads/main", "/ws/.git/objects"])
def test_what_git_stores_may_be_written(path) -> None:
    assert is_stored(path)


@pytest.mark.parametrize("path", ["/ws/git/index", "/ws/.git", "/ws/.gitx/HEAD", "/ws/.git/index.lock"])
def test_nothing_else_may(path) -> None:
    assert is_stored(path) is (path == "/ws/.git")


@pytest.mark.parametrize(
    "name",
    [
        "refs/heads/..",
        "refs/heads/a..b",
        "refs/heads/a.lock",
        "refs/heads/@{x",
        "refs/heads/\x1b",
        "refs/",
        "x",
    ],
)
def test_names_that_git_refuses_are_none(name) -> None:
    assert not is_ref_name(name)


@pytest.mark.parametrize(
    "content", [b"", b"x", OID.encode(), b"ref: ../../x\n", f"{OID}\n{OID}\n".encode(), b"\xff" * 41]
)
def test_a_reference_holds_a_hash_or_a_name(content) -> None:
    with pytest.raises(OddRefs):
        ref_value(content)
    assert ref_value(f"{OID}\n".encode()) == OID
    assert ref_value(b"ref: refs/heads/main\n") == "refs/heads/main"


def test_packed_references_are_read_in_order_or_not_at_all() -> None:
    head = "# pack-refs with: peeled fully-peeled sorted \n"
    good = f"{head}{OID} refs/heads/a\n{OID} refs/tags/t\n^{'2' * 40}\n"
    assert packed_refs(good.encode()) == {"refs/heads/a": (OID, None), "refs/tags/t": (OID, "2" * 40)}
    for bad in (f"{head}{OID} refs/b\n{OID} refs/a\n", f"{OID} refs/a\n{OID} refs/a\n", f"{OID} x\n", "x\n"):
        with pytest.raises(OddRefs):
            packed_refs(bad.encode())


def test_a_log_has_lines_as_git_writes_them() -> None:
    line = f"{'0' * 40} {OID} Ann <a@b> 1700000000 +0100\tcommit: x\n"
    assert logged(line.encode()) == [("0" * 40, OID, "commit: x")]
    with pytest.raises(OddRefs):
        logged(line.encode() + b"x\n")


KNOWN = {"remote.origin.url": ("https://example.com/x",)}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("remote.up.url", "https://example.com/y.git", "remote up becomes https://example.com/y.git"),
        ("remote.up.url", "git@example.com:y.git", "remote up becomes git@example.com:y.git"),
        ("remote.up.url", "https://ann:pw@example.com/y", "remote up becomes https://ann:***@example.com/y"),
        ("branch.main.remote", "origin", "branch main follows remote origin"),
        ("branch.main.merge", "refs/heads/main", "branch main is pulled from main"),
    ],
)
def test_where_a_remote_lies_and_what_a_branch_follows_is_asked_about(key, value, told) -> None:
    judged = judge_settings(KNOWN, {**KNOWN, key: (value,)})
    assert judged.asks == (told,) and not judged.denied


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alias.x", "!sh"), ("core.pager", "sh"), ("core.hookspath", "h"), ("filter.x.smudge", "sh"),
        ("include.path", "x"), ("user.name", "Eve"), ("remote.x.uploadpack", "sh"), ("remote.x.vcs", "sh"),
        ("remote.x.url", "ext::sh -c id"), ("remote.x.url", "http://example.com/x"), ("remote.x.url", "-x"),
        ("remote.x.url", "https://example.com/\u202ex"), ("remote.x.fetch", "+refs/*:refs/heads/*"),
        ("branch.main.remote", "ext::sh"), ("branch.main.merge", "refs/heads/../x"), ("url.x.insteadof", "y"),
        ("remote.-x.url", "https://example.com/"), ("credential.helper", "!sh"), ("core.fsmonitor", "sh"),
    ],
)  # fmt: skip
def test_any_other_setting_is_never_kept(key, value) -> None:
    assert judge_settings(KNOWN, {**KNOWN, key: (value,)}).denied


def test_a_new_repository_may_have_what_git_writes_and_no_more() -> None:
    listed = settings_listed("core.repositoryformatversion\n0\0core.bare\nfalse\0core.filemode\ntrue\0")
    assert judge_settings({}, listed, is_new=True) == judge_settings({}, {}, is_new=True)
    assert judge_settings({}, {"core.worktree": ("/",)}, is_new=True).denied
