"""Secrets are lent to lines that are one program in plain words, and reach the secret's hosts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leeward.security.kinds import Effect, Kind, Runs
from leeward.security.permissions import lent_names, lent_to
from leeward.security.pipeline import judge
from leeward.security.policy import Autonomy, Sandboxing, ScopedSecret
from leeward.security.session import apply_events
from leeward.security.verdict import Allow, Ask

FORGE = ScopedSecret("FORGE", ("forge.example.com",), ("git push", "deploy"))
OTHER = ScopedSecret("OTHER", ("other.example.com",), ("both", "publish"))
BOTH = ScopedSecret("BOTH", ("forge.example.com",), ("both", "deploy"))

LENT = {
    "git push": ["FORGE to git push"],
    "git push origin main": ["FORGE to git push"],
    "  git push -q 'origin' main": ["FORGE to git push"],
    "git push https://forge.example.com/a.git": ["FORGE to git push"],
    "g'it' push": ["FORGE to git push"],
    "publish --tag v1.2": ["OTHER to publish"],
    "deploy": ["FORGE to deploy", "BOTH to deploy"],
}
NOT_LENT = [
    "git push | cat", "git push > out", "git push; true", "git push && env", "git push &", "(git push)",
    "X=1 git push", "env git push", "git push $(id)", "git push $HOME", "git push `id`", "git push ~/x",
    "git push *", 'git push "$X"', "git -c core.askpass=x push", "git pushx", "./deploy", "deploy\ngit push",
    "deploy\nenv", "git fetch", "git push https://evil.example.com/a.git",
    "git push http://forge.example.com:80/x",
    "git push <(id)", "sudo git push", "! git push", "git push #x", "time git push",
    "git pus\\h",
    "both", "bash -c 'git push'", "xargs git push", "git push https://forge.example.com.evil.example/a.git",
]  # fmt: skip


@pytest.fixture
def held(make):
    sandbox = Sandboxing(level="bubblewrap", rung=Runs.TRIAL)
    return make.policy(sandbox=sandbox, secrets=(FORGE, OTHER, BOTH))


@pytest.fixture
def read(make, held):
    tool = make.spec("shell", Effect.ALL, kinds={"command": Kind.COMMAND})

    def read(line, policy=held):
        return make.action(tool, {"command": line}, held=policy)

    return read


@pytest.mark.parametrize("line", LENT)
def test_a_line_that_is_one_program_is_lent_what_its_rule_names(read, held, line) -> None:
    assert list(lent_names(lent_to(read(line), held), read(line))) == LENT[line]


@pytest.mark.parametrize("line", NOT_LENT)
def test_any_other_line_is_lent_nothing(read, held, line) -> None:
    assert lent_to(read(line), held) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"autonomy": Autonomy.READONLY},
        {"sandbox": Sandboxing(level="bubblewrap", rung=Runs.REAL)},
        {"sandbox": Sandboxing(level="bubblewrap", rung=Runs.READ_ONLY)},
        {"sandbox": Sandboxing(level="bubblewrap", rung=Runs.TRIAL, network=True)},
    ],
)
def test_nothing_is_lent_where_the_network_cannot_be_held_to_hosts(read, held, change) -> None:
    policy = replace(held, **change)
    assert lent_to(read("git push", policy), policy) == ()


def test_it_is_asked_about_by_force_once_and_runs_for_real(make, read, held) -> None:
    session, action = make.session(policy=held), read("git push origin main")
    (word,) = [one.verdict for one in judge(action, session).answers if one.gate == "commands"]
    assert isinstance(word, Ask) and (word.rule, word.force, word.runs) == ("lend", True, Runs.REAL)
    assert ("host", "forge.example.com") in word.facts
    lent = replace(session, lent=frozenset({"FORGE to git push"}))
    (word,) = [one.verdict for one in judge(action, lent).answers if one.gate == "commands"]
    assert word == Allow(runs=Runs.REAL)
    (word,) = [one.verdict for one in judge(read("deploy"), lent).answers if one.gate == "commands"]
    assert isinstance(word, Ask) and word.rule == "lend"
    blocked = replace(held, shell=replace(held.shell, blocked=("git push",)))
    assert judge(read("git push", blocked), replace(lent, policy=blocked)).denial is not None
    assert apply_events(lent).lent == lent.lent


def test_the_lines_find_the_obvious_mistake(read, held, planted) -> None:
    wrong = planted("lending").lent_to
    assert any(wrong(read(line), held) for line in NOT_LENT)
