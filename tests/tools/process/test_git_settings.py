"""Settings copied from a person's git: read as git does, nothing that executes, conditions kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.tools.process import environment, git_settings
from leeward.tools.process.git_settings import settings_of


def asked(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    return subprocess.run(
        ["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def taken(tmp_path: Path, text: str, home: Path | None = None, **parent: str) -> dict[str, str]:
    """What git makes of what was taken over of a person's settings."""
    home = tmp_path / "home" if home is None else home
    home.mkdir(exist_ok=True)
    (home / ".gitconfig").write_text(text)
    return of_files(tmp_path, git_settings(parent, str(home)))


def of_files(tmp_path: Path, files: dict[str, str], folder: Path | None = None) -> dict[str, str]:
    for name, content in files.items():
        (tmp_path / name).write_text(
            content.replace("/etc/gitconfig", "/nonexistent"), errors="surrogateescape"
        )
    done = asked(
        folder or tmp_path,
        "config",
        "--system",
        "--includes",
        "--list",
        "-z",
        GIT_CONFIG_SYSTEM=f"{tmp_path}/gitconfig",
    )
    assert done.returncode == 0, done.stderr
    pairs = (entry.partition("\n") for entry in done.stdout.split("\0") if entry)
    return {name: value for name, _, value in pairs if not name.startswith("include")}


def test_who_one_is_and_what_runs_nothing_is_taken_over(tmp_path):
    text = (
        '[user]\n\tname = "Ada \\"the\\" Lovelace" ; comment\n\temail=ada@example.com # more\n'
        "[init]\n\tdefaultBranch = trunk\n[pull]\n\trebase\n[core]\n\tautocrlf = input\n"
        "\tquotePath = off\n[push] default = simple\n[merge]\nconflictStyle=zdiff3"
    )
    assert taken(tmp_path, text) == {
        "user.name": 'Ada "the" Lovelace', "user.email": "ada@example.com", "init.defaultbranch": "trunk",
        "pull.rebase": "true", "core.autocrlf": "input", "core.quotepath": "off", "push.default": "simple",
        "merge.conflictstyle": "zdiff3",
    }  # fmt: skip


RUNS = (
    "core.fsmonitor core.editor core.pager core.hooksPath core.sshCommand core.askPass core.gitProxy "
    "core.attributesFile core.excludesFile core.worktree core.alternateRefsCommand diff.external "
    "diff.x.command diff.x.textconv merge.x.driver alias.st alias.commit credential.helper "
    "credential.https://x.helper gpg.program gpg.ssh.program commit.gpgSign tag.gpgSign "
    "user.signingKey filter.x.clean filter.x.process url.ext::x.insteadOf sequence.editor "
    "init.templateDir pager.log remote.origin.uploadpack remote.origin.url uploadpack.packObjectsHook "
    "http.proxy protocol.ext.allow difftool.x.cmd safe.directory log.showSignature format.pretty "
    "submodule.recurse commit.template interactive.diffFilter help.autocorrect sendemail.smtpServer "
    "browser.x.cmd man.x.cmd trailer.x.command extensions.worktreeConfig include.path unknown.key "
    "trace2.eventTarget instaweb.httpd receive.denyCurrentBranch gc.auto maintenance.auto user.x.name"
).split()  # fmt: skip


@pytest.mark.parametrize("key", RUNS)
@pytest.mark.parametrize("spelled", [str, str.upper])
def test_what_could_run_something_is_not_whatever_its_name(tmp_path, key, spelled):
    section, _, name = key.rpartition(".")
    top, dot, below = section.partition(".")
    header = f'{spelled(top)} "{below}"' if dot else spelled(top)
    text = f"[{header}]\n\t{spelled(name)} = {tmp_path}/evil\n[user]\n\tname = Ada\n"
    assert taken(tmp_path, text) == {"user.name": "Ada"}


@pytest.mark.parametrize(
    "value",
    [
        '"Ada\\n[core]\\n\\tpager = evil"', '"Ada\\n"', '"a\\tb"', '"\\b"', "a\x1b[31mb", "a\x7fb", "a\x9bb",
        "a\u2028b", "x" * 600, '""', "a\0b",
    ],
)  # fmt: skip
def test_a_value_is_one_line_of_ordinary_characters(tmp_path, value):
    assert taken(tmp_path, f"[user]\n\tname = {value}\n\temail = a@b\n").keys() <= {"user.email"}


