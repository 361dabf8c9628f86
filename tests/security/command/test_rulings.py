"""One word about a line: that more never makes it milder, that no spelling hides a ruin, and what cannot be
read and why.
"""

from __future__ import annotations

import posixpath
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.security.command import Say, effects_of, parse_command, ruling_of
from leeward.security.command.expand.parse import MAX_BYTES, MAX_OPERATORS
from leeward.security.command.expand.visit import commands_of, nodes
from leeward.security.command.syntax.words import crude_words
from leeward.security.kinds import CommandLine, Effect, Unreadable
from leeward.security.policy import ShellRules
from loading import rows_beside

ROWS = rows_beside(__file__)

LINES = ROWS["lines"]
AROUND = ROWS["around"]


@given(
    st.sampled_from(LINES),
    st.sampled_from([line for line in LINES if "'" not in line]),
    st.sampled_from(AROUND),
)
@settings(max_examples=settings().max_examples * 2)
def test_a_command_more_never_makes_a_line_milder(world, one, other, around):
    """The strictest word about any part is the least that is said of all; what is not read is at least
    forced.
    """
    line = around.format(one, other)
    said = world.ruling(line).say
    least = max(world.ruling(part).say for part in (one, other))
    if isinstance(parse_command(line), Unreadable):
        assert said >= min(least, Say.FORCE), line
    else:
        assert said >= least, line


@pytest.mark.parametrize("line", [line for line in LINES if "'" not in line])
def test_the_reasons_name_all_that_speaks_against_a_line(world, line):
    """Each part's reasons stand among those of the whole."""
    alone, both = world.ruling(line), world.ruling(f"{line}; make all")
    assert set(alone.reasons) <= set(both.reasons) or both.say == Say.DENY
    assert (alone.say == Say.NOTHING) == (alone.reasons == () and alone.rule == "")


def test_a_line_has_only_the_effect_to_read_where_nothing_is_said_of_it(world):
    for line in LINES:
        read = world.read(line)
        effects = effects_of(read, line, world.policy, world.rules)
        quiet = world.ruling(line).say == Say.NOTHING
        assert (effects == Effect.READ) == quiet, line
    world.rules = ShellRules(allowed=("make *", "make"))
    assert (
        world.say("make") == "nothing"
        and effects_of(world.read("make"), "make", world.policy, world.rules) == Effect.ALL
    )


@pytest.mark.parametrize(
    ("line", "quiet", "asked"),
    ROWS["which_actions_an_answer_must_cover"],
)
def test_which_actions_an_answer_must_cover(world, line, quiet, asked):
    read = world.read(line)
    assert {" ".join(argv) for argv in read.quiet} == set(quiet)
    assert {" ".join(argv) for argv in read.open_actions} == set(asked or quiet)


ROOTS = ["/", "/etc", "/usr", "/home", "/home/ada", "/srv/ws", "/srv", "/srv/ws/.git", "/var/lib", "/root"]
SPARED = [
    "/srv/ws/build",
    "/tmp/x",
    "/srv/ws/src/.gitignore",
    "/home/ada/projects/old",
    "/srv/ws/a/../b",
    "/srv/ws/src",
]


def respelled(path: str, chance: random.Random) -> str:
    """The same place, written in another way."""
    parts = ["", *path.strip("/").split("/")] if path != "/" else [""]
    joined = chance.choice(["/", "//", "/./"]).join(parts) or "/"
    tail = (
        chance.choice(["", "/", "/.", "/./", "/x/..", "//"])
        if path != "/"
        else chance.choice(["", "/", ".", "x/..", "./"])
    )
    spelled = joined + tail
    if chance.random() < 0.3 and path.startswith("/srv/ws"):
        spelled = (
            posixpath.join(chance.choice([".", "./src/..", "src/.."]), posixpath.relpath(path, "/srv/ws"))
            if path != "/srv/ws"
            else "."
        )
    quote = chance.choice(["{}", "'{}'", '"{}"', "\\{}", "$'{}'"])
    return quote.format(spelled)


@pytest.mark.parametrize("seed", range(3))
def test_no_spelling_of_a_root_lets_it_be_removed(world, seed):
    chance = random.Random(seed)
    for _ in range(60):
        flags = chance.choice(
            [
                "-rf",
                "-fr",
                "-r -f",
                "-Rf",
                "--recursive --force",
                "-vrf",
                "-r --force",
                "--rec -f",
                "-rfd",
                "-r --no-preserve-root",
            ]
        )
        path = respelled(chance.choice(ROOTS), chance)
        words = [*flags.split(), path, *chance.sample(["x", "./y", "--"], k=1)]
        if "--" in words:
            words = [*flags.split(), "--", path]
        program = chance.choice(
            ["rm", "/bin/rm", "\\rm", "r''m", "command rm", "env rm", "sudo rm", "nice rm"]
        )
        line = " ".join([program, *words])
        assert world.say(line) == "deny", line
        blind = ruling_of(parse_command(line), line, world.policy, world.rules)
        assert blind.say == Say.DENY, "without a look at the machine, too"
        near = f"rm {flags} {respelled(chance.choice(SPARED), chance)}"
        assert world.say(near) in {"ask", "force"}, near


RUINS = [
    ("rm -rf {}", None), ("find {} -delete", None), ("find {} -exec rm {{}} +", None),
    ("chmod -R 777 {}", "/srv/ws"), ("chown -R ada {}", "/srv/ws"), ("mv {} /tmp/x", "/srv/ws"),
    ("rsync -a --delete e/ {}", None), ("chmod -R 000 {}", None), ("rmdir {}", "/srv/ws"),
    ("tar --remove-files -cf x {}", None), ("rm -r {}", None),
]  # fmt: skip


