"""Which settings a repository has, held against git itself; which forms of git are plain, in every
spelling.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from leeward.security.command import ODD_SETTING, odd_settings, parse_command, setting_names
from leeward.security.command.programs.git import (
    git_notes,
    git_runs,
    neutralised,
    plain_form,
    without_globals,
)
from leeward.security.command.syntax.nodes import literal
from loading import rows_beside

ROWS = rows_beside(__file__)

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
    assert odd_settings(file.read_text()) == (setting,)


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
        "import sys; from leeward.security.command import odd_settings; "
        "print(len(odd_settings(sys.stdin.read())))"
    )
    for line in HOSTILE:
        text = "[core]\n\tbare = false\n" + f"{line}\n" * (256 * 1024 // len(line))
        done = subprocess.run(
            [sys.executable, "-c", code], input=text, capture_output=True, text=True, timeout=60
        )
        assert done.stdout in {"0\n", "1\n"}, (line[:40], done)


def test_a_line_longer_than_any_setting_is_odd():
    assert odd_settings("[core]\n\tbare = false\n#" + "x" * 4100) == ("a line that cannot be read",)
    assert odd_settings('[remote "o"]\n\turl = https://git.example/' + "x" * 3000) == ()


PLAIN = ROWS["plain"]
OTHER = ROWS["other"]


def words(line: str):
    return parse_command(f"git {line}").root.words


@pytest.mark.parametrize("line", PLAIN)
def test_plain_forms_run_neutralised_in_the_root_of_the_workspace(world, line):
    for text in (
        f"git {line}", f"git --no-pager {line}", f"/usr/bin/git {line}", f"cd /srv/ws && git {line}",
        f"! git {line} | head",
    ):  # fmt: skip
        assert world.say(text) == "nothing", text
        printed = parse_command(text).printed
        assert "core.fsmonitor=false" in printed and "core.hooksPath=/dev/null" in printed
        assert ("status --ignore-submodules=all" in printed) == (plain_form(words(line)) == "status")


@pytest.mark.parametrize("line", PLAIN)
def test_plain_forms_elsewhere_or_started_by_another_program_are_asked_about(world, line):
    for text in (
        f"cd src && git {line}", f"cd src; git {line}", f"cd ..; git {line}", f"cd $x; git {line}",
        f"timeout 5 git {line}", f"env git {line}", f"command git {line}", f"sh -c 'git {line}'",
        f"find . -exec git {line} ';'", f"echo | xargs -I x git {line}", f"git.exe {line}",
        f"/opt/git {line}", f"./git {line}",
    ):  # fmt: skip
        assert world.say(text) in {"ask", "force"}, text


@pytest.mark.parametrize("line", OTHER)
def test_every_other_line_of_git_is_asked_about_and_runs_as_it_stands(world, line):
    assert plain_form(words(line)) is None
    assert world.say(f"git {line}") in {"ask", "force"}
    assert "core.fsmonitor=false" not in parse_command(f"git {line}").printed


def test_what_tells_no_more_than_a_version_or_a_folder_needs_no_plain_repository(world):
    world.repositories = {"/srv/ws": ("core.fsmonitor",)}
    for line in (
        "git --version", "timeout 5 git --version", "git rev-parse --show-toplevel",
        "cd src && git rev-parse --show-toplevel",
    ):  # fmt: skip
        assert world.say(line) == "nothing", line
    assert "core.hooksPath=/dev/null" in parse_command("git rev-parse --show-toplevel").printed


@pytest.mark.parametrize(
    ("line", "said"),
    ROWS["what_shows_a_secret_file_by_its_name_is_refused"],
)
def test_what_shows_a_secret_file_by_its_name_is_refused(world, line, said):
    assert world.say(f"git {line}") == said


def test_the_words_behind_the_neutral_ones_are_those_that_were_written():
    """Nothing is put where it would be the value of something, and nothing written gets lost."""
    for line in PLAIN:
        plain, run = [word.text for word in words(line)], [word.text for word in neutralised(words(line))]
        left = iter(run)
        assert all(text in left for text in plain), line
        values = [run[at + 1] for at, text in enumerate(run[:-1]) if text == "-c"]
        assert values and all(re.fullmatch(r"[a-z]+\.[A-Za-z]+=.*", value) for value in values), line


@pytest.mark.parametrize(
    ("line", "noted"),
    ROWS["what_may_start_a_program_of_somebodys_choosing"],
)
def test_what_may_start_a_program_of_somebodys_choosing(line, noted):
    assert bool(git_notes(words(line))) == noted


@pytest.mark.parametrize(
    ("line", "code"),
    ROWS["what_git_hands_to_a_shell"],
)
def test_what_git_hands_to_a_shell(line, code):
    assert [word.text for word in git_runs(words(line))] == code


def test_without_globals_takes_the_value_of_an_option_for_no_command():
    said = [
        without_globals(tuple(map(literal, line.split())))
        for line in (
            "-C push log", "-c push=x log", "--git-dir push log", "--git-dir=push log", "--namespace a log",
            "--bare log", "log -C push",
        )
    ]  # fmt: skip
    assert said == [("log",)] * 6 + [("log", "-C", "push")]
