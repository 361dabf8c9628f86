"""What a plain repository is: all its settings are known, and none of its parts says where else to look."""

import pytest

from leeward.security.command import is_plain_head, leads_elsewhere, odd_settings

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
    [
        ("", ()),
        (CLONED, ()),
        (CLONED.replace("\n", "\r\n"), ()),
        (CLONED + "[core]\n\tfsmonitor = x\n", ("core.fsmonitor",)),
        ("[core] ; \n bare = false # x\n", ()),
        ('[filter "lfs"]\n\tclean = git-lfs clean\n\trequired = true\n', ("filter.lfs.clean", "filter.lfs.required")),
        ('[FILTER "X"]CLEAN=x', ("filter.x.clean",)),
        ('[filter "a"] ; comment\n# clean = x\n smudge = x', ("filter.a.smudge",)),
        ('[x]\n a = b # c \\\n[filter "evil"]\n clean = y\n', (ODD, "filter.evil.clean")),
        ('[filter "evil"]\n a = b\x0c[x]\n clean = y\n', (ODD, "filter.evil.clean")),
        ("[user]\n name = b\u2028[x]\n", (ODD,)),
        ("[user]\n name = b\r[x]\n email = y\n", (ODD,)),
        ("[include]\npath = x\n", ("include.path",)),
        ('[includeIf "gitdir:~/"]\npath = x\n', ("includeif.gitdir:~/.path",)),
        ("\ufeff[core]\nworktree = /", ("core.worktree",)),
        ('[remote "o"]\nurl = https://x.example\nuploadpack = evil\npromisor\n', ("remote.o.uploadpack", "remote.o.promisor")),
        ("[branch]\n sort = signature\n", ("branch.sort",)),
        ('[branch ""]\n remote = x\n', ("branch.remote",)),
        ('[branch "x"]\n mergeOptions = --strategy=evil\n', ("branch.x.mergeoptions",)),
        ("[extensions]\n objectFormat = sha256\n", ("extensions.objectformat",)),
        ("clean = x", (ODD,)),
    ],
)  # fmt: skip
def test_what_is_not_known_to_be_plain_is_named(config, found):
    assert odd_settings(config) == found


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
