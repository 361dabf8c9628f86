"""Wrappers with their options in every spelling: what they run, held against the programs themselves where
there are.
"""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import parse_command
from leeward.security.command.expand.visit import commands_of
from leeward.security.command.programs.tables import table
from leeward.security.kinds import CommandLine
from leeward.security.policy import ShellRules
from loading import rows_beside

ROWS = rows_beside(__file__)

SAYS = ("nothing", "ask", "force", "deny")
VICTIM = ("git", "push", "-f")


def read(line: str) -> CommandLine:
    found = parse_command(line)
    assert isinstance(found, CommandLine), (line, found)
    return found


def notes(line: str) -> set[str]:
    return {note.rule for command in commands_of(read(line).root) for note in command.notes}


def spellings(described: str) -> list[str]:
    """Every option of a description in every way it may be written, flags bundled with others, too."""
    found = []
    flags = [name for token in described.split() for name in singles(token)]
    for token in described.split():
        name, mark, kind = token.partition(":")
        optional = name.endswith("?")
        name = name.rstrip("?")
        if name == "-#":
            found.append("-7")
        elif name.startswith("--") and (mark or optional):
            found += [f"{name}=7"] + ([f"{name} 7"] if mark else [name])
        elif name.startswith("--"):
            found.append(name)
        elif mark or optional:
            bundles = [f"-{flag}" for flag in flags[:2]] if flags else []
            found += [f"{name}7", *(f"{bundle}{name[1:]}7" for bundle in bundles)]
            found += [f"{name} 7", *(f"{bundle}{name[1:]} 7" for bundle in bundles)] if mark else [name]
        else:
            found += [f"-{flag}" for flag in singles(token)]
    found += [f"-{''.join(flags)}"] if len(flags) > 1 else []
    return found + (["--"] if described else [])


def singles(token: str) -> str:
    """The letters of a token that joins options without values."""
    return (
        token[1:] if token[:1] == "-" and token[1:2] not in {"-", "#"} and not set(":?") & set(token) else ""
    )


LINES = {name: line for group in table("wrappers.toml").values() for name, line in group.items()}
RUNNING = {name: line for name, line in LINES.items() if line["runs"] == "command" and "options" in line}


@pytest.mark.parametrize("name", RUNNING)
def test_every_option_in_every_spelling_leads_to_what_is_run(name):
    """The options of each wrapper, alone and twice; `7` stands for whatever a value is."""
    line = RUNNING[name]
    quiet = {token for token in line.get("unless", "").split()}
    operands = "7 " * line.get("operands", 0)
    for spelled in spellings(line["options"]):
        if quiet & {f"-{letter}" for letter in spelled.split()[0][1:]} or ":line" in kind_of(
            spelled, line["options"]
        ):
            continue
        for options in (spelled, f"{spelled} {spelled}" if spelled != "--" else "--"):
            text = f"\\{name} {options} {operands}git push -f"
            inner = [one for one in read(text).written if one[:3] == VICTIM]
            assert inner, text
            assert "wrapper" not in notes(text), text


def kind_of(spelled: str, described: str) -> str:
    letter = spelled.split(maxsplit=1)[0].partition("=")[0]
    return next(
        (token for token in described.split() if token.partition(":")[0].rstrip("?") in {letter, letter[:2]}),
        "",
    )


@pytest.mark.parametrize("name", RUNNING)
def test_an_option_that_is_not_listed_is_said_to_be(name):
    """It could take the next word as its value, or run something itself: nobody can tell what is run."""
    if not RUNNING[name].get("lenient"):
        operands = "7 " * RUNNING[name].get("operands", 0)
        for option in ("--never-heard-of", "-@", "--never-heard-of=x"):
            assert "wrapper" in notes(f"\\{name} {option} {operands}git push -f"), option
        assert "wrapper" not in notes(f"\\{name} {operands}git push --never-heard-of"), (
            "that is the program's own"
        )


# Wrappers as they are written, on what really runs them: each must call what was read, and nothing else.
REAL = ROWS["real"]


@pytest.mark.parametrize("line", REAL)
def test_a_wrapper_runs_what_was_read_and_nothing_else(calls, stubs, line):
    """Run by a real bash with `x y` coming in; behind a word given when it runs there may be anything."""
    line = line.replace("/s/", f"{stubs}/")
    said = [(argv[0].rpartition("/")[2], *argv[1:]) for argv in read(line).written]
    if any(
        shutil.which(argv[0]) is None
        for argv in said
        if argv[0] in {"flock", "ionice", "taskset", "setarch", "setsid", "stdbuf"}
    ):  # fmt: skip
        pytest.skip("the wrapper is not here")
    for how in (line, read(line).printed):
        called = calls(f"printf 'x y' | {{ {how}\n}}")
        known = [argv for argv in said if argv[0] in {"p", "q"}]
        assert all(any(fits(call, argv) for argv in known) for call in called), (how, called, known)
        assert bool(called) == bool(known), (how, called, known)