@pytest.mark.parametrize("key", ["tag", "branch"])
@pytest.mark.parametrize(
    "value", ["signature", "-signature:grade", "-*signature", "%(signature)", "contents"]
)
def test_an_order_that_has_signatures_checked_is_not(tmp_path, key, value):
    assert taken(tmp_path, f"[{key}]\n\tsort = {value}\n[tag]\n\tsort = -version:refname\n") == {
        "tag.sort": "-version:refname"
    }


@pytest.mark.parametrize("key", ["enabled", "autoupdate"])
def test_what_makes_git_keep_more_than_asked_for_is_not(tmp_path, key):
    assert taken(tmp_path, f"[rerere]\n\t{key} = true\n") == {}


@pytest.mark.parametrize("value", ["!sh -c evil", "$(evil)", "`evil`", "a|b", "'x'", "ü"])
def test_a_value_that_is_no_name_is_a_plain_word(tmp_path, value):
    assert taken(tmp_path, f'[pull]\n\trebase = "{value}"\n[user]\n\tname = "{value}"\n') == {
        "user.name": value
    }


@pytest.mark.parametrize(
    "text",
    ["[user\nname = x", "name = x\n", '[user]\nname = "x\n', "[user]\nname = \\x", "[user]\nna_me = x", "\0"],
)
def test_of_what_git_would_not_read_nothing_is_taken_over(tmp_path, text):
    assert taken(tmp_path, f"[user]\n\temail = a@b\n{text}" if "user" in text else text) == {}


PIECES = st.lists(
    st.sampled_from(
        ["a", " ", "\t", "\\\\", '\\"', "\\n", "\\\n", '"', '"b  c"', ";", "#", "=", "[", "]"]
        + ["\n", "\r\n", "ü", "\\t", "x = y", "[user]"]
    ),
    max_size=10,
).map("".join)  # fmt: skip