@pytest.mark.parametrize(("ruin", "spared"), RUINS, ids=[one for one, _ in RUINS])
def test_every_way_to_ruin_a_root_is_refused(world, ruin, spared):
    for path in (
        "/",
        "/etc",
        "/home/ada",
        "~",
        '"$HOME"',
        "${HOME}/",
        "/home",
        "/srv/ws",
        "/usr/",
        "$(pwd)",
        "link-folder/",
        "/etc/.",
    ):
        if spared is None or path not in {spared, "$(pwd)"}:
            assert world.say(ruin.format(path)) == "deny", path
    for path in ("build", "/tmp/x", "src/old", "~/projects/old"):
        assert world.say(ruin.format(path)) != "deny", path


@given(
    st.lists(
        st.sampled_from(["'", '"', "\\", "$(", "`", "{", "$'\\x", "if", ";;", "<<E"]), min_size=1, max_size=2,
    ),
    st.sampled_from(
        [
            "rm -rf /", "rm -rf ~", "mkfs.ext4 /dev/sda", "chmod -R 777 /etc", "ls; rm -fr /usr",
            "echo x > /dev/sda",
        ]
    ),
)  # fmt: skip
@settings(max_examples=settings().max_examples * 3 // 5)
@example(["'"], "rm -rf /")
def test_what_cannot_be_read_is_still_refused_for_its_words(world, tail, ruin):
    """A line that is broken on purpose is refused for the ruin in it, and forced for anything else."""
    line = f"{ruin} ; echo {' '.join(tail)}"
    if isinstance(parse_command(line), Unreadable):
        assert world.say(line) == "deny", line
        assert world.say(line.replace(ruin, "make")) == "force"


@pytest.mark.parametrize(
    ("text", "commands"),
    ROWS["what_is_seen_in_a_text_that_was_not_read"],
)
def test_what_is_seen_in_a_text_that_was_not_read(text, commands):
    found = [
        " ".join(
            [*(word.text for word in one.words), *(f"> {more.target.text}" for more in one.redirections)]
        )
        for one in crude_words(text, "/h")
    ]
    assert found == commands


def test_a_text_that_was_not_read_is_looked_at_within_bounds():
    assert len(list(crude_words("a b " * 4000, "/h"))) <= 8
    assert len(list(crude_words("; ".join(f"a{at} b" for at in range(4000)), "/h"))) <= 32 * 8


# A line, and why it is not read: each in the words a person is shown.
REASONS = [
    *ROWS["reasons"],
    ("a" * (MAX_BYTES + 1), f"longer than {MAX_BYTES} bytes"),
    ("|" * (MAX_OPERATORS + 1), f"more than {MAX_OPERATORS} operators"),
    ("\ud800", "lone surrogate"),
    ("a " * 257, "too many words"),
]


@pytest.mark.parametrize(("line", "why"), REASONS, ids=[repr(line[:24]) for line, _ in REASONS])
def test_why_a_line_is_not_read(world, line, why):
    found = parse_command(line)
    assert isinstance(found, Unreadable) and why in found.reason
    ruling = world.ruling(line)
    assert (
        ruling.say == Say.FORCE and found.reason in ruling.reason and ruling.reasons == ((found.reason, ""),)
    )


# What keeps a line that was read from being answered in advance: the rule, and a word of the reason.
NOTED = ROWS["noted"]


@pytest.mark.parametrize(("line", "rule", "why"), NOTED, ids=[line for line, _, _ in NOTED])
def test_what_only_a_person_present_may_allow(world, line, rule, why):
    notes = [note for command in commands_of(parse_command(line).root) for note in command.notes]
    assert any(note.rule == rule and why in note.reason for note in notes), notes
    ruling = world.ruling(line)
    assert ruling.say >= Say.FORCE and (
        ruling.say == Say.DENY or any(why in reason for reason, _ in ruling.reasons)
    )


# Their near misses: nothing about these is uninspectable.
@pytest.mark.parametrize("line", ROWS["what_is_no_reason_for_more_than_a_question"])
def test_what_is_no_reason_for_more_than_a_question(world, line):
    assert [note for command in commands_of(parse_command(line).root) for note in command.notes] == []
    assert world.say(line) in {"nothing", "ask"}


@pytest.mark.parametrize(
    ("kept", "over"),
    [
        ("a" * MAX_BYTES, "a" * (MAX_BYTES + 1)), ("é" * (MAX_BYTES // 2), "é" * (MAX_BYTES // 2) + "é"),
        ("a" + "|a" * MAX_OPERATORS, "a" + "|a" * (MAX_OPERATORS + 1)), ("a\n" * 200, "a\n" * 300),
        ("env " * 7 + "a", None), ("! " * 1 + "a", "! " * 2 + "a"),
        ("x={} ".format("a" * 99) * 20 + "a", None),
    ],
)  # fmt: skip
def test_the_limits_are_where_they_are_said_to_be(kept, over):
    assert "longer" not in str(getattr(parse_command(kept), "reason", "")) and "operators" not in str(
        getattr(parse_command(kept), "reason", "")
    )
    assert over is None or isinstance(parse_command(over), Unreadable)


def test_how_deep_a_wrapper_is_followed(world):
    """Eight times; one deeper is not read as code by anybody, and never passed over."""
    for depth in range(1, 14):
        line = "env " * depth + "git push"
        found = parse_command(line)
        seen = isinstance(found, CommandLine) and ("git", "push") in found.actions
        assert seen == (depth <= 8), depth
        world.rules = ShellRules(blocked=("git push",))
        assert world.say(line) == "deny" if seen else world.say(line) in {"force", "deny"}, depth
    assert sum(1 for _ in nodes(parse_command("env " * 8 + "a").root)) == 9