def fits(call: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    sure = next((at for at, word in enumerate(argv) if "⟨" in word), None)
    return call == argv if sure is None else call[:sure] == argv[:sure]


NESTING = ROWS["nesting"]
QUOTED = [
    "ssh -p 22 h {}", "watch -n 1 {}", "sh -c {}", "bash -ec {}", "eval {}", "su -c {} ada", "trap {} EXIT",
    "git rebase -x {} main", "git -c alias.x=!{} x", "script -c {} log", "runuser -u ada -c {}",
    "flock l -c {}", "git submodule foreach {}",
]  # fmt: skip
AROUND = ROWS["around"]


def quoted(line: str) -> str:
    return "'" + line.replace("'", "'\\''") + "'"


@given(st.lists(st.sampled_from([*NESTING, *QUOTED, *AROUND]), min_size=1, max_size=4))
@settings(max_examples=settings().max_examples * 2)
def test_a_blocked_command_is_refused_in_whatever_it_is_nested(world, frames):
    """As deep as it is read; and where nothing is read, never without a question by force."""
    world.rules = ShellRules(blocked=("git push",))
    line, plain = "git push", True
    for frame in frames:
        if frame in NESTING and not plain:
            line = f"sh -c {quoted(line)}"
        line = frame.format(quoted(line) if frame in QUOTED else line)
        plain = plain and frame in NESTING
        if "\n" in line and frame in AROUND:
            break
    said = world.say(line)
    assert said == "deny" or (said == "force" and len(frames) > 1), (said, line)


def test_each_of_these_alone_is_looked_through(world):
    world.rules = ShellRules(blocked=("git push",))
    lines = [
        frame.format(quoted("git push") if frame in QUOTED else "git push")
        for frame in (*NESTING, *QUOTED, *AROUND)
    ]
    assert [line for line in lines if world.say(line) != "deny"] == []
    near = [line.replace("git push", "git log") for line in lines]
    assert [line for line in near if world.say(line) == "deny"] == []


WRAPPED = [
    "env {}", "env V=1 {}", "nice -n 5 {}", "timeout 5 {}", "command {}", "nohup {}", "stdbuf -oL {}",
    "xargs {}", "\\time {}", "setsid {}", "sudo {}", "npx {}", "find . -exec {} \\;", "flock l {}",
]  # fmt: skip
PLAIN = [
    "ls", "cat README.md", "rm x", "make", "rm -rf /", "rm -rf .", "cat .env", "sudo ls", "python -c x",
    "cat /etc/hosts", "git status", "git clean -fdx ~", "curl https://a.example",
    "curl http://169.254.169.254/", "chmod -R 0 .", "$x", "shutdown", "cp ~/.ssh/id_rsa .",
]  # fmt: skip
CODE = [
    *PLAIN, "ls 'x", "echo x > o", "echo x > .git/config", "cd / && rm -rf *", "ls; rm -rf ~",
    ":(){ :|:& };:", "X=1 make", "PATH=. ls",
]  # fmt: skip


@given(st.lists(st.sampled_from(WRAPPED), min_size=1, max_size=4), st.sampled_from(PLAIN))
@settings(max_examples=settings().max_examples * 2)
def test_a_known_wrapper_never_makes_a_command_milder(world, wrappers, line):
    before = world.ruling(line).say
    for wrapper in wrappers:
        line = wrapper.format(line)
        after = world.ruling(line).say
        assert after >= before, (line, before, after)
        before = after


@given(
    st.lists(
        st.sampled_from(
            [
                "sh -c {}", "eval {}", "bash -ec {}", "env sh -c {}", "su -c {}", "nice bash -c {}",
                "trap {} EXIT",
            ]
        ),
        min_size=1, max_size=3,
    ),
    st.sampled_from(CODE),
)  # fmt: skip
def test_code_in_a_shell_is_never_milder_than_by_itself(world, shells, line):
    before = world.ruling(line).say
    for shell in shells:
        line = shell.format(quoted(line))
        after = world.ruling(line).say
        assert after >= min(before, SAYS.index("force")) and (
            after >= before or "$" in line or "'x" in line
        ), line
        before = after
