"""Which settings of a repository make git run something, as git itself would read the file."""

import pytest

from leeward.security.command.repository import running_settings


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ("[core]\n\tbare = false\n[user]\n\tname = Ada\n", ()),
        ('[filter "lfs"]\n\tclean = git-lfs clean\n\trequired = true\n', ("filter.lfs.clean",)),
        ('[FILTER "X"]CLEAN=x', ("filter.x.clean",)),
        ("[filter.old]\n process = x", ("filter.old.process",)),
        ('[filter "a"] ; comment\n# clean = x\n smudge = x', ("filter.a.smudge",)),
        (
            '[x]\n a = b # c \\\n[filter "evil"]\n clean = y\n',
            ("a line that cannot be read", "filter.evil.clean"),
        ),
        ('[filter "evil"]\n a = b\x0c[x]\n clean = y\n', ("a line that cannot be read", "filter.evil.clean")),
        (
            '[filter "evil"]\n a = b\u2028[x]\n clean = y\n',
            ("a line that cannot be read", "filter.evil.clean"),
        ),
        ('[filter "evil"]\n a = b\r[x]\n clean = y\n', ("a line that cannot be read", "filter.evil.clean")),
        ("[user]\r\n name = x\r\n", ()),
        ("[include]\npath = x\n", ("include.path",)),
        ('[includeIf "gitdir:~/"]\npath = x\n', ("includeif.gitdir:~/.path",)),
        ("[core]\nworktree = /etc\n", ("core.worktree",)),
        ('[filter "a\\"b"]\nclean=x\n', ('filter.a\\"b.clean',)),
        ("clean = x", ("a line that cannot be read",)),
        ("\ufeff[core]\nworktree = /", ("core.worktree",)),
        ('[remote "o"]\nurl = https://x.example\nuploadpack = evil\n', ("remote.o.uploadpack",)),
        ("", ()),
    ],
)
def test_what_would_run_is_named(config, found):
    assert running_settings(config) == found
