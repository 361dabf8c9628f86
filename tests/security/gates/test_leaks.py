"""The gate `leaks`: no known secret leaves in any spelling, and nothing confidential without a question."""

from __future__ import annotations

import base64
import codecs
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.memory.audit.events import body_of, event_of, kind_of
from leeward.runtime.conversation.prompt import system_prompt
from leeward.security.call import Asker
from leeward.security.gates import leaks
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Output
from leeward.security.ports import Answer
from leeward.security.record import action_from_record
from leeward.security.session import ConversationCleared, Decided, TextSeen, apply_events
from leeward.security.trust import Origin
from leeward.security.verdict import Allow, Ask, Deny

SECRET = "zk-4Qm9/Lx7Tp2+Vw8Rb3Ny"
ORDINARY = "The meeting is moved to Thursday at ten; please bring the minutes of the last one along."


@pytest.fixture
def tools(make):
    kinds = {"to": Kind.DESTINATION, "body": Kind.TEXT, "url": Kind.URL, "what": None}
    return [
        make.spec("send", Effect.SEND, kinds={key: kinds[key] for key in ("to", "body", "what")}),
        make.spec("get", Effect.BRING_IN, kinds={"url": Kind.URL}),
        make.spec("look", Effect.READ, kinds={"body": Kind.TEXT}),
        make.spec("ward", Effect.READ, kinds={"body": Kind.TEXT}, confidential=True, result=Origin.TOOL),
        make.spec("keep", Effect.WRITE, kinds={"body": Kind.TEXT}),
    ]


@pytest.fixture
def desk(make, tools):
    found = make.desk(
        *tools, start=make.session(said=["https://good.example/docs"]), secrets=frozenset({SECRET})
    )
    found.says(Answer.YES)
    return found


def spelled(text: str) -> dict[str, str]:
    raw = text.encode()
    return {
        "plain": text,
        "upper": text.upper(),
        "spread": " ".join(text),
        "reversed": text[::-1],
        "rot13": codecs.encode(text, "rot13"),
        "hex": raw.hex(),
        "hex upper": raw.hex().upper(),
        "percent": urllib.parse.quote(text, safe=""),
        "percent all": "".join(f"%{byte:02x}" for byte in raw),
        "base64": base64.b64encode(raw).decode(),
        "base64 second": base64.b64encode(b"x" + raw + b"tail").decode(),
        "base64 third": base64.b64encode(b"xy" + raw + b"t").decode(),
        "base64 url": base64.urlsafe_b64encode(raw).decode().rstrip("="),
        "base64 broken": "\n".join(base64.b64encode(raw).decode()[at : at + 8] for at in range(0, 32, 8)),
        "zero width": "\u200b".join(text),
    }


async def judged(desk, make, tool, arguments, asker=Asker.MODEL):
    action = await desk.pipeline.judge.read(make.call(tool, arguments, asker=asker))
    return leaks(action, desk.session)


@pytest.mark.parametrize("name", spelled(SECRET))
@pytest.mark.parametrize("which", ["secret", "canary"])
async def test_a_known_secret_leaves_in_no_spelling(desk, make, name, which) -> None:
    said = spelled(SECRET if which == "secret" else desk.session.canary)[name]
    for tool, arguments in (
        ("send", {"body": f"{ORDINARY} {said} {ORDINARY}"}),
        ("send", {"what": said}),
        ("send", {"what": {"deep": [{"er": f"x={said}"}]}}),
        ("get", {"url": f"https://good.example/docs?q={urllib.parse.quote(said)}"}),
        ("get", {"url": f"https://good.example/docs/{urllib.parse.quote(said, safe='')}"}),
    ):
        word = await judged(desk, make, tool, arguments)
        assert isinstance(word, Deny) and word.rule == "known_secret", (tool, arguments)
        assert SECRET not in word.reason
    for tool in ("look", "keep"):
        assert isinstance(await judged(desk, make, tool, {"body": said}), Allow), "nothing leaves by it"


async def test_pieces_add_up_over_arguments_and_calls(desk, make) -> None:
    bare = SECRET.replace("/", "").replace("+", "").replace("-", "")
    pieces = [bare[at : at + 6] for at in range(0, len(bare), 6)]
    assert isinstance(await judged(desk, make, "send", {"body": pieces[0], "what": pieces[1]}), Deny)
    for number, piece in enumerate(pieces[:2]):
        action = await desk.pipeline.judge.read(make.call("send", {"body": piece}, call_id=f"c{number}"))
        word = leaks(action, desk.session)
        assert isinstance(word, Deny if number else Allow), piece
        await desk.run("send", {"body": base64.b64encode(piece.encode()).decode()}, call_id=f"c{number}")
    first = desk.audit.of(Decided)[0]
    kept = event_of(kind_of(first), json.loads(body_of(first)))
    assert kept == first and first.use.let_out and pieces[0] not in body_of(first)
    cleared = apply_events(desk.session, ConversationCleared(0))
    assert cleared.values.outward.let_out == desk.session.values.outward.let_out


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=300))
def test_other_texts_pass(make_session_once, text) -> None:
    session, send, make = make_session_once
    action = make.action(send, {"body": text})
    assert isinstance(leaks(action, session), Allow)


