"""What a plain repository is: all its settings are known, and none of its parts says where else to look."""

import pytest

from leeward.security.command import is_plain_head, leads_elsewhere, odd_settings
from loading import rows_beside

ROWS = rows_beside(__file__)

CLONED = """[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[remote "origin"]
	url = git@host.example:ada/tool.git
	fetch = +refs/heads/*:refs/remotes/origin/*
	gh-resolved = base
[branch "main"]
	remote = origin
	merge = refs/heads/main
	vscode-merge-base = origin/main
[branch "feature/a.b"]
	remote = origin
	merge = refs/heads/feature/a.b
	rebase = true
[user]
	name = Ada [filter "x"]
	email = ada@example.org
[pull]
	rebase = false
"""
ODD = "a line that cannot be read"


@pytest.mark.parametrize(
    ("config", "found"),
    [*ROWS["what_is_not_known_to_be_plain_is_named"], (CLONED.replace("\n", "\r\n"), ())],
)
def test_what_is_not_known_to_be_plain_is_named(config, found):
    assert odd_settings(config) == tuple(found)


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("ref: refs/heads/main\n", True),
        ("ref: refs/heads/a/b", True),
        ("0123456789" * 4 + "\n", True),
        ("ref: refs/remotes/o/main\n", False),
        ("ref: elsewhere\n", False),
        ("ref: refs/heads/a b\n", False),
        ("nonsense\n", False),
        ("", False),
    ],
)
def test_a_head_is_a_branch_or_a_commit(text, is_plain):
    assert is_plain_head(text) is is_plain


def test_some_parts_say_where_else_to_look():
    parts = (
        "commondir",
        "CommonDir",
        "gitdir",
        "worktrees",
        "modules",
        "config.worktree",
        "objects/info/alternates",
    )
    assert all(map(leads_elsewhere, parts))
    assert not any(
        map(leads_elsewhere, ("HEAD", "index", "objects/info/packs", "refs/heads/modules", "info/exclude"))
    )
