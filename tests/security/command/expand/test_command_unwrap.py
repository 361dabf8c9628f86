"""What a command runs in turn, and what only a person can tell of it."""

from __future__ import annotations

import pytest

from leeward.security.command import parse_command
from leeward.security.command.expand.visit import commands_of
from leeward.security.kinds import CommandLine


def read(line: str) -> CommandLine:
    found = parse_command(line)
    assert isinstance(found, CommandLine), (line, found)
    return found


def rules(line: str) -> set[str]:
    return {note.rule for command in commands_of(read(line).root) for note in command.notes}


# A line, what is run in it beside the first action, and which notes there are.
RUNS = [
    ("env A=1 B=2 x y", ["x y"], set()),
    ("env -i -u C x", ["x"], set()),
    ("env 'a b=c' x", ["x"], set()),
    ("env -S 'x y' z", ["env x y z", "x y z"], set()),
    ("env -vS'A=1 x' -y", ["env -v A=1 x -y", "x -y"], set()),
    ("env -S 'x\\_y'", ["x\\_y"], {"wrapper"}),
    ("env LD_PRELOAD=a x", ["x"], {"poison"}),
    ("command -p x", ["x"], set()),
    ("command -v x", [], set()),
    ("exec -a z x", ["x"], set()),
    ("builtin echo x", ["echo x"], set()),
    ("nice -n 5 x; nice -10 y", ["x", "nice -10 y", "y"], set()),
    ("nohup x &", ["x"], set()),
    ("\\time -f %e x", ["x"], set()),
    ("timeout -s KILL 5 x -y", ["x -y"], set()),
    ("timeout --bad 5 x", ["x"], {"wrapper"}),
    ("xargs -0 -n1 rm -f", ["rm -f ⟨given when it runs⟩"], set()),
    ("xargs", ["echo ⟨given when it runs⟩"], set()),
    ("xargs -I{} mv {} {}.b", ["mv ⟨given when it runs⟩ ⟨given when it runs⟩"], set()),
    ("xargs -I{} sh -c 'a {}'", ["sh -c ⟨given when it runs⟩"], {"code"}),
    ("sudo -u root x", ["x"], {"privilege"}),
    ("sudo A=1 env nice x", ["env nice x", "nice x", "x"], {"privilege"}),
    ("su -c 'x y' z", ["x y"], {"privilege"}),
    ("doas x", ["x"], {"privilege"}),
    ("chroot /a x", ["x"], {"privilege"}),
    ("unshare -r x", ["x"], {"privilege"}),
    ("nsenter -t 1 -m x", ["x"], {"privilege"}),
    ("setsid -f x", ["x"], set()),
    ("stdbuf -oL x", ["x"], set()),
    ("watch -n 1 'x | y'", ["x", "y"], set()),
    ("busybox rm x", ["rm x"], set()),
    ("flock /tmp/l x", ["x"], set()),
    ("uv run pytest -q", ["pytest -q"], set()),
    ("npx --yes x", ["x"], set()),
    ("parallel x ::: a", [], {"code"}),
    ("ssh -p 22 host 'x; y'", ["x", "y"], set()),
    ("ssh host x y", ["x y"], set()),
    ("sh -c 'x; y $1' z", ["x", "y ⟨$1⟩"], set()),
    ("bash -exo pipefail -c x", ["x"], set()),
    ('bash -c "$x"', [], {"code"}),
    ("bash -c 'x (('", [], {"code"}),
    ("sh -c 'x {a,b}'", ["x a b"], {"code"}),
    ("bash x.sh", [], set()),
    ("bash", [], {"code"}),
    ("a | sh -s", ["sh -s"], {"code"}),
    ("eval x 'y z'", ["x y z"], set()),
    ("eval $x", [], {"code"}),
    ("trap 'x' EXIT; trap - EXIT", ["x", "trap - EXIT"], set()),
    ("find . -name a -exec x {} \\; -exec y {}/b +", ["x ⟨./⟨⟩", "y"], set()),
    ("find a b -exec x {} +", ["x ⟨each file found⟩"], set()),
    ("fd a -x y {}", ["y"], set()),
    ("git rebase -x 'x y' z", ["x y"], set()),
    ("git submodule foreach 'x'", ["x"], {"code"}),
    ("git -c core.pager=x log", ["x"], {"code"}),
    ("git -c alias.a='!x y' a", ["x y"], {"code"}),
    ("git config alias.a push", ["git push"], {"code"}),
    ("git -c user.name=x log", [], set()),
    ("git --upload-pack=x fetch", [], set()),
    ("git fetch --upload-p=x", [], {"code"}),
    ("python3 -c x", [], {"code"}),
    ("python3.12 -Bc x", [], {"code"}),
    ("python3 x.py -c y", [], set()),
    ("python3 -m pytest", [], set()),
    ("python3 --version", [], set()),
    ("node --ev=x", [], {"code"}),
    ("tar xf a --to-comm=x", [], {"code"}),
    ("tar xf a", [], set()),
    ("awk 'BEGIN{system(\"x\")}'", [], {"code"}),
    ("awk '{print $1}' a", [], set()),
    ("sed s/a/b/e", [], {"code"}),
    ("sed 's/e/w/' a", [], set()),
    ("$x y", [], {"dynamic"}),
    ("PATH=a ls", [], {"poison"}),
    ("x=1 ls", [], set()),
    ("alias a=b", [], {"redefines"}),
    ("declare -n a=b; let x=1; printf -v 'a[0]' b", ["let x=1", "printf -v a[0] b"], {"redefines"}),
    ("set -euo pipefail; set -k", ["set -k"], {"redefines"}),
]


@pytest.mark.parametrize(("line", "inner", "notes"), RUNS, ids=[line for line, _, _ in RUNS])
def test_what_runs_in_turn(line, inner, notes):
    found = [
        " ".join(argv) for argv in read(line).written[1:] if argv[0] not in {">", "<"} and "=" not in argv[0]
    ]
    assert len(found) == len(inner) and all(
        said.startswith(wanted.rstrip("⟨⟩./ ")) for said, wanted in zip(found, inner, strict=True)
    ), found
    assert rules(line) == notes


@pytest.mark.parametrize(
    "wrapper",
    [
        "sudo",
        "env",
        "nice",
        "timeout 5",
        "command",
        "nohup",
        "setsid",
        "stdbuf -oL",
        "busybox",
        "xargs",
        "sh -c",
        "bash -lc",
        "eval",
        "exec",
        "watch",
        "su -c",
        "flock l",
        "ionice -c 3",
        "uv run",
        "strace -f",
    ],
)
def test_wrappers_can_be_stacked_and_never_hide(wrapper):
    for line in (
        f"{wrapper} 'rm' x",
        f"{wrapper} rm",
        f"env {wrapper} rm",
        f"nice -n 1 {wrapper} rm",
        f"true | {wrapper} rm",
    ):
        assert any(
            argv[0] == "rm" or (len(argv) == 1 and argv[0].startswith("rm ")) for argv in read(line).actions
        ), line


def test_a_quoted_keyword_is_a_program_and_an_unquoted_one_is_not():
    assert read("'if' x").actions == (("if", "x"),)
    assert read("\\time x").actions == (("time", "x"), ("x",))
    assert read("time x").actions == (("x",),)
