"""Which answers in advance count, and what "always" grants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Asker
from leeward.security.kinds import Effect, Kind
from leeward.security.permissions import recheck
from leeward.security.permissions.answers import answer_in_advance
from leeward.security.policy import Autonomy, Rule, RuleAction
from leeward.security.session import Grant, Granted
from leeward.security.verdict import Ask, Decision, Deny, GateAnswer

ALLOW = RuleAction.ALLOW
ASKING = ["permissions", "trust", "commands", "paths", "grounding", "hosts", "leaks", "flow", "anomaly"]
LINKS = {"/ws/link": "/srv/x", "/data/link": "/srv/x"}


def put(make, value, kind=Kind.PATH, tool="tool", **fields):
    """An action about one value and a question about it."""
    action = make.action(
        make.spec(tool, Effect.ALL, kinds={"v": kind}),
        {"v": value},
        resolved=LINKS,
        asker=fields.pop("asker", Asker.MODEL),
    )
    return action, Ask("some_rule", "may it?", fields.pop("about", action.atoms), **fields)


def rules(*matches, tool="tool", where="config.toml:3"):
    return tuple(Rule(tool, ALLOW, match, where=where) for match in matches)


def answered(make, gate, action, ask, **policy) -> str | None:
    return answer_in_advance(gate, ask, action, make.session(**policy))


@pytest.mark.parametrize("gate", ASKING)
@pytest.mark.parametrize(
    ("matches", "about_tool", "about_parts"),
    [
        ((None,), True, False),  # a rule for the tool as such says nothing of where its paths lead
        (("src/**",), True, True),
        (("lib/**",), False, False),
        (("lib/**", "src/*"), True, True),
        ((), False, False),
    ],
)
def test_an_allow_rule_answers_what_it_covers_and_nothing_of_another_tool(
    make, gate, matches, about_tool, about_parts
) -> None:
    action, ask = put(make, "src/a.py")
    about_the_tool = gate in {"permissions", "trust", "commands"}
    expected = about_tool if about_the_tool else about_parts
    found = answered(make, gate, action, ask, rules=rules(*matches))
    assert (found is not None) is expected
    assert found is None or "config.toml:3" in found
    assert answered(make, gate, action, ask, rules=rules(*matches, tool="other")) is None


@pytest.mark.parametrize("gate", ASKING)
def test_nothing_given_beforehand_answers_a_forced_question(make, gate) -> None:
    action, ask = put(make, "src/a.py", force=True)
    start = make.session(
        Granted(0, Grant("", "tool", None)),
        Granted(0, Grant("", "tool", "**")),
        rules=rules(None, "**"),
        autonomy=Autonomy.FULL,
        allowed_paths=("/ws",),
    )
    assert answer_in_advance(gate, ask, action, start) is None


def test_no_allow_rule_outweighs_an_ask_rule_but_a_grant_does(make) -> None:
    action, ask = put(make, "a", own_rule=True)
    assert answered(make, "permissions", action, ask, rules=rules(None, "**")) is None
    assert (
        answer_in_advance("permissions", ask, action, make.session(Granted(0, Grant("", "tool", "a"))))
        == "grant: allow tool a for this session"
    )
    assert answered(make, "permissions", action, ask, autonomy=Autonomy.FULL) == "autonomy full"


def test_a_rule_must_cover_everything_that_is_asked_about(make) -> None:
    tool = make.spec(effects=Effect.WRITE, kinds={"a": Kind.PATH, "b": Kind.PATH})
    action = make.action(tool, {"a": "src/x", "b": "lib/x"})
    ask = Ask("outside", "?", action.atoms)
    assert answered(make, "paths", action, ask, rules=rules("src/*")) is None
    assert answered(make, "paths", action, ask, rules=rules("src/*", "lib/*")) is not None


@pytest.mark.parametrize(
    ("value", "covered"),
    [
        ("/data/x", True),
        ("/data", True),
        ("/data-evil/x", False),
        ("/srv/x", False),
        ("/data/link", False),
        ("/ws/link", False),
    ],
)
def test_full_autonomy_opens_allowed_paths_only(make, value, covered) -> None:
    action, ask = put(make, value)
    found = answered(make, "paths", action, ask, autonomy=Autonomy.FULL, allowed_paths=("/data",))
    assert found == ("autonomy full" if covered else None)


@pytest.mark.parametrize("autonomy", list(Autonomy))
@pytest.mark.parametrize("gate", ASKING)
def test_what_full_autonomy_answers(make, gate, autonomy) -> None:
    action, ask = put(make, "/srv/x")
    found = answered(make, gate, action, ask, autonomy=autonomy)
    assert (found is not None) is (autonomy is Autonomy.FULL and gate in {"permissions", "trust", "commands"})


@pytest.mark.parametrize("force", [False, True])
def test_typing_is_an_answer_to_what_was_typed(make, force) -> None:
    action, ask = put(make, "/srv/x", asker=Asker.PERSON, force=force)
    assert answered(make, "paths", action, ask) == "the person, by typing it"
    link, about = put(make, "link", asker=Asker.PERSON, force=force)
    assert answered(make, "paths", link, about) is None, "where a link leads was not typed"
    model, _ = put(make, "/srv/x")
    assert answered(make, "paths", model, ask) is None


# ------------------------------------------------------------------ a second look


def test_a_yes_holds_for_what_was_shown_only(make) -> None:
    action, ask = put(make, "link")
    moved = make.action(action.spec, {"v": "link"}, resolved={"/ws/link": "/srv/elsewhere"})
    other, new = put(make, "other")
    left, fine = (("paths", ask),), Decision((GateAnswer("paths", ask),))
    assert recheck(action, left, action, fine, left) is fine
    assert recheck(action, left, action, fine, ()) is fine, "a question that is gone needs no answer"
    for again, open_now in (
        (moved, ()),
        (other, ()),
        (action, (("paths", new),)),
        (action, (*left, ("anomaly", new))),
    ):
        gate, denial = recheck(action, left, again, fine, open_now).denial
        assert (gate, denial.rule) == ("approval", "changed")
    denied = Decision((GateAnswer("trust", Deny("blocked", "no")),))
    assert recheck(action, left, moved, denied, ()) is denied


@given(
    st.sampled_from(ASKING),
    st.booleans(),
    st.booleans(),
    st.sampled_from(list(Autonomy)),
    st.lists(st.sampled_from([None, "**", "/srv/*", "x"]), max_size=3),
)
def test_more_rules_never_take_an_answer_away(make, gate, force, own, autonomy, matches) -> None:
    action, ask = put(make, "/srv/x", force=force, own_rule=own)
    found = [
        answered(make, gate, action, ask, autonomy=autonomy, rules=rules(*matches[:count])) is not None
        for count in range(len(matches) + 1)
    ]
    assert found == sorted(found)
    assert not (force and any(found))
