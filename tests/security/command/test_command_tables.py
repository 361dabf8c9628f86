"""What is said of some thousand lines: nothing, a question, a question by force, or no."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from leeward.security.call import Action, Atom, ToolCall
from leeward.security.kinds import Effect, Kind
from leeward.security.verdict import Allow, Ask, Deny

SAYS = ("nothing", "ask", "force", "deny")


def wrong(tables, say) -> list[str]:
    """The lines of which something else is said than the tables want."""
    found = []
    for group in tables["ordinary"]:
        found += [
            f"{line!r}: {said}, not {group['say']}"
            for line in group["lines"]
            if (said := say(line)) != group["say"]
        ]
    for group in tables["adversarial"]:
        least = SAYS.index(group["say"])
        found += [
            f"{line!r}: only {said}" for line in group["lines"] if SAYS.index(said := say(line)) < least
        ]
        most = 0 if group["say"] == "ask" else 1
        found += [
            f"{line!r}: even {said}" for line in group.get("near", []) if SAYS.index(said := say(line)) > most
        ]
    return found


def test_every_line_of_the_tables(world, tables):
    assert wrong(tables, world.say) == []


def test_the_tables_are_large_and_their_rates_good(world, tables):
    ordinary = [line for group in tables["ordinary"] for line in group["lines"]]
    adversarial = [line for group in tables["adversarial"] for line in group["lines"]]
    near = [line for group in tables["adversarial"] for line in group.get("near", [])]
    assert (
        len(set(ordinary)) == len(ordinary) >= 200
        and len(set(adversarial)) == len(adversarial) >= 300
        and len(near) >= 50
    )
    rulings = [world.ruling(line) for line in ordinary]
    said = [SAYS[ruling.say] for ruling in rulings]
    assert said.count("nothing") / len(said) >= 0.2 and said.count("deny") / len(said) <= 0.02
    # Where there are trial runs, no question comes before.
    unasked = [ruling for ruling in rulings if ruling.say == 0 or ruling.may_be_tried]
    assert len(unasked) / len(rulings) >= 0.9
    assert "nothing" not in {world.say(line) for line in adversarial}


def test_a_word_more_never_makes_a_line_milder(world, tables):
    """Whatever stands behind or around a line that is refused, it stays refused."""
    for group in tables["adversarial"]:
        if group["say"] == "deny":
            for line in group["lines"][::7]:
                # Within a condition nothing tells whether a `cd` was gone through: only a person may say.
                moves = line.startswith("cd ")
                if "\n" not in line and "#" not in line and not line.endswith("&") and not moves:
                    for around in (
                        f"ls; {line}",
                        f"{line}; ls",
                        f"( {line}; )",
                        f"if true; then {line}; fi",
                        f"true && {{ {line}; }}",
                    ):
                        assert world.say(around) == "deny", around


@pytest.mark.parametrize("name", ["commands"])
def test_the_obvious_wrong_gate_is_caught(planted, tables, make, name):
    gate = getattr(planted(name), name)

    def say(line):
        atom = Atom(Kind.COMMAND, "/command", line, line)
        call = ToolCall("1", "t", json.dumps({"command": line}))
        match gate(Action(call, None, MappingProxyType({}), "", (), (atom,), Effect.ALL), make.session()):
            case Deny():
                return "deny"
            case Ask(force=force):
                return "force" if force else "ask"
            case Allow():
                return "nothing"

    assert len(wrong(tables, say)) > 100
