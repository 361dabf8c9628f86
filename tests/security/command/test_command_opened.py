"""What programs open without being told to: names they complete, files that settings name, folders they compare."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from leeward.security.command.explain import explain
from leeward.security.command.git import neutralised
from leeward.security.command.nouns import literal
from leeward.security.command.read import parse_command
from leeward.security.command.rules import ShellRules

SECRET = "/home/ada/.ssh/id_rsa"


@pytest.mark.parametrize(
    ("link", "line"),
    [
        ("note.gz", "zcat note"),
        ("note.Z", "zcat -f ./note"),
        ("note-z", "gzip -l note"),
        ("a.zip", "unzip -l a"),
        ("a.ZIP", "zipinfo a"),
    ],
)
def test_a_name_that_a_program_completes_is_judged_too(world, link, line):
    assert world.say(line) == "nothing"
    world.links = {f"/srv/ws/{link}": SECRET}
    assert world.say(line) == "deny"


def test_folders_that_git_compares_must_hide_nothing(world):
    assert world.say("git diff a b") == "nothing"
    world.trees = {"/srv/ws/b": ("/srv/ws/b/.env",)}
    assert (
        world.say("git diff a b"),
        world.say("git diff -- a b"),
        world.say("git diff --no-index a b"),
    ) == ("ask", "ask", "ask")
    assert world.say("git diff a c") == "nothing"


def test_a_setting_that_only_blame_obeys_is_asked_about_there(world):
    world.repositories = {"/srv/ws": ("blame.ignorerevsfile",)}
    assert [
        world.say(f"git {form}") for form in ("blame README.md", "annotate README.md", "log", "status")
    ] == ["ask", "ask", "nothing", "nothing"]


def test_no_setting_makes_git_print_a_file(tmp_path):
    def run(*words):
        alone = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            words, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=20, check=False
        )
        return done.stdout + done.stderr

    (tmp_path / "secret").write_text("hunter2 <a@b.example>\n*.hunter2\n")
    (tmp_path / "f").write_text("x\n")
    for line in (
        "git init -q",
        "git add f",
        "git -c user.name=ada -c user.email=a@b.example commit -qm x",
        "git config mailmap.file secret",
        "git config core.excludesFile secret",
    ):
        run(*shlex.split(line))
    for line in (
        "git log --use-mailmap --format=%aN",
        "git shortlog -s HEAD",
        "git check-ignore -v a.hunter2",
    ):
        words = tuple(map(literal, shlex.split(line)))
        assert "hunter2" in run(*(word.text for word in words)), "the attack works on git as it is"
        assert (
            "hunter2 " not in (said := run(*(word.text for word in neutralised(words))))
            and "secret:" not in said
        )


@pytest.mark.parametrize(
    ("entry", "lines", "others"),
    [
        ("rm -rf", ["rm -Rf x", "rm --recursive --force x", "rm --rec --fo x", "rm -r --force x"], ["rm -f x", "rm --rec x"]),
        ("git push --force", ["git push -f", "git push --forc", "git-push -f", "/usr/lib/git-core/git-push --force"], ["git push", "git push --force-with-lease"]),
        ("npm publish", ["npm pub", "npm publ", "npm -s pub"], ["npm p", "npm run pub", "npm test"]),
        ("git push", ["git-push", "/usr/lib/git-core/git-push origin"], ["git pub", "git-pull"]),
    ],
)  # fmt: skip
def test_no_other_spelling_gets_past_what_is_blocked(world, entry, lines, others):
    world.rules = ShellRules(blocked=(entry,))
    assert [line for line in lines if world.say(line) != "deny"] == []
    assert [line for line in others if world.say(line) == "deny"] == []


@pytest.mark.parametrize(
    "line", ["writes: x", "connects to: x", "not understood: x", "runs", "'as' written: x", "pipeline"]
)
def test_no_command_looks_like_a_line_of_ours(line):
    assert explain(parse_command(line), line)[0].startswith("'")


def test_values_that_hold_each_other_end(world):
    doubled = "v0=a;" + ";".join(f"v{at}=$v{at - 1}$v{at - 1}" for at in range(1, 40)) + "; echo > $v39"
    assert world.say(doubled) == "force"
