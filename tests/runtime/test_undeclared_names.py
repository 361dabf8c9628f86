"""An undeclared string is a path if something in the workspace has that name, and text otherwise."""

from __future__ import annotations

import json
import sys
import unicodedata
from typing import Any

import pytest

from leeward.runtime.audit.replay import replayed
from leeward.security.kinds import Effect
from leeward.security.ports import Answer
from leeward.security.session import Session
from leeward.tools.declare import Text, tool

NFD = unicodedata.normalize("NFD", "clé.env")
NFC = unicodedata.normalize("NFC", NFD)
NO_LIMITS = (
    "[tools.anomaly]\nenabled = false\n[security.breaker]\nconsecutive = 1000\ntotal = 1000\n"
    '[security.trust]\nlook = "trusted"\nmake = "trusted"\n'
)


@tool(effects=Effect.READ)
async def look(q: Any, label: Text = "") -> str:
    """Read something; nobody says what `q` is."""
    return str(q)


@tool(effects=Effect.WRITE)
async def make(q: Any) -> str:
    """Change something; nobody says what `q` is."""
    return str(q)


@tool()
async def run(q: Any) -> str:
    """Do anything; nobody says what."""
    return str(q)


SHAPES = {
    "plain": lambda text: text,
    "list": lambda text: [["x", text]],
    "object": lambda text: {"r": [{"s": text}]},
    "key": lambda text: {text: 1},
}

SECRET = [
    "conf/.env", "./conf/.env", "conf/.env/", "conf//.env", "conf/./.env", "sub/../.env", ".env",
    "sub/../conf/.env", "conf%2F.env",
    "conf%252F.env", " conf/.env ", "conf/%2eenv", "key[1].key", "a\\b.key", "linked/.env", "innocent", NFC,
    NFD, "new\nline.key",
]  # fmt: skip
OUTSIDE = ["out", "out/", "out/creds", "./out/creds", "out%2Fcreds", "sub/far"]
ORDINARY = [
    "notes.md", "sub", "sub/plain.txt", "sub/plain.txt/", "read notes.md and sub/plain.txt", "and/or",
    "tides", "50% off", "100%2", "what... is it?",
    "other/.env", "conf/server.key", "key1.key", "CONF/.ENV" if sys.platform == "linux" else "x",
    "x\n" * 3000, "word " * 3000, "a/" * 3000, "", " ", "%",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    workspace = tmp_path / "ws"
    away = tmp_path / "away"
    for made in (workspace / "conf", workspace / "sub", away):
        made.mkdir(parents=True)
    (away / "creds").write_text("x")
    for name in (
        "conf/.env",
        ".env",
        "notes.md",
        "sub/plain.txt",
        "key[1].key",
        "a\\b.key",
        NFD,
        "new\nline.key",
    ):
        (workspace / name).write_text("x")
    (workspace / "out").symlink_to(away)
    (workspace / "sub/far").symlink_to(away / "creds")
    (workspace / "linked").symlink_to("conf")
    (workspace / "innocent").symlink_to("conf/.env")
    return tmp_path


@pytest.fixture
def opened(sessions, folder):
    def open_session(**options):
        return sessions.session(folder, NO_LIMITS, says=[], executors=[look, make, run], **options)

    return open_session


async def ended(runtime, texts, name="look", shape="plain") -> dict[str, tuple[str, str | None]]:
    results = {text: await runtime.call(name, {"q": SHAPES[shape](text)}) for text in texts}
    return {text: (result.outcome.status.value, result.outcome.gate) for text, result in results.items()}


@pytest.mark.parametrize("shape", SHAPES)
async def test_secrets_and_ways_out_are_found_wherever_they_stand(opened, shape):
    async with opened() as runtime:
        found = await ended(runtime, [*SECRET, *OUTSIDE], shape=shape)
        # `..` and escapes that climb are refused one gate earlier, as identifiers.
        assert [text for text, (status, _) in found.items() if status != "denied"] == []


@pytest.mark.parametrize("shape", SHAPES)
async def test_words_and_ordinary_files_are_no_question(opened, shape):
    async with opened() as runtime:
        found = await ended(runtime, ORDINARY, shape=shape)
        assert {text: how for text, how in found.items() if how != ("ok", None)} == {}


async def test_what_is_declared_to_be_text_stays_text(opened):
    async with opened() as runtime:
        for text in SECRET:
            result = await runtime.call("look", {"q": "x", "label": text})
            assert result.outcome.status.value == "ok"


async def test_a_way_out_of_the_workspace_is_asked_about_with_where_it_leads(opened, sessions, folder):
    person = sessions.Answers(Answer.YES)
    async with opened(approver=person) as runtime:
        assert await ended(runtime, ["out/creds"]) == {"out/creds": ("ok", None)}
        (question,) = person.questions
        ((gate, ask),) = question.asks
        assert (gate, ask.rule) == ("paths", "outside")
        assert ask.facts == (("path", str(folder.resolve() / "away/creds")),)


async def test_what_a_tool_would_make_is_judged_where_it_would_lie(opened, sessions):
    person = sessions.Answers(Answer.YES)
    async with opened(approver=person) as runtime:
        found = await ended(
            runtime, ["out/new.txt", "sub/.git/hooks/pre-commit", "and/or", "sub/new"], "make"
        )
        assert {text: status for text, (status, _) in found.items()} == {
            "out/new.txt": "ok",
            "sub/.git/hooks/pre-commit": "denied",
            "and/or": "ok",
            "sub/new": "ok",
        }
        asked = [
            [ask.rule for gate, ask in question.asks if gate == "paths"] for question in person.questions
        ]
        assert asked == [["outside"], [], []]


async def test_the_record_is_judged_again_as_it_was(opened, sessions):
    async with opened() as runtime:
        texts = [*SECRET, *OUTSIDE, *ORDINARY[:-6]]
        for shape in SHAPES:
            await ended(runtime, texts, shape=shape)
            await ended(runtime, texts, "make", shape=shape)
            await ended(runtime, texts, "run", shape=shape)
        (started,) = await sessions.rows(runtime, "session")
        events = await runtime.audit.events_of(runtime.session_id)
        policy = runtime.pipeline.session.policy
        again = list(replayed(Session(started.session, policy), events))
        assert len(again) == 12 * len(texts)
        assert [json.dumps(one.as_json()) for one in again if one.is_changed or one.untold] == []
