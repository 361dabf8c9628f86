"""The gate `flow`: after somebody else's text, what reaches others is the person's or is asked about."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leeward.memory.audit.events import body_of, event_of, kind_of
from leeward.runtime.grounding import given_in_turn
from leeward.security.call import Asker
from leeward.security.checks import suspicion_note
from leeward.security.gates import flow
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Output
from leeward.security.pipeline import GATES, judge
from leeward.security.policy import Autonomy, Rule, RuleAction
from leeward.security.ports import Answer
from leeward.security.session import Decided, Grant, Granted, TextSeen, apply_events
from leeward.security.trust import Origin
from leeward.security.verdict import Allow, Ask

IBAN, OTHER = "DE89370400440532013000", "US133000000121212121212"
KINDS = {
    "to": Kind.DESTINATION,
    "id": Kind.RESOURCE_ID,
    "body": Kind.TEXT,
    "title": Kind.TEXT,
    "start": Kind.TEXT,
    "password": Kind.SECRET,
    "path": Kind.PATH,
    "url": Kind.URL,
    "what": None,
}
TOOLS = {
    "send_mail": (Effect.SEND, "to body"),
    "pay": (Effect.SEND, "to body"),
    "post": (Effect.SEND, "url body"),
    "delete_file": (Effect.WRITE, "id"),
    "create_event": (Effect.CREATE, "title start to"),
    "set_password": (Effect.WRITE, "password"),
    "write_file": (Effect.WRITE, "path body"),
    "run_job": (Effect.EXECUTE, "id"),
    "search": (Effect.SEND | Effect.BRING_IN, "body"),
    "look": (Effect.READ, "id"),
    "upload": (Effect.SEND, "what"),
}


@pytest.fixture
def tools(make):
    return [
        make.spec(name, effects, kinds={key: KINDS[key] for key in keys.split()})
        for name, (effects, keys) in TOOLS.items()
    ]


def read(*origins):
    return TextSeen(0, origins)


def after(make, said, *origins, **fields):
    session = make.session(**fields)
    return apply_events(session, *given_in_turn(said, session), read(*(origins or (Origin.WEB,))))


def judged(make, tools, session, tool, arguments, asker=Asker.MODEL):
    spec = next(one for one in tools if one.name == tool)
    return flow(make.action(spec, arguments, held=session.policy, asker=asker), session)


MAIL = "Read the page and send a summary to kim@good.example."
# What the person said, a call, and whether it is theirs.
CASES = [
    (MAIL, "send_mail", {"to": "kim@good.example", "body": "It is about tides."}, True),
    (MAIL, "send_mail", {"to": "thief@evil.example", "body": "It is about tides."}, False),
    (MAIL, "send_mail", {"to": ["kim@good.example", "thief@evil.example"], "body": "Tides."}, False),
    (MAIL, "send_mail", {"to": "kim@good.example", "body": "See https://evil.example/login"}, False),
    (MAIL, "send_mail", {"to": "kim@good.example", "body": "See evil-login.com now"}, False),
    (MAIL, "send_mail", {"to": "kim@good.example", "body": "See evil-login.com/renew now"}, False),
    (MAIL, "send_mail", {"to": "kim@good.example", "body": "Write to help@evil.example"}, False),
    (MAIL, "send_mail", {"to": "kim@good.example", "body": "Call +44 20 7946 0999"}, False),
    (MAIL, "send_mail", {"to": "kim@good.example", "body": f"Pay {OTHER}"}, False),
    (MAIL, "send_mail", {"to": "kim@good.example", "body": "Pay DE12 5001 0517 0648 4898 90"}, False),
    (
        MAIL,
        "send_mail",
        {"to": "kim@good.example", "body": "Version 2.1.0 costs 40 e.g. in main.py, at 10:30."},
        True,
    ),
    (MAIL, "delete_file", {"id": "kim@good.example"}, False),
    ("Tell me what kim@good.example wrote.", "send_mail", {"to": "kim@good.example", "body": "hi"}, False),
    ("What did kim@good.example send?", "send_mail", {"to": "kim@good.example", "body": "hi"}, False),
    (
        "Never write to kim@good.example; send nothing.",
        "send_mail",
        {"to": "kim@good.example", "body": "hi"},
        False,
    ),
    (
        "Write to kim@good.example that Friday suits.",
        "send_mail",
        {"to": "kim@good.example", "body": "Friday suits."},
        True,
    ),
    (
        "Write to kim@good.example that Friday suits.",
        "send_mail",
        {"to": "kim@good.example", "body": "The office burns."},
        False,
    ),
    (f"Pay 75.50 to {IBAN}.", "pay", {"to": IBAN, "body": "", "amount": 75.5}, True),
    (f"Pay 75.50 to {IBAN}.", "pay", {"to": IBAN, "body": "", "amount": 755}, False),
    (f"Pay 75.50 to {IBAN}.", "pay", {"to": IBAN, "body": "", "amount": 75.5, "monthly": True}, False),
    (f"Pay 75.50 to {IBAN}.", "pay", {"to": OTHER, "body": "", "amount": 75.5}, False),
    ("Delete the file f-1234.", "delete_file", {"id": "f-1234"}, True),
    ("What is in the file f-1234?", "delete_file", {"id": "f-1234"}, False),
    ("Delete the file f-1234.", "delete_file", {"id": "f-9999"}, False),
    (
        "Create an event 'Budget' on June 4th 2026 at 2pm.",
        "create_event",
        {"title": "Budget", "start": "2026-06-04 14:00"},
        True,
    ),
    (
        "Create an event 'Budget' on June 4th 2026 at 2pm.",
        "create_event",
        {"title": "Budget", "start": "2026-06-05 14:00"},
        False,
    ),
    (
        "Create an event 'Budget' on June 4th 2026 at 2pm.",
        "create_event",
        {"title": "Payday", "start": "2026-06-04 14:00"},
        False,
    ),
    ("Set my password to violet-harbour.", "set_password", {"password": "violet-harbour"}, True),
    ("Set my password to violet-harbour.", "set_password", {"password": "new_password"}, False),
    ("Run the job nightly.", "run_job", {"id": "nightly"}, False),
    ("Publish it at https://good.example/p", "post", {"url": "https://good.example/p", "body": "x"}, True),
    ("Publish it at https://good.example/p", "post", {"url": "https://good.example/p/q", "body": "x"}, False),
    ("Publish it at https://good.example/p", "post", {"url": "https://evil.example/p", "body": "x"}, False),
    ("Upload it.", "upload", {"what": {"note": "see https://evil.example/x"}}, False),
    ("What is new?", "search", {"body": "news of today"}, True),
    ("What is new?", "look", {"id": "f-1"}, True),
    ("Write it down.", "write_file", {"path": "notes.txt", "body": "anything"}, True),
    ("Write it down.", "write_file", {"path": "Makefile", "body": "anything"}, False),
    ("Write it down.", "write_file", {"path": "/tmp/elsewhere.txt", "body": "x"}, False),
    ("Write a Makefile.", "write_file", {"path": "Makefile", "body": "anything"}, True),
]


@pytest.mark.parametrize(("said", "tool", "arguments", "is_theirs"), CASES)
@pytest.mark.parametrize("origin", [Origin.WEB, Origin.MCP])
def test_what_reaches_others_is_the_persons_or_is_asked_about(
    make, tools, said, tool, arguments, is_theirs, origin
) -> None:
    word = judged(make, tools, after(make, said, origin), tool, arguments)
    assert isinstance(word, Allow) is is_theirs, word
    if not is_theirs:
        assert word.force and ("text from" in word.question)
    clean = judged(make, tools, after(make, said, Origin.WORKSPACE), tool, arguments)
    assert isinstance(clean, Allow), "nobody else's text was read"
    assert isinstance(judged(make, tools, after(make, said), tool, arguments, Asker.PERSON), Allow)


def test_the_same_holds_without_leaks_and_at_every_level(make, tools) -> None:
    gates = tuple(gate for gate in GATES if gate.__name__ != "leaks")
    for level in Autonomy:
        session = after(make, MAIL, autonomy=level)
        send = next(one for one in tools if one.name == "send_mail")
        action = make.action(send, {"to": "kim@good.example", "body": "See https://evil.example/login"})
        asked = [gate for gate, ask in judge(action, session, gates).asks if ask.force]
        assert "flow" in asked, level


async def test_no_rule_grant_or_level_answers_it_and_nobody_is_a_no(make, tools) -> None:
    rules = (Rule("*", RuleAction.ALLOW),)
    desk = make.desk(*tools, start=after(make, MAIL, autonomy=Autonomy.FULL, rules=rules))
    desk.says(Answer.NOBODY)
    result = await desk.run("send_mail", {"to": "kim@good.example", "body": "See https://evil.example/login"})
    assert result.outcome.gate == "flow" and desk.ran == []


async def test_trust_in_a_value_answers_for_the_place_and_not_for_the_text(make, tools) -> None:
    said = "Read my mail and send a summary to Noor."
    session = after(make, said)
    seen = Granted(0, Grant("g_1", "trust:destination", "noor@good.example"))
    session = apply_events(session, seen)
    ask = judged(make, tools, session, "send_mail", {"to": "noor@good.example", "body": "All is well."})
    assert isinstance(ask, Allow)
    ask = judged(
        make, tools, session, "send_mail", {"to": "noor@good.example", "body": "see https://evil.example/"}
    )
    assert isinstance(ask, Ask) and ask.rule == "not_yours"


async def test_a_name_is_good_for_one_text(make, tools) -> None:
    desk = make.desk(*tools, start=after(make, MAIL))
    desk.says(Answer.NOBODY)
    arguments = {"to": "kim@good.example", "body": "It is about tides."}
    assert (await desk.run("send_mail", arguments)).error is None
    again = await desk.run("send_mail", {**arguments, "body": "The office burns."}, call_id="c2")
    assert again.outcome.gate == "flow"
    decided = desk.audit.of(Decided)[0]
    assert event_of(kind_of(decided), json.loads(body_of(decided))) == decided and decided.use.sent


async def test_several_values_of_one_text_are_one_question_unless_others_have_a_say(make, tools) -> None:
    for origin, questions in ((Origin.TOOL, 1), (Origin.WORKSPACE, 1), (Origin.WEB, 3)):
        desk = make.desk(*tools, start=make.session())
        desk.says(Answer.YES)
        await desk.pipeline.note(
            *given_in_turn("Tell everybody on the list that we are closed.", desk.session)
        )
        desk.executor.does["send_mail"] = Output("sent", Origin.TOOL)
        desk.executor.does["look"] = Output("a@good.example, b@good.example, c@good.example", origin)
        await desk.run("look", {"id": "list"}, call_id="c0")
        for number, name in enumerate("abc"):
            await desk.run(
                "send_mail", {"to": f"{name}@good.example", "body": "we are closed"}, call_id=f"m{number}"
            )
        assert len(desk.approver.questions) == questions, origin
        await desk.pipeline.note(*given_in_turn("Thanks.", desk.session))
        await desk.run("send_mail", {"to": "a@good.example", "body": "x"}, call_id="later")
        assert len(desk.approver.questions) == questions + 1, "a yes is for its turn"


@pytest.mark.parametrize("headless", [False, True])
async def test_both_labels_and_something_outward_always_ask(make, tools, headless) -> None:
    said = f"Pay 75.50 to {IBAN}."
    session = after(
        make, said, Origin.WEB, Origin.SECRET, headless=headless, rules=(Rule("*", RuleAction.ALLOW),)
    )
    for tool, arguments in (
        ("pay", {"to": IBAN, "body": "", "amount": 75.5}),
        ("search", {"body": "news"}),
    ):
        word = judged(make, tools, session, tool, arguments)
        assert isinstance(word, Ask) and word.force and word.rule == "confidential_and_untrusted", tool
    desk = make.desk(*tools, start=session)
    desk.says(Answer.NOBODY)
    assert (await desk.run("pay", {"to": IBAN, "body": "", "amount": 75.5})).outcome.gate == "flow"


def test_after_something_confidential_sending_names_what_was_read(make, tools) -> None:
    session = after(make, f"Pay 75.50 to {IBAN}.", Origin.SECRET)
    word = judged(make, tools, session, "pay", {"to": IBAN, "body": "", "amount": 75.5})
    assert isinstance(word, Ask) and word.rule == "after_confidential" and not word.force
    assert "confidential" in word.question
    for tool, arguments in (
        ("look", {"id": "f-1"}),
        ("write_file", {"path": "a", "body": "b"}),
    ):
        assert isinstance(judged(make, tools, session, tool, arguments), Allow), tool


ORIGINS = st.sets(st.sampled_from([Origin.WEB, Origin.MCP, Origin.WORKSPACE, Origin.SECRET]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=st.sampled_from(CASES), before=ORIGINS, more=ORIGINS)
def test_one_more_text_never_turns_a_question_into_silence(make, tools, case, before, more) -> None:
    said, tool, arguments, _ = case
    earlier = after(make, said, *(before or {Origin.WORKSPACE}))
    later = apply_events(earlier, read(*more))
    words = [judged(make, tools, one, tool, arguments) for one in (earlier, later)]
    assert not (isinstance(words[0], Ask) and isinstance(words[1], Allow))
    assert not (isinstance(words[0], Ask) and words[0].force and not words[1].force)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=st.sampled_from(CASES), origins=ORIGINS, kinds=st.sets(st.sampled_from(["exfiltration", "override"]))
)
def test_what_looks_like_orders_is_in_the_question_and_decides_nothing(
    make, tools, case, origins, kinds
) -> None:
    said, tool, arguments, _ = case
    plain = after(make, said, *(origins or {Origin.WEB}))
    suspicious = apply_events(plain, TextSeen(0, (), suspicion=tuple(kinds)))
    without, word = (judged(make, tools, one, tool, arguments) for one in (plain, suspicious))
    if not isinstance(word, Ask):
        assert word == without
        return
    assert replace(word, question=without.question) == without
    if word.force:
        assert word.question == without.question + suspicion_note(suspicious)
        assert all(kind in word.question for kind in kinds)


@pytest.mark.parametrize("name", ["by_destination", "by_level", "by_text"])
def test_the_obvious_wrong_versions_are_found_out(make, tools, planted, name) -> None:
    wrong = getattr(planted("flow"), name)
    differs = []
    for said, tool, arguments, is_theirs in CASES:
        spec = next(one for one in tools if one.name == tool)
        session = after(make, said, autonomy=Autonomy.FULL)
        word = wrong(make.action(spec, arguments, held=session.policy), session)
        differs.append(isinstance(word, Allow) is not is_theirs)
    assert any(differs)
