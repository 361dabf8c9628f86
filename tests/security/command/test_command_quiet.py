"""What makes a line only reading: the program, its options, and where its paths lead."""

from __future__ import annotations

import pytest

from leeward.security.command import Say, effects_of, parse_command, ruling_of, wanted
from leeward.security.kinds import Effect
from leeward.security.policy import Policy


def test_without_facts_nothing_only_reads(world):
    line = parse_command("ls")
    assert ruling_of(line, "ls", world.policy, world.rules).say == Say.ASK
    assert effects_of(line, "ls", world.policy, world.rules) == Effect.ALL
    assert effects_of(world.read("ls"), "ls", world.policy, world.rules) == Effect.READ
    assert effects_of(world.read("ls > x"), "ls > x", world.policy, world.rules) == Effect.ALL


def test_a_program_of_the_workspace_is_not_the_systems(world):
    world.places = {"ls": "/srv/ws/bin/ls", "cat": "/opt/cat"}
    assert (
        world.say("ls"),
        world.say("cat README.md"),
        world.say("/usr/bin/ls"),
        world.say("/srv/ws/bin/ls"),
    ) == ("ask", "nothing", "nothing", "ask")
    world.missing = frozenset({"head"})
    assert world.say("head README.md") == "ask"


@pytest.mark.parametrize(
    ("link", "target", "line", "said"),
    [
        ("a", "/srv/ws/README.md", "cat a", "nothing"),
        ("a", "/etc/hosts", "cat a", "ask"),
        ("a", "/home/ada/.ssh/id_rsa", "cat a", "deny"),
        ("src/main.py", "/home/ada/.aws/credentials", "head -1 src/*.py", "deny"),
        ("src/main.py", "/etc/hosts", "cat src/*.py", "ask"),
        ("d", "/etc", "cat d/hosts", "ask"),
        ("d", "/etc", "cd d && cat hosts", "ask"),
        ("d", "/srv/ws/src", "cat d/main.py", "nothing"),
        ("d", "/srv/ws/src/deep", "cat d/../main.py", "nothing"),
        ("d", "/tmp/deep/er", "cat d/../x", "ask"),
        ("a", "/etc/hosts", "ls -l a", "nothing"),
        ("a", "/home/ada/.ssh", "ls a", "ask"),
        ("a", "/", "rm -rf a", "deny"),
        ("a", "/dev/sda", "echo x > a", "deny"),
        ("a", "/home/ada/.bashrc", "echo x >> a", "deny"),
    ],
)
def test_a_link_is_where_it_leads(world, link, target, line, said):
    world.links = {f"/srv/ws/{link}": target}
    assert world.say(line) == said


def test_folders_read_as_a_whole_must_hide_nothing(world):
    assert world.say("grep -rn x src") == world.say("rg x") == "nothing"
    world.trees = {
        "/srv/ws/src": ("/srv/ws/src/.env",),
        "/srv/ws": None,
        "/srv/ws/docs": ("/srv/ws/docs/link",),
    }
    said = [
        world.say(line)
        for line in (
            "grep -rn x src",
            "rg x",
            "grep -r x docs",
            "diff -r docs docs",
            "ls -R src",
            "cat src/main.py",
            "rg x src",
            "rg --hidden x src",
            "grep -rn x --include=*.py src",
        )
    ]
    assert said == ["ask", "ask", "nothing", "ask", "nothing", "nothing", "nothing", "ask", "nothing"]
    assert world.say("find src -type f -exec cat {} +") == "ask"


def test_a_file_named_like_an_option_is_one(world):
    world.files = ("-o", "a")
    assert (world.say("cat *"), world.say("cat ./*")) == ("force", "nothing")
    assert [world.say(line) for line in ("rm *", "rm -- *", "rm ./*", "rm -f a*")] == [
        "force",
        "ask",
        "ask",
        "ask",
    ]


def test_a_repository_that_is_not_plain_is_asked_about(world):
    assert world.say("git status") == "nothing"
    world.repositories = {"/srv/ws": ("core.fsmonitor", ".git/commondir")}
    ruling = world.ruling("git status")
    assert (world.say("git status"), ruling.value) == ("ask", "core.fsmonitor, .git/commondir")


def test_allowed_paths_count_as_inside(world):
    assert world.say("cat /data/x") == "ask"
    world.policy = Policy("/srv/ws", "/home/ada", allowed_paths=("/data",))
    assert (world.say("cat /data/x"), world.say("cat /data/../etc/hosts"), world.say("cat /database")) == (
        "nothing",
        "ask",
        "ask",
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cd src && cat main.py", "nothing"),
        ("cd src && cat ../README.md", "nothing"),
        ("cd src; cat ../README.md", "ask"),  # if `cd` fails, this is outside
        ("cd src || cat ../README.md", "ask"),
        ("(cd src && cat ../README.md); cat README.md", "nothing"),
        ("(cd ..); cat README.md", "nothing"),
        ("cd .. && cat x; ls", "ask"),
        ("cd /tmp && ls", "nothing"),
        ('for f in src/*.py; do cat "$f"; done', "nothing"),
        ("for f in a b; do cat src/$f.py; done", "nothing"),
        ("for f in /etc/x; do cat $f; done", "ask"),
        ("for f in src/*; do f=/etc/x; cat $f; done", "ask"),
        ("for f in $(ls); do cat $f; done", "ask"),
        ("for f in 'a b'; do cat $f; done", "ask"),
        ("for d in / src; do rm -rf $d; done", "deny"),
        ("x=/etc/passwd; cat $x", "ask"),
        ('cat "$HOME/x"', "ask"),
        ('cat "$PWD/README.md"', "nothing"),
        ("HOME=/srv/ws; cat ~/x", "force"),
    ],
)
def test_folders_and_variables_are_followed(world, line, said):
    assert world.say(line) == said


def test_a_survey_asks_for_no_more_than_is_needed(world):
    asked = wanted(parse_command("cat a *.py | head"), world.policy, world.rules)
    assert (
        asked.real == ("/srv/ws/a", "/srv/ws/*.py")
        and asked.matches == ("/srv/ws/*.py",)
        and asked.programs == ("cat", "head")
    )
    assert not wanted(parse_command("echo a"), world.policy, world.rules)


@pytest.mark.parametrize(
    "line",
    ["git status", "/usr/bin/git log --oneline", "git log --oneline; git branch", "echo $(git branch)"],
)
def test_plain_forms_of_git_run_neutralised(line):
    printed = parse_command(line).printed
    for part in (
        "--no-optional-locks", "core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never",
    ):  # fmt: skip
        assert printed.count(part) == line.count("git ")
    assert ("--ignore-submodules=all" in printed) == ("status" in line)


@pytest.mark.parametrize(
    "line",
    [
        "git push",
        "git commit -m x",
        "git branch x",
        "git --version",
        "gitk",
        "git log",
        "git -c a.b=c status",
    ],
)
def test_other_git_runs_as_it_was_written(line):
    assert parse_command(line).printed == line
