"""What an enforcing sandbox answers in advance, and what it never answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leeward.security.call import BUILT_IN
from leeward.security.kinds import Effect, Kind
from leeward.security.permissions.answers import answer_in_advance
from leeward.security.pipeline import judge
from leeward.security.policy import Sandboxing
from leeward.security.verdict import Ask

HOLDS = Sandboxing(level="bubblewrap", answers=True)


def asked(make, command="make", kinds=None, **fields):
    tool = make.spec(
        "shell", Effect.ALL, kinds=kinds or {"command": Kind.COMMAND}, source=fields.pop("source", BUILT_IN)
    )
    action = make.action(tool, {name: command for name in (kinds or {"command": Kind.COMMAND})})
    return action, Ask("unlisted", "Run it?", action.atoms, **fields)


@pytest.mark.parametrize(
    "gate", ["commands", "permissions", "paths", "trust", "grounding", "hosts", "anomaly", "leaks"]
)
def test_it_answers_what_commands_asks_and_nothing_else(make, gate):
    action, ask = asked(make)
    found = answer_in_advance(gate, ask, action, make.session(sandbox=HOLDS))
    assert found == ("sandbox" if gate == "commands" else None)


@pytest.mark.parametrize(
    "sandbox", [Sandboxing(), Sandboxing("bubblewrap"), Sandboxing("none"), replace(HOLDS, answers=False)]
)
def test_only_one_that_holds_answers(make, sandbox):
    action, ask = asked(make)
    assert answer_in_advance("commands", ask, action, make.session(sandbox=sandbox)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"force": True},
        {"own_rule": True},
        {"by_name": True},
        {"source": "plug-in x"},
        {"source": "handed in"},
    ],
)
def test_what_only_a_person_can_mean_is_asked(make, fields):
    action, ask = asked(make, **fields)
    assert answer_in_advance("commands", ask, action, make.session(sandbox=HOLDS)) is None


def test_a_tool_that_does_more_than_run_a_command_is_asked_about(make):
    action, ask = asked(make, kinds={"command": Kind.COMMAND, "target": Kind.PATH})
    assert answer_in_advance("commands", ask, action, make.session(sandbox=HOLDS)) is None


@pytest.mark.parametrize("command", ["rm -rf /", "dd if=/dev/zero of=/dev/sda", "cat ~/.ssh/id_rsa"])
def test_a_refusal_stays_one(make, command):
    action, _ = asked(make, command)
    decision = judge(action, make.session(sandbox=HOLDS))
    assert decision.denial is not None