@given(PIECES)
@example('"a" b  "c"  ')
@example("a \\\n b")
@example("  a\t \tb ; c")
def test_settings_are_read_as_git_reads_them(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("read")
    text = f"[user]\nname = {value}\nemail = e\n"
    (folder / "config").write_text(text, newline="")
    done = asked(folder, "config", "--file", "config", "--list", "-z")
    try:
        mine = [
            ".".join(filter(None, (section, below, key))) + "\n" + told
            for section, below, key, told in settings_of(text)
        ]
    except ValueError:
        mine = None
    theirs = [entry if "\n" in entry else f"{entry}\ntrue" for entry in done.stdout.split("\0")[:-1]]
    # Of white space within a value older versions of git make spaces.
    mine, theirs = ([told.replace("\t", " ") for told in each or ()] for each in (mine, theirs))
    assert mine == theirs or done.returncode != 0


def test_the_places_are_gits_own_and_the_later_one_outweighs(tmp_path):
    home = tmp_path / "home"
    for place, text in (
        (home / ".config" / "git" / "config", "[user]\nname = Xdg\nemail = xdg@example.com\n"),
        (tmp_path / "other" / "git" / "config", "[user]\nemail = other@example.com\n"),
        (tmp_path / "named", "[user]\nname = Named\n"),
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    mine = "[user]\nname = Mine\n"
    assert taken(tmp_path, mine) == {"user.name": "Mine", "user.email": "xdg@example.com"}
    assert taken(tmp_path, mine, XDG_CONFIG_HOME=f"{tmp_path}/other") == {
        "user.name": "Mine",
        "user.email": "other@example.com",
    }
    assert taken(tmp_path, mine, GIT_CONFIG_GLOBAL=f"{tmp_path}/named") == {"user.name": "Named"}


def test_an_include_stands_where_it_was_and_a_condition_stays_one(tmp_path):
    home = tmp_path.resolve() / "home"
    (home / "work" / "repo").mkdir(parents=True)
    (home / "mine").mkdir()
    (home / "sub").mkdir()
    (home / "first").write_text("[user]\nname = First\nemail = first@example.com\n[core]\npager = evil\n")
    (home / "sub" / "work").write_text(
        "[user]\nemail = work@example.com\n[core]\nfsmonitor = evil\n[include]\npath = deeper\n"
    )
    (home / "sub" / "deeper").write_text("[init]\ndefaultBranch = deep\n")
    for repository in ("work/repo", "mine"):
        asked(home / repository, "init", "-q")
    text = (
        '[include]\npath = first\n[user]\nname = Ada\n[includeIf "gitdir:~/work/"]\npath = ~/sub/work\n'
        '[includeIf "gitdir:x\\"y"]\npath = first\n'
    )
    assert taken(tmp_path, text, home) == {"user.name": "Ada", "user.email": "first@example.com"}
    files = git_settings({}, str(home))
    for folder, email in (("work/repo", "work@example.com"), ("mine", "first@example.com")):
        of_files(tmp_path, files)
        done = asked(home / folder, "config", "user.email", GIT_CONFIG_SYSTEM=f"{tmp_path}/gitconfig")
        assert done.stdout.strip() == email
    assert not any("evil" in text for text in files.values())


def test_reading_ends_whatever_includes_what(tmp_path):
    home = tmp_path.resolve() / "home"
    home.mkdir()
    os.mkfifo(home / "fifo")
    (home / "folder").mkdir()
    (home / "long").write_text("[user]\nname = x\n" * 100_000)
    names = (".gitconfig", "fifo", "folder", "long", "missing", "/dev/zero", "~nobody/x")
    text = "".join(f'[include]\npath = {name}\n[includeIf "gitdir:/"]\npath = {name}\n' for name in names)
    (home / ".gitconfig").write_text(f"{text}[user]\nname = Ada\n")
    files = git_settings({}, str(home))
    assert len(files) <= 33 and of_files(tmp_path, {**files}).get("user.name") == "Ada"


def test_without_settings_there_is_nothing_but_the_systems(tmp_path):
    assert git_settings({}, str(tmp_path)) == {"gitconfig": '[include]\n\tpath = "/etc/gitconfig"\n'}


def test_a_repositorys_own_settings_and_a_lines_outweigh_it(tmp_path):
    home = tmp_path.resolve() / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.com\n[pull]\nrebase = true\n")
    of_files(tmp_path, git_settings({}, str(home)))
    repository = tmp_path / "r"
    repository.mkdir()
    system = {"GIT_CONFIG_SYSTEM": f"{tmp_path}/gitconfig", "HOME": str(tmp_path)}
    asked(repository, "init", "-q", **system)
    asked(repository, "config", "user.email", "project@example.com", **system)
    asked(repository, "config", "--global", "pull.rebase", "false", **system)
    values = [
        asked(repository, "config", key, **system).stdout.strip()
        for key in ("user.name", "user.email", "pull.rebase")
    ]
    assert values == ["Ada", "project@example.com", "false"]


# ------------------------------------------------------------------ variables


def test_locale_time_zone_width_and_who_commits_are_the_persons():
    parent = {
        "LANG": "de_DE.UTF-8", "LANGUAGE": "de:en", "LC_COLLATE": "C", "TZ": "Europe/Vienna",
        "COLUMNS": "132", "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "a@b", "EMAIL": "a@b",
    }  # fmt: skip
    assert environment("/home/me", parent).items() >= parent.items()


@pytest.mark.parametrize(
    "parent",
    [
        {"GIT_AUTHOR_NAME": "a\nb"}, {"GIT_AUTHOR_DATE": "now"}, {"GIT_CONFIG_COUNT": "1"},
        {"GIT_CONFIG_GLOBAL": "/x"}, {"GIT_DIR": "/x"}, {"GIT_SSH_COMMAND": "x"}, {"GIT_EXTERNAL_DIFF": "x"},
        {"LC_ALL": ""}, {"LESSOPEN": "x"}, {"BASH_ENV": "x"}, {"LC_all": "x"}, {"VIRTUAL_ENV": "/x"},
        {"PYTHONPATH": "/x"}, {"COLUMNS": "0"}, {"COLUMNS": "99999"}, {"COLUMNS": "-1"}, {"COLUMNS": "8 0"},
    ],
)  # fmt: skip
def test_nothing_else_of_the_persons_variables_is(parent):
    told = environment("/home/me", parent)
    assert all(told.get(name) != value for name, value in parent.items())


def test_one_that_says_whose_editor_runs_stays_ours():
    told = environment("/home/me", {"GIT_EDITOR": "vim", "GIT_PAGER": "less", "EDITOR": "vim"})
    assert (told["GIT_EDITOR"], told["GIT_PAGER"], told["EDITOR"]) == ("false", "cat", "false")
