"""A tool does only what the level of its source is trusted with."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.gates import trust
from leeward.security.kinds import Effect, Kind
from leeward.security.session import LevelSet
from leeward.security.trust import TrustLevel, min_trust
from leeward.security.verdict import Allow, Ask, Deny

TRUSTED, VERIFIED, QUARANTINED, BLOCKED = TrustLevel
READ, BEYOND = (
    Effect.READ,
    [Effect.WRITE, Effect.EXECUTE, Effect.SEND, Effect.BRING_IN, Effect.READ | Effect.WRITE, Effect.ALL],
)
WORDS = {TRUSTED: (Allow, Allow), VERIFIED: (Allow, Ask), QUARANTINED: (Allow, Deny), BLOCKED: (Deny, Deny)}

# declared, configured for the tool, for its source, said in this session → the level that holds
LEVELS = [
    (TRUSTED, None, None, None, TRUSTED),
    (VERIFIED, None, None, None, VERIFIED),
    (QUARANTINED, None, None, None, QUARANTINED),
    (BLOCKED, None, None, None, BLOCKED),
    (TRUSTED, QUARANTINED, None, None, QUARANTINED),
    (TRUSTED, None, QUARANTINED, None, QUARANTINED),
    (TRUSTED, VERIFIED, BLOCKED, None, BLOCKED),
    (QUARANTINED, TRUSTED, TRUSTED, None, QUARANTINED),
    (VERIFIED, TRUSTED, None, None, VERIFIED),
    (QUARANTINED, None, None, TRUSTED, TRUSTED),
    (TRUSTED, None, None, BLOCKED, BLOCKED),
    (TRUSTED, BLOCKED, BLOCKED, VERIFIED, VERIFIED),
]


def judge(make, gate, declared, tool, source, said, effects):
    spec = make.spec(effects=effects, level=declared, source="plug-in x")
    levels = {
        key: level
        for key, level in {"tool": tool, "plug-in x": source, "other": BLOCKED}.items()
        if level is not None
    }
    events = [LevelSet(0, "tool", said, "the person")] if said is not None else []
    return gate(
        make.action(spec, {}), make.session(LevelSet(0, "other", BLOCKED, "x"), *events, levels=levels)
    )


def failures(make, gate):
    return [
        (row, effects)
        for row, effects in product(LEVELS, [READ, *BEYOND])
        if not isinstance(judge(make, gate, *row[:4], effects), WORDS[row[4]][effects is not READ])
    ]


def test_each_level_of_trust_permits_its_effects_and_no_others(make) -> None:
    assert failures(make, trust) == []


def test_the_obvious_wrong_gate_is_caught(make, planted) -> None:
    assert len(failures(make, planted("trust").trust)) >= 10


@pytest.mark.parametrize("level", [3, 4, 99])
def test_a_level_nobody_knows_is_not_trust(make, level) -> None:
    assert isinstance(judge(make, trust, level, None, None, None, READ), Deny)


def test_a_plain_number_is_the_level_it_means(make) -> None:
    assert [type(judge(make, trust, level, None, None, None, Effect.WRITE)) for level in (0, 1, 2, 3)] == [
        Allow,
        Ask,
        Deny,
        Deny,
    ]


def test_a_tool_we_do_not_have_is_not_trusted(make) -> None:
    action = make.replace(make.action(make.spec()), spec=None)
    assert isinstance(trust(action, make.session()), Deny)


def test_the_question_names_what_the_call_is_about_and_not_what_it_says(make) -> None:
    tool = make.spec(effects=Effect.WRITE, level=VERIFIED, kinds={"p": Kind.PATH, "t": Kind.TEXT, "q": None})
    assert [
        atom.pointer
        for atom in trust(make.action(tool, {"p": "a", "t": "b", "q": "c"}), make.session()).about
    ] == ["/p"]


def test_a_denial_says_what_lifts_it(make) -> None:
    for declared in (QUARANTINED, BLOCKED):
        assert "/trust TOOL LEVEL" in judge(make, trust, declared, None, None, None, Effect.ALL).reason


@given(st.lists(st.sampled_from(TrustLevel)))
def test_the_weakest_of_several_levels_holds(levels) -> None:
    assert min_trust(*levels) == max(levels, default=BLOCKED)
