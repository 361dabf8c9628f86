"""Wrappers with their options in every spelling: what they run, held against the programs themselves where there are."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.command import CommandLine, parse_command
from leeward.security.command.expand.visit import visits
from leeward.security.command.programs.tables import table
from leeward.security.policy import ShellRules

SAYS = ("nothing", "ask", "force", "deny")
VICTIM = ("git", "push", "-f")


def read(line: str) -> CommandLine:
    found = parse_command(line)
    assert isinstance(found, CommandLine), (line, found)
    return found


def notes(line: str) -> set[str]:
    return {note.rule for visit in visits(read(line).root) for note in visit.command.notes}


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
            inner = [one for one in read(text).said if one[:3] == VICTIM]
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
REAL = [
    "env p a", "env -i LOG=$LOG /s/p a", "env -u HOME p a", "env -uHOME p a", "env --unset=HOME p a", "env --unset HOME p a", "env V=1 W=2 p a", "env -- p a", "env -- V=1 p a", "env -C / p a", "env -C/ p a", "env --chdir=/ p a", "env -v p a", "env -0 true", "env -S 'p a' b", "env -S'p a' b", "env --split-string='p a' b", "env -S 'V=1 p' a", "env -vS 'p a'", "env -uHOME -C / V=1 p -u x",
    "nice p a", "nice -n 5 p a", "nice -n5 p a", "nice -5 p a", "nice --adjustment=5 p a", "nice --adjustment 5 p a", "nice -n 5 -- p a", "nice -n 5 -n 6 p a", "nohup p a", "nohup -- p a", "nohup p --help",
    "timeout 5 p a", "timeout -k 1 5 p a", "timeout -k1 5 p a", "timeout -s KILL 5 p a", "timeout -sKILL 5 p a", "timeout --signal=KILL 5 p a", "timeout --signal KILL 5 p a", "timeout --kill-after=1 5s p a", "timeout --foreground 5 p a", "timeout --preserve-status -v 5 p a", "timeout -vk1 5 p a", "timeout -- 5 p a", "timeout 5 p -s x",
    "setsid -w p a", "setsid --wait p a", "setsid -w -- p a", "stdbuf -oL p a", "stdbuf -o L p a", "stdbuf --output=L p a", "stdbuf --output L -e0 p a", "stdbuf -i0 -oL -eL p a",
    "command p a", "command -- p a", "command -v p", "command -V p", "command -pv p", "builtin echo a", "exec p a", "exec -a z p a", "exec -l p a", "eval p a", "eval 'p a' b", "eval \"p 'a b'\"", "eval 'p a; q b'",
    "sh -c 'p a'", "sh -c 'p a' x y", "sh -ec 'p a'", "sh -e -c 'p a'", "bash -c 'p a' -c 'q b'", "bash -o errexit -c 'p a'", "bash -eo pipefail -c 'p a'", "bash --norc -c 'p a'", "bash -xc 'p a'", "bash -c 'p a' --", "sh -c 'sh -c \"p a\"'", "sh -c 'p \"$0\" $1' x y",
    "flock l p a", "flock -n l p a", "flock -w 1 l p a", "flock -w1 l p a", "flock --wait=1 l p a", "flock -xn l p a", "flock l -c 'p a'", "flock -E 3 l p a", "ionice -c 3 p a", "ionice -c3 p a", "ionice --class 3 p a", "ionice -t -c 3 p a", "taskset 1 p a", "taskset -c 0 p a", "setarch x86_64 p a", "setarch x86_64 -R p a",
    "xargs p a", "xargs -0 p a", "xargs -r p a", "xargs -n1 p a", "xargs -n 1 p a", "xargs --max-args=1 p a", "xargs --max-args 1 p a", "xargs -0n1 p a", "xargs -P2 -n1 p a", "xargs -I{} p {} a", "xargs -I {} p x{}y", "xargs -i p {}", "xargs --replace=Z p Z", "xargs -d , p a", "xargs -d, p a", "xargs -E x p a", "xargs -L1 p a", "xargs -- p a", "xargs -t p a", "xargs -I% -n1 p % a", "xargs",
    "nice nohup timeout 5 env V=1 p a", "env nice -n 1 sh -c 'nohup p a; q'", "timeout 5 xargs -n1 env p a", "sh -c 'env p a' | xargs q", "trap 'p a' EXIT", "trap -- 'p a' EXIT", "trap 'p a' 0; q",
]  # fmt: skip


@pytest.mark.parametrize("line", REAL)
def test_a_wrapper_runs_what_was_read_and_nothing_else(calls, stubs, line):
    """Run by a real bash with `x y` coming in; behind a word given when it runs there may be anything."""
    line = line.replace("/s/", f"{stubs}/")
    said = [(argv[0].rpartition("/")[2], *argv[1:]) for argv in read(line).said]
    if any(shutil.which(argv[0]) is None for argv in said if argv[0] in {"flock", "ionice", "taskset", "setarch", "setsid", "stdbuf"}):  # fmt: skip
        pytest.skip("the wrapper is not here")
    for how in (line, read(line).printed):
        called = calls(f"printf 'x y' | {{ {how}\n}}")
        known = [argv for argv in said if argv[0] in {"p", "q"}]
        assert all(any(fits(call, argv) for argv in known) for call in called), (how, called, known)
        assert bool(called) == bool(known), (how, called, known)


def fits(call: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    sure = next((at for at, word in enumerate(argv) if "⟨" in word), None)
    return call == argv if sure is None else call[:sure] == argv[:sure]


NESTING = [
    "env {}", "env V=1 {}", "nice -n5 {}", "nohup {}", "timeout -k 1 5 {}", "command {}", "exec {}", "setsid {}", "stdbuf -oL {}", "xargs -n1 {}", "busybox {}", "sudo -u ada {}", "doas {}", "flock l {}", "strace -o x {}", "uv run {}", "npx {}", "ionice -c3 {}", "chroot / {}", "time {}", "find . -exec {} \\;", "find . -execdir {} +", "fd x -x {}", "git bisect run {}",
]  # fmt: skip
QUOTED = ["ssh -p 22 h {}", "watch -n 1 {}", "sh -c {}", "bash -ec {}", "eval {}", "su -c {} ada", "trap {} EXIT", "git rebase -x {} main", "git -c alias.x=!{} x", "script -c {} log", "runuser -u ada -c {}", "echo {} | sh", "bash <<< {}", "flock l -c {}", "git submodule foreach {}"]  # fmt: skip
AROUND = [
    "{}; ls", "ls && {}", "ls || {}", "ls | {}", "{} | ls", "{} &", "({})", "{{ {}; }}", "! {}", "if ls; then {}; fi", "if {}; then ls; fi", "while {}; do ls; done", "for i in 1; do {}; done", "case x in *) {};; esac", "f() {{ {}; }}; f", "echo $({})", "echo `{}`", "cat <({})", "x=$({}) ls", "ls > $({})", "[[ -n $({}) ]]", "cat <<E\n$({})\nE\n", "echo ${{x:-a}} $({})", "coproc {}",
]  # fmt: skip


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


WRAPPED = ["env {}", "env V=1 {}", "nice -n 5 {}", "timeout 5 {}", "command {}", "nohup {}", "stdbuf -oL {}", "xargs {}", "\\time {}", "setsid {}", "sudo {}", "npx {}", "find . -exec {} \\;", "flock l {}"]  # fmt: skip
PLAIN = ["ls", "cat README.md", "rm x", "make", "rm -rf /", "rm -rf .", "cat .env", "sudo ls", "python -c x", "cat /etc/hosts", "git status", "git clean -fdx ~", "curl https://a.example", "curl http://169.254.169.254/", "chmod -R 0 .", "$x", "shutdown", "cp ~/.ssh/id_rsa ."]  # fmt: skip
CODE = [*PLAIN, "ls 'x", "echo x > o", "echo x > .git/config", "cd / && rm -rf *", "ls; rm -rf ~", ":(){ :|:& };:", "X=1 make", "PATH=. ls"]  # fmt: skip


@given(st.lists(st.sampled_from(WRAPPED), min_size=1, max_size=4), st.sampled_from(PLAIN))
@settings(max_examples=settings().max_examples * 2)
def test_a_known_wrapper_never_makes_a_command_milder(world, wrappers, line):
    before = world.ruling(line).say
    for wrapper in wrappers:
        line = wrapper.format(line)
        after = world.ruling(line).say
        assert after >= before, (line, before, after)
        before = after


@given(st.lists(st.sampled_from(["sh -c {}", "eval {}", "bash -ec {}", "env sh -c {}", "su -c {}", "nice bash -c {}", "trap {} EXIT"]), min_size=1, max_size=3), st.sampled_from(CODE))  # fmt: skip
def test_code_in_a_shell_is_never_milder_than_by_itself(world, shells, line):
    before = world.ruling(line).say
    for shell in shells:
        line = shell.format(quoted(line))
        after = world.ruling(line).say
        assert after >= min(before, SAYS.index("force")) and (
            after >= before or "$" in line or "'x" in line
        ), line
        before = after
