"""The person's ask and deny rules, the autonomy level, and what holds where no rule speaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.gates import permissions
from leeward.security.kinds import Effect, Kind
from leeward.security.policy import Autonomy, Rule, RuleAction
from leeward.security.verdict import Allow, Ask, Deny

ALLOW, ASK, DENY = RuleAction.ALLOW, RuleAction.ASK, RuleAction.DENY
READ, WRITE, RUN, SEND, BRING = Effect.READ, Effect.WRITE, Effect.EXECUTE, Effect.SEND, Effect.BRING_IN
FETCH = SEND | BRING
KINDS = {
    "path": Kind.PATH,
    "url": Kind.URL,
    "command": Kind.COMMAND,
    "to": Kind.DESTINATION,
    "id": Kind.RESOURCE_ID,
    "text": Kind.TEXT,
    "q": None,
}
PATH, URL, LINE, TO, TEXT = (
    {"path": "src/a"},
    {"url": "https://a.example/x"},
    {"command": "git status ; rm x"},
    {"to": "ops@a.example"},
    {"text": "hi"},
)
DARK = {"command": "git log 'x"}


def rule(action, match=None, force=False, tool="tool"):
    return Rule(tool, action, match, force, where="config.toml:7")


# effects, arguments, rules → word, forced
TABLE = [
    (READ, PATH, [], Allow, False),
    (BRING, TEXT, [], Allow, False),
    (BRING, {}, [], Allow, False),
    (BRING, {"q": "weather"}, [], Ask, False),
    (READ | BRING, {**PATH, "q": "weather"}, [], Ask, False),
    (READ, {"q": "weather"}, [], Allow, False),
    (BRING, {**URL, "q": "weather"}, [], Allow, False),
    (WRITE, PATH, [], Ask, False),
    (WRITE, {}, [], Ask, False),
    (RUN, {"command": "ls"}, [], Allow, False),
    (RUN, DARK, [], Allow, False),
    (RUN, {"command": "rm x"}, [], Allow, False),
    (RUN, {"command": "rm x", **TEXT}, [], Ask, False),
    (RUN, {**DARK, **TEXT}, [], Ask, True),
    (RUN, {"q": "a $(b)"}, [], Ask, False),
    (RUN, {"q": "a $(b"}, [], Ask, True),
    (FETCH, URL, [], Allow, False),
    (FETCH, {**URL, **TEXT}, [], Allow, False),
    (FETCH, TEXT, [], Ask, False),
    (FETCH, {"q": "see https://a.example/x"}, [], Ask, False),
    (SEND, TO, [], Allow, False),
    (SEND, {**TO, **URL, **TEXT}, [], Allow, False),
    (SEND | WRITE, TO, [], Ask, False),
    (SEND, TO, [rule(ASK, "ops@*")], Ask, False),
    (SEND, TO, [rule(DENY, "*@a.example")], Deny, False),
    (SEND | WRITE, URL, [], Ask, False),
    (SEND | RUN, URL, [], Ask, False),
    (Effect.ALL, URL, [], Ask, False),
    (READ, PATH, [rule(DENY)], Deny, False),
    (READ, {}, [rule(DENY)], Deny, False),
    (READ, PATH, [rule(DENY, tool="other")], Allow, False),
    (READ, PATH, [rule(DENY, "src/**")], Deny, False),
    (READ, PATH, [rule(DENY, "lib/**")], Allow, False),
    (RUN, LINE, [rule(DENY, "rm *")], Deny, False),
    (RUN, {"command": "a $(rm x)"}, [rule(DENY, "rm *")], Deny, False),
    (RUN, DARK, [rule(DENY, "*")], Deny, False),
    (READ, {**PATH, **URL}, [rule(DENY, "a.example")], Deny, False),
    (READ, PATH, [rule(ALLOW, "**"), rule(DENY, "src/**")], Deny, False),
    (READ, PATH, [rule(ASK), rule(DENY)], Deny, False),
    (WRITE, PATH, [rule(ALLOW)], Ask, False),
    (WRITE, PATH, [rule(ALLOW, "**")], Ask, False),
    (READ, PATH, [rule(ALLOW)], Allow, False),
    (READ, PATH, [rule(ASK)], Ask, False),
    (READ, PATH, [rule(ASK, "lib/**")], Allow, False),
    (READ, PATH, [rule(ASK, force=True)], Ask, True),
    (READ, PATH, [rule(ASK), rule(ASK, force=True)], Ask, True),
    (READ, PATH, [rule(ASK), rule(ASK, "lib/**", force=True)], Ask, False),
    (RUN, DARK, [rule(ASK)], Ask, False),
    (RUN, {**PATH, **DARK}, [rule(ASK, "src/**")], Ask, True),
]
IDS = [
    f"{str(effects)} {arguments} {[str(rule) for rule in rules]}" for effects, arguments, rules, *_ in TABLE
]


def judge(make, gate, effects, arguments, rules, **policy):
    tool = make.spec(effects=effects, kinds={key: KINDS[key] for key in arguments})
    return gate(make.action(tool, arguments), make.session(rules=tuple(rules), **policy))


@pytest.mark.parametrize(("effects", "arguments", "rules", "word", "force"), TABLE, ids=IDS)
def test_the_rules_of_the_person_decide_before_the_default(
    make, effects, arguments, rules, word, force
) -> None:
    verdict = judge(make, permissions, effects, arguments, rules)
    assert isinstance(verdict, word)
    assert getattr(verdict, "force", False) is force
    if rules and word is not Allow and verdict.rule != "default":
        assert verdict.rule.endswith("at config.toml:7")
        assert getattr(verdict, "own_rule", True)


def test_the_obvious_wrong_gate_is_caught(make, planted) -> None:
    wrong = planted("permissions").permissions
    caught = [
        name
        for name, (effects, arguments, rules, word, _) in zip(IDS, TABLE, strict=True)
        if not isinstance(judge(make, wrong, effects, arguments, rules), word)
    ]
    assert len(caught) >= 5


CHANGING = [
    (WRITE, PATH),
    (RUN, {"command": "rm x"}),
    (SEND, TEXT),
    (SEND, TO),
    (SEND | WRITE, URL),
    (Effect.ALL, {}),
    (BRING, {"q": "weather"}),
]
READING = [(READ, PATH), (BRING, TEXT), (FETCH, URL), (READ | FETCH, URL), (Effect.ALL, {"command": "ls"})]


@pytest.mark.parametrize(("effects", "arguments"), CHANGING)
def test_readonly_refuses_what_changes_or_sends(make, effects, arguments) -> None:
    for rules in ([], [rule(ALLOW)], [rule(ASK)]):
        verdict = judge(make, permissions, effects, arguments, rules, autonomy=Autonomy.READONLY)
        assert (type(verdict), verdict.rule) == (Deny, "readonly")


@pytest.mark.parametrize(("effects", "arguments"), READING)
@pytest.mark.parametrize("autonomy", list(Autonomy))
def test_reading_and_opening_urls_is_reading_at_every_level(make, effects, arguments, autonomy) -> None:
    assert judge(make, permissions, effects, arguments, [], autonomy=autonomy) == Allow()


def test_without_the_ledger_a_destination_is_asked_about(make) -> None:
    verdict = judge(make, permissions, SEND, TO, [], url_grounding=False)
    assert isinstance(verdict, Ask) and verdict.rule == "default"
    assert judge(make, permissions, FETCH, URL, [], url_grounding=False) == Allow()


@pytest.mark.parametrize(
    ("effects", "arguments"), [case for case in CHANGING if case[1] is not TO and "command" not in case[1]]
)
def test_full_autonomy_is_an_answer_and_not_this_gates_word(make, effects, arguments) -> None:
    assert isinstance(judge(make, permissions, effects, arguments, [], autonomy=Autonomy.FULL), Ask)


def test_a_question_names_everything_a_rule_could_speak_of(make) -> None:
    given = {**PATH, **URL, **TO, **TEXT, "id": "i1"}
    assert [atom.pointer for atom in judge(make, permissions, WRITE, given, []).about] == [
        "/path",
        "/url",
        "/to",
        "/id",
    ]


def test_an_ask_rule_asks_about_no_less_than_the_default_does(make) -> None:
    """Or a grant for the part that the rule named would let everything else pass unasked."""
    ask = judge(make, permissions, WRITE | RUN, {**PATH, "command": "ls"}, [rule(ASK, "src/**")])
    assert [atom.pointer for atom in ask.about] == ["/path", "/command"] and ask.own_rule
    assert [
        atom.pointer for atom in judge(make, permissions, READ, {**PATH, **TEXT}, [rule(ASK, "src/**")]).about
    ] == ["/path"]


RULES = st.lists(
    st.builds(
        Rule,
        st.sampled_from(["tool", "*", "other"]),
        st.sampled_from(RuleAction),
        st.sampled_from([None, "src/**", "rm *", "a.example", "*"]),
        st.booleans(),
    ),
    max_size=4,
)
STRICTNESS = {Allow: 0, Ask: 1, Deny: 2}


@given(st.sampled_from(TABLE), RULES, RULES, st.sampled_from(list(Autonomy)))
def test_one_rule_more_never_makes_this_gate_milder(make, row, few, more, autonomy) -> None:
    before, now = (
        judge(make, permissions, *row[:2], rules, autonomy=autonomy) for rules in (few, few + more)
    )
    assert STRICTNESS[type(now)] >= STRICTNESS[type(before)]
    if isinstance(before, Ask) and isinstance(now, Ask):
        assert (
            now.force >= before.force
            and set(now.about) >= set(before.about)
            and now.own_rule >= before.own_rule
        )
