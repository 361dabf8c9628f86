"""A decision's record: complete, without secrets, bounded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from urllib.parse import quote

import pytest

from leeward.memory.audit import body_of
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Output
from leeward.security.paths import FileState
from leeward.security.pipeline import Pipeline, judge
from leeward.security.policy import Rule, RuleAction
from leeward.security.ports import Answer
from leeward.security.record.decisions import decided_event as recorded
from leeward.security.record.redaction import redact_arguments
from leeward.security.session import Asked, Decided, Finished, LevelSet, ModelSet, TextSeen
from leeward.security.trust import Origin, TrustLevel
from masks import kinds

KEY = "ghp_" + "A1b2" * 9
OWN = "correct-horse-battery"


@pytest.fixture
def tools(make) -> list:
    return [
        make.spec("note", Effect.READ, kinds={"text": Kind.TEXT}),
        make.spec(
            "login", Effect.READ, kinds={"password": Kind.SECRET, "text": Kind.TEXT, "path": Kind.PATH}
        ),
        make.spec("shell", Effect.ALL, kinds={"command": Kind.COMMAND}),
        make.spec("write", Effect.WRITE, kinds={"path": Kind.PATH, "content": Kind.TEXT}),
        make.spec("fetch", Effect.SEND | Effect.BRING_IN, kinds={"url": Kind.URL}),
        make.spec("any", Effect.READ, schema={"type": "object"}),
        make.spec("get", Effect.READ, kinds={"id": Kind.RESOURCE_ID}),
    ]


async def told(make, tools, tool, arguments, answer=Answer.NO, **fields) -> tuple[Decided, str]:
    """The decision about one call, and everything that is written of it."""
    desk = make.desk(*tools, **fields)
    desk.says(answer)
    await desk.run(tool, arguments)
    (decided,) = desk.audit.of(Decided)
    return decided, "\n".join(map(body_of, desk.audit.committed))


# ------------------------------------------------------------------ nothing secret


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("note", {"text": f"the key is {KEY}"}),
        ("any", {KEY: "x"}),
        ("any", {"deep": [{"a": KEY}, KEY]}),
        ("fetch", {"url": f"https://a.example/?token={KEY}"}),
        ("fetch", {"url": f"https://{KEY}@a.example/"}),
        ("shell", {"command": f"curl -H 'Authorization: Bearer {KEY}' https://a.example/"}),
        ("shell", {"command": f"echo {KEY[:8]}''{KEY[8:]} {KEY}"}),
        ("get", {"id": f"../{KEY}"}),
        ("write", {"path": f"/etc/{KEY}", "content": "x"}),
        ("missing", f'{{"a": "{KEY}"}}'),
        ("note", f'{{"text": "{KEY}'),
        ("note", {"text": KEY, KEY: 1}),
    ],
)
async def test_a_credential_stands_nowhere(make, tools, tool, arguments) -> None:
    _, written = await told(make, tools, tool, arguments)
    assert KEY not in written and KEY[4:24] not in written


@pytest.mark.parametrize(
    "spell",
    [str, quote, lambda text: text.replace("-", "%2D"), lambda text: f"'{text}'", lambda text: f"../{text}"],
)
async def test_a_declared_secret_is_masked_wherever_it_is_said_again(make, tools, spell) -> None:
    _, written = await told(make, tools, "login", {"password": OWN, "text": spell(OWN), "path": spell(OWN)})
    assert OWN not in written and OWN.replace("-", "%2D") not in written


async def test_what_was_masked_for_the_words_around_it_is_masked_without_them(make, tools) -> None:
    """The gate quotes the value alone, without the name by which it was known for a secret."""
    marked = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow" + "Ab1+" * 12 + "\n-----END RSA PRIVATE KEY-----"
    decided, written = await told(make, tools, "get", {"id": marked})
    assert decided.words[-1].word != "x" and "MIIEow" not in written
    command = f"deploy --header {KEY[:4]}'{KEY[4:]}'"
    decided, written = await told(make, tools, "shell", {"command": f"{command} {KEY}"})
    assert [kinds(part.text) for part in decided.reading.parts] == ["[secret]"]
    assert KEY[4:24] not in written


async def test_a_secret_at_the_cut_is_not_cut_in_half(make, tools) -> None:
    for before in range(4096 - len(KEY), 4097, 7):
        _, written = await told(make, tools, "note", {"text": "x " * (before // 2) + KEY + " y" * 400})
        assert KEY[:12] not in written
        _, written = await told(make, tools, "missing", "{" + " " * before + KEY)
        assert KEY[:12] not in written


async def test_hashes_on_record_cannot_be_tried_out_without_the_key(make, tools) -> None:
    async def digests(key: bytes) -> list[str]:
        desk = make.desk(*tools)
        desk.pipeline = Pipeline(make.replace(make.session(), key=key), desk.pipeline._ports)
        desk.says(Answer.NO)
        await desk.run("login", {"password": OWN, "text": "", "path": "a"})
        await desk.run("shell", {"command": "make"})
        return [
            digest
            for event in desk.audit.committed
            for name in ("digest", "result")
            if (digest := getattr(event, name, ""))
        ]

    plain, one, other = [await digests(key) for key in (b"", b"1" * 32, b"2" * 32)]
    assert not {*plain} & {*one} and not {*one} & {*other} and len(plain) == len(one)
    guess = hashlib.sha256(
        b"login\0"
        + json.dumps(
            {"password": OWN, "path": "a", "text": ""}, sort_keys=True, separators=(",", ":")
        ).encode()
    ).hexdigest()
    assert guess in plain and guess not in one


async def test_repetition_is_seen_with_keyed_hashes(make, tools) -> None:
    desk = make.desk(*tools)
    desk.pipeline = Pipeline(make.replace(make.session(), key=b"k" * 32), desk.pipeline._ports)
    last = [(await desk.run("note", {"text": "a"}, call_id=f"c{number}")).outcome.gate for number in range(4)]
    assert last == [None, None, None, "budget"]


# ------------------------------------------------------------------ not without bound


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "x" * 900_000},
        {"text": "é\u200b" * 50_000},
        {f"k{number}": "/etc/" + "y" * 900 for number in range(900)},
        {"x" * 900_000: 1},
        {"list": [{"a": "https://a.example/" + "p" * 2000}] * 400},
    ],
)
async def test_a_record_is_bounded(make, tools, arguments) -> None:
    decided, _ = await told(make, tools, "any", arguments)
    assert len(body_of(decided)) < 1_200_000 and len(decided.arguments) <= 64 * 1024
    assert decided.reading.hidden
    _, written = await told(make, tools, "note", {"text": "x" * 900_000})
    assert len(written) < 10_000


async def test_what_is_short_stands_there_whole(make, tools) -> None:
    decided, _ = await told(make, tools, "write", {"path": "a", "content": "x" * 4000})
    assert decided.reading.hidden == () and json.loads(decided.arguments)["content"] == "x" * 4000


# ------------------------------------------------------------------ all that explains it


async def test_a_question_says_who_was_asked_for_how_long_and_what_always_would_have_been(
    make, tools
) -> None:
    desk = make.desk(*tools)
    await desk.pipeline.note(
        ModelSet(1, "offline", "the session began"), TextSeen(1, (Origin.WEB, Origin.SECRET))
    )

    async def think(_question) -> None:
        desk.clock.at += 2.5

    desk.approver.hook = think
    for answer, approver, allowed in (
        (Answer.YES, "the person", True),
        (Answer.NO, "the person", False),
        (Answer.NOBODY, "nobody", False),
    ):
        desk.says(answer)
        desk.audit.committed.clear()
        await desk.run("write", {"path": "a.txt", "content": "hello"})
        (asked,), (decided,) = desk.audit.of(Asked), desk.audit.of(Decided)
        seen = tuple(sorted(desk.session.labels - {Origin.WORKSPACE}))
        assert (decided.allowed, decided.approver, decided.waited) == (allowed, approver, 2.5)
        assert decided.at == asked.at + 2.5 and (decided.judged == asked.at) is not allowed
        assert (decided.asker, decided.model, tuple(label for label in decided.labels if label in seen)) == (
            "model",
            "offline",
            (Origin.SECRET, Origin.WEB),
        )
        assert decided.always == (("write", "/ws/a.txt", None, None),)
        assert {part.pointer: part.text for part in decided.reading.parts} == {
            "/path": "/ws/a.txt",
            "/content": "",
        }


async def test_no_rules_are_on_record_that_were_never_on_offer(make, tools) -> None:
    long = "".join(f"line {number}\n" for number in range(100))
    for content, always in (("short", (("write", "/ws/a.txt", None, None),)), (long, ())):
        desk = make.desk(*tools)
        desk.says(Answer.NO)
        await desk.run("write", {"path": "a.txt", "content": content})
        (decided,), (question,) = desk.audit.of(Decided), desk.approver.questions
        assert decided.always == always and bool(question.always) is bool(always)


async def test_the_folder_of_an_answer_that_lasts_is_on_record_as_it_is_called(make, tools) -> None:
    decided, _ = await told(make, tools, "shell", {"command": "cd 's*c' && make test"})
    assert decided.always == (("shell", "make test", "/ws/s*c", None),)


async def test_the_rule_that_spoke_is_named_with_its_place(make, tools) -> None:
    rules = (
        Rule("write", RuleAction.DENY, "*.toml", where="config.toml:12"),
        Rule("write", RuleAction.ASK, where="config.toml:15"),
    )
    decided, _ = await told(make, tools, "write", {"path": "a.lock", "content": ""}, rules=rules)
    said = next(said for said in decided.words if said.gate == "permissions")
    assert (said.word, said.where, said.reason) == (
        "ask",
        "config.toml:15",
        "a permission rule asks about this",
    )
    assert said.own_rule and not said.force
    decided, _ = await told(
        make,
        tools,
        "write",
        {"path": "/ws/a.lock", "content": ""},
        rules=(Rule("write", RuleAction.DENY, "/ws/*.lock", where="config.toml:12"),),
    )
    assert next(said for said in decided.words if said.word == "deny").where == "config.toml:12"


def test_what_a_file_held_when_its_change_was_shown_is_on_record(make, tools) -> None:
    action = make.action(next(tool for tool in tools if tool.name == "write"), {"path": "a", "content": ""})
    seen = tuple(
        replace(atom, canonical=replace(atom.canonical, state=FileState("a file", "f" * 64)))
        if atom.kind is Kind.PATH
        else atom
        for atom in action.atoms
    )
    session = make.replace(make.session(), key=b"k" * 32)
    marks = {
        part.pointer: part.mark
        for part in recorded(session, replace(action, atoms=seen), judge(action, session), "").reading.parts
    }
    assert marks["/content"] == "" and len(marks["/path"]) == 64 and marks["/path"] != "f" * 64


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((), ("verified", "the configuration")),
        (
            (LevelSet(1, "write", TrustLevel.TRUSTED, "the person, by /trust"),),
            ("trusted", "the person, by /trust"),
        ),
    ],
)
async def test_trust_is_told_with_whose_word_it_is(make, tools, events, expected) -> None:
    desk = make.desk(*tools, levels={"write": TrustLevel.VERIFIED})
    await desk.pipeline.note(*events)
    await desk.run("write", {"path": "a", "content": ""})
    (decided,) = desk.audit.of(Decided)
    assert (decided.trust, decided.trust_from) == expected


async def test_an_outcome_says_whether_all_of_it_was_shown(make, tools) -> None:
    for size, is_cut in ((10, False), (60_000, True)):
        desk = make.desk(*tools)
        desk.executor.does = {"note": Output("x" * size)}
        await desk.run("note", {"text": "a"})
        (finished,) = desk.audit.of(Finished)
        assert finished.truncated is is_cut and (finished.overflow is not None) is is_cut


def test_masking_the_obvious_way_leaves_the_value_in_the_facts(make, tools, planted) -> None:
    """The wrong version masks the arguments and trusts that nothing else says them."""
    tool = next(tool for tool in tools if tool.name == "login")
    action = make.action(tool, {"password": OWN, "text": f"say {OWN}", "path": "a"})
    wrong, right = planted("record"), redact_arguments(action, make.session())
    assert OWN in wrong.fact(action, f"value {OWN}") and OWN not in right.text(f"value {OWN}")
