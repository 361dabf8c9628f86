"""Command lines are completed from the parser itself, in the shells that people use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leeward.runtime.cli.completion import SHELLS, candidates
from leeward.runtime.cli.main import _COMMANDS, _parser

BIN = Path(sys.executable).parent
CASES = {
    "ses": ["sessions"],
    "sessions ex": ["export"],
    "sessions export --form": ["--format"],
    "sessions export --format ": ["html", "md"],
    "sessions export s_1 ": [],
    "config ": ["distrust", "edit", "init", "path", "set", "show", "trust"],
    "config set agent.max_turn": ["agent.max_turns"],
    "--quiet config set agent.max_turn": ["agent.max_turns"],
    "config set agent.max_turns ": [],
    "--autonomy f": ["full"],
    "--autonomy full con": ["config"],
    "audit why --config ": [],
    "-p text --output js": ["json", "jsonl"],
    "mcp trust NAME v": ["verified"],
    "completion ": ["bash", "fish", "words", "zsh"],
    "nonsense": [],
    "--script ": [],
}


@pytest.mark.parametrize("line", CASES)
def test_what_fits_is_what_the_parser_knows(line: str) -> None:
    assert candidates(_parser(), line.split(" ")) == CASES[line]


def test_every_command_is_offered_at_first() -> None:
    offered = set(candidates(_parser(), [""]))
    assert offered - {"completion"} == {name for name in _COMMANDS if " " not in name} - {
        "prompt",
        "script",
        "scripts",
        "chat",
    }
    assert candidates(_parser(), []) == sorted(offered)


def test_a_shell_gets_its_script_and_a_tab_its_words(leeward) -> None:
    for shell, text in SHELLS.items():
        assert leeward("completion", shell).out == text
    assert leeward("completion", "words", "--", "sessions", "de").out == "delete\n"
    assert leeward("completion", "ksh").code == 2


RUNS = {
    "bash": (
        'eval "$(leeward completion bash)"; COMP_WORDS=(leeward sessions ex); COMP_CWORD=2; _leeward;'
        ' echo "${COMPREPLY[@]}"; complete -p leeward'
    ),
    "zsh": (
        'compdef() { :; }; compadd() { print -l -- "${(@P)2}"; }; _files() { print files; };'
        ' eval "$(leeward completion zsh)"; words=(leeward sessions ex); CURRENT=3; _leeward;'
        " words=(leeward --script x); CURRENT=3; _leeward"
    ),
    "fish": 'leeward completion fish | source; complete -C "leeward sessions ex"',
}


@pytest.mark.parametrize("shell", RUNS)
def test_in_the_shell_itself(tmp_path, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"no {shell}: it is here only where somebody installed it")
    quiet = ["--norc"] if shell == "bash" else ["-f"] if shell == "zsh" else ["--no-config"]
    ran = subprocess.run(
        [found, *quiet, "-c", RUNS[shell]],
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    first, *rest = ran.stdout.splitlines() or [ran.stderr]
    assert first == "export", ran.stderr
    assert shell != "zsh" or rest == ["files"]
