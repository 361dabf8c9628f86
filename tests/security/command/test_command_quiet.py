"""What makes a line only reading: the program, its options, and where its paths lead."""

from __future__ import annotations

import pytest

from leeward.security.command import Say, effects_of, parse_command, ruling_of, wanted
from leeward.security.kinds import Effect, Wanted
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
        ("src/main.py", "/home/ada/.aws/credentials", "head -1 src/main.py", "deny"),
        ("src/main.py", "/home/ada/.aws/credentials", "head -1 src/*.py", "force"),
        ("d", "/etc", "cat d/hosts", "ask"),
        ("d", "/etc", "cd d && cat hosts", "ask"),
        ("d", "/srv/ws/src", "cat d/main.py", "nothing"),
        ("d", "/srv/ws/src/deep", "cat d/../main.py", "nothing"),
        ("d", "/tmp/deep/er", "cat d/../x", "ask"),
        ("d", "/etc", "find d -name hosts", "ask"),
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


def test_what_reads_all_of_a_folder_is_asked_about(world):
    """What lies there is not looked up: it could hold a secret, or a link that leads out."""
    for line in ("grep -rn x src", "rg x", "diff src docs", "find src -exec cat {} +", "cat src/*.py"):
        assert world.say(line) != "nothing", line
    assert world.say("ls -R src") == world.say("find src -name '*.py'") == "nothing"


def test_a_file_named_like_an_option_is_one(world):
    world.files = ("-o", "a")
    for line in ("cat *", "sort *", "rm *"):
        assert world.say(line) != "nothing", line


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
        ("cd - && cat x", "ask"),
        ('cat "$HOME/x"', "ask"),
        ("cat ~/x", "ask"),
        ("cat ~/.ssh/id_rsa", "deny"),
        ('cat "$PWD/README.md"', "nothing"),
        ("HOME=/srv/ws; cat ~/x", "force"),
        ('for f in src/*.py; do cat "$f"; done', "force"),
        ("for f in $(ls); do cat $f; done", "force"),
        ("x=/etc/passwd; cat $x", "force"),
        ('grep "$x" README.md', "force"),
        ('grep "$HOME" README.md', "ask"),
        ('echo "$x" $?', "nothing"),
        ("echo $x", "nothing"),
        ("echo ~/.ssh/*", "ask"),
        ('echo "$((a[$(id)]))"', "force"),
        ('echo "${x@P}"', "force"),
        ("echo ${x:-a}", "nothing"),
        ('[ "$x" "$y" ]', "force"),
        ("test -v 'a[$(id)]'", "force"),
        ("find . -name a -delete", "ask"),
        ("find . -fprint x", "ask"),
        ("find / -name id_rsa", "ask"),
        ("sort -o README.md data.csv", "ask"),
        ("uniq data.csv README.md", "ask"),
        ("date -s now", "ask"),
    ],
)
def test_folders_are_followed_and_open_words_are_not(world, line, said):
    assert world.say(line) == said


def test_a_survey_asks_for_no_more_than_is_needed(world):
    asked = wanted(parse_command("cat a b | head"), world.policy, world.rules)
    assert asked.real == ("/srv/ws/a", "/srv/ws/b") and asked.programs == ("cat", "head")
    assert wanted(parse_command("echo a"), world.policy, world.rules) == Wanted(code=("echo",))