@pytest.fixture(scope="module")
def make_session_once():
    from tests.security.conftest import action, session, spec  # noqa: PLC0415 — factories, made once

    class Make:
        pass

    Make.action = staticmethod(action)
    held = session()
    object.__setattr__(held, "secrets", frozenset({SECRET}))
    return held, spec("send", Effect.SEND, kinds={"body": Kind.TEXT}), Make


async def test_what_a_person_types_is_theirs(desk, make) -> None:
    assert isinstance(await judged(desk, make, "send", {"body": SECRET}, Asker.PERSON), Allow)


async def shown(desk, tool, text, call_id="c8"):
    desk.executor.does[tool] = Output(text)
    return await desk.run(tool, {"body": "x"}, call_id=call_id)


async def test_confidential_words_are_asked_about_and_their_source_named(desk, make) -> None:
    await shown(desk, "look", "The canteen opens at eleven.", "c7")
    await shown(
        desk,
        "ward",
        "Patient Okonkwo has an inoperable aneurysm of the left vertebral artery. The canteen opens.",
    )
    assert Origin.SECRET in desk.session.labels
    for body in (
        "He has an aneurysm.",
        "she has an inop erable of the left vertebral thing: of the left vertebral artery",
    ):
        word = await judged(desk, make, "send", {"body": body})
        assert isinstance(word, Ask) and word.force and ("read from", "ward") in word.facts, body
    for body in ("Come at noon.", "The canteen opens at eleven."):
        assert isinstance(await judged(desk, make, "send", {"body": body}), Allow), body


async def test_random_additions_to_a_given_url_are_asked_about_once_for_a_host(desk, make) -> None:
    random = "https://good.example/docs/q7Zk2Lm9xW4vT8bN1cR6dF3g"
    assert isinstance(await judged(desk, make, "get", {"url": random}), Allow), "nothing was read"
    desk.executor.does["look"] = Output("something")
    await desk.run("look", {"body": "x"}, call_id="c1")
    word = await judged(desk, make, "get", {"url": random})
    assert isinstance(word, Ask) and not word.force and word.rule == "random_addition"
    for plain in (
        "https://good.example/docs/how-to-write-a-good-introduction-for-readers",
        "https://good.example/docs/v2.1",
    ):
        assert isinstance(await judged(desk, make, "get", {"url": plain}), Allow), plain
    await desk.run("get", {"url": random}, call_id="c2")
    assert isinstance(await judged(desk, make, "get", {"url": random + "x"}), Allow)


async def test_secret_files_that_are_allowed_and_private_hosts_are_confidential(make) -> None:
    tools = [
        make.spec("read", Effect.READ, kinds={"path": Kind.PATH}),
        make.spec("get", Effect.BRING_IN, kinds={"url": Kind.URL}),
    ]
    for tool, arguments, policy in (
        ("read", {"path": ".env"}, {"allow_read": ("/ws/.env",)}),
        ("get", {"url": "https://10.1.2.3/wiki"}, {"allow_networks": ("10.0.0.0/8",)}),
    ):
        desk = make.desk(*tools, start=make.session(said=["https://10.1.2.3/wiki"], **policy))
        desk.executor.does[tool] = Output("hello")
        await desk.run(tool, arguments)
        assert Origin.SECRET in desk.session.labels, tool
    desk = make.desk(*tools)
    desk.executor.does["read"] = Output("hello")
    await desk.run("read", {"path": "notes.txt"})
    assert Origin.SECRET not in desk.session.labels


def test_the_marker_stands_at_the_end_of_the_prompt_and_is_the_sessions(make) -> None:
    one, other = make.session(), make.session()
    object.__setattr__(other, "id", "s_other")
    prompt = system_prompt("/w", [("AGENTS.md", "x")], one.canary)
    assert prompt.rstrip().endswith(one.canary) and prompt.startswith(system_prompt("/w"))
    assert one.canary != other.canary and len(one.canary) == 24
    assert apply_events(one, TextSeen(0, (Origin.WEB,))).canary == one.canary


def test_a_gate_that_looks_for_the_secret_as_it_is_is_found_out(make, planted) -> None:
    wrong = planted("leaks").leaks
    session = make.session()
    object.__setattr__(session, "secrets", frozenset({SECRET}))
    send = make.spec("send", Effect.SEND, kinds={"body": Kind.TEXT})
    assert isinstance(wrong(make.action(send, {"body": SECRET}), session), Deny)
    passed = [
        name
        for name, text in spelled(SECRET).items()
        if isinstance(wrong(make.action(send, {"body": text}), session), Allow)
    ]
    assert {"reversed", "rot13", "hex", "base64", "base64 third", "spread"} <= set(passed)


async def test_a_recorded_call_is_judged_as_it_was(desk, make) -> None:
    await desk.run("send", {"body": ORDINARY}, call_id="c5")
    decided = desk.audit.of(Decided)[-1]
    again = action_from_record(decided, desk.session.policy)
    assert leaks(again, desk.session) == await judged(desk, make, "send", {"body": ORDINARY})
