"""Which settings a repository has, held against git itself."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from leeward.security.sandbox.git_settings import ODD_SETTING, setting_names
from leeward.security.sandbox.tampering import harmful_settings

HEADERS = [
    "[core]\n", "[core] ", '[Filter "Evil"]\n', '[filter "a.b"]', "[filter.old]\n", "[ include ]\n",
    '[includeIf "gitdir:~/"]\n', '[filter "q\\"q"]\n', '[remote "o"]\n', "[a.b.c]\n", "[x]clean = y\n",
    "[a]\n[b] c = d\n",
]  # fmt: skip
KEYS = [
    "\tclean = x\n", " smudge=y\n", "process = z ; c\n", "path = p\n", "worktree=/\n", "a-b = c\n", "Bare\n",
    "UploadPack = e\n", "url = u\n", 'k = "v ; #"\n', "k=\tv\t\n", "k = [filter]\n", "k = v\r\n", "# c\n",
    "; c\n", "\n", "  \n",
]  # fmt: skip
ODD = [
    "k = v\\\n", "k = a \\\n  b\n", "k = a \\\n[core]\n", "#x \\\n", 'k = \\"\n', 'k = "a\nb"\n', "=x\n",
    "1a = b\n", "\x0c", "[", "]", "x", "[core]a=b[c]\n", "k_ = v\n", "k ! v\n", "\r\n",
]  # fmt: skip


def random_config(chance: random.Random) -> str:
    """A section or two with some keys, and sometimes something in between that is hard to read."""
    found = []
    for _ in range(chance.randrange(1, 3)):
        found += [chance.choice(HEADERS), *chance.choices(KEYS, k=chance.randrange(1, 4))]
    if chance.random() < 0.4:
        found.insert(chance.randrange(len(found) + 1), chance.choice(ODD))
    return "".join(found)


def names_by_git(config: str, folder) -> list[str] | None:
    """The names git reads from a file, or None where it does not read it."""
    file = folder / "config"
    file.write_bytes(config.encode())
    done = subprocess.run(
        ["git", "config", "-f", str(file), "--list", "--name-only", "-z"], capture_output=True, timeout=20,
        check=False,
    )  # fmt: skip
    return None if done.returncode else done.stdout.decode().split("\0")[:-1]


def missed(config: str, folder) -> list[str]:
    """What git reads there and nobody here names, though nothing was said to be unclear."""
    ours = {name if name is ODD_SETTING else name.replace("\\", "") for name in setting_names(config)}
    theirs = names_by_git(config, folder) or []
    return [] if ODD_SETTING in ours else [name for name in theirs if name.lower() not in ours]


@pytest.mark.parametrize("seed", range(3))
def test_no_setting_git_reads_goes_unnamed(tmp_path, seed):
    chance = random.Random(seed)
    configs = [random_config(chance) for _ in range(60)]
    assert [(config, names) for config in configs if (names := missed(config, tmp_path))] == []
    clear = [config for config in configs if ODD_SETTING not in set(setting_names(config))]
    assert len(clear) > 30, "the property must not hold of nothing"


@pytest.mark.parametrize(
    "setting",
    [
        "filter.x.clean", "filter.x.smudge", "filter.a b.process", "include.path", "includeif.gitdir:/x.path",
        "core.worktree", "core.alternaterefscommand", "extensions.worktreeconfig", "extensions.partialclone",
        "remote.o.promisor", "remote.o.vcs", "remote.o.uploadpack", "blame.ignorerevsfile",
    ],
)  # fmt: skip
def test_every_setting_that_runs_something_is_named_as_git_writes_it(tmp_path, setting):
    """Written by git itself, so that it is read as git spells it; its neighbours are no reason to ask."""
    file = tmp_path / "c"
    for name, value in (
        (setting, "x"), ("user.name", "x"), ("core.bare", "false"), ("remote.o.url", "x"),
        ("branch.a.b.merge", "x"),
    ):  # fmt: skip
        subprocess.run(["git", "config", "-f", str(file), name, value], check=True, timeout=20)
    assert harmful_settings(file.read_bytes()) == (setting,)


HOSTILE = [
    "[a" + " " * 250_000 + "x", "[a" + "\t" * 4000 + "x", "[a" + " " * 2000 + '"b' + " " * 2000,
    '[a "' + "\\x" * 2000, '[a "' + "b" * 4000, "[a]" * 60_000, "[" * 4000, "[" + "a" * 4000,
    "[a]" * 1300 + "x", "k" * 250_000, "k" + " " * 4000 + "=", "=" * 250_000,
]  # fmt: skip


def test_no_text_of_settings_keeps_a_verdict_waiting():
    """Each line is repeated to the size at which settings are no longer read; run apart, for a hang
    is one.
    """
    code = (
        "import sys; from leeward.security.sandbox.tampering import harmful_settings; "
        "print(len(harmful_settings(sys.stdin.buffer.read())))"
    )
    for line in HOSTILE:
        text = "[core]\n\tbare = false\n" + f"{line}\n" * (256 * 1024 // len(line))
        done = subprocess.run(
            [sys.executable, "-c", code], input=text, capture_output=True, text=True, timeout=60
        )
        assert done.stdout in {"0\n", "1\n"}, (line[:40], done)


def test_a_line_longer_than_any_setting_is_odd():
    assert harmful_settings(b"[core]\n\tbare = false\n#" + b"x" * 4100) == (ODD_SETTING,)
    assert harmful_settings(b'[remote "o"]\n\turl = https://git.example/' + b"x" * 3000) == ()
