"""Switching models in a session: the list of models, the hand-over, and the cost."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
import trio

from leeward.runtime.cli import main as cli
from leeward.runtime.cli.models import models
from leeward.runtime.exits import CliError, Exit
from leeward.runtime.printer import Printer
from leeward.runtime.slash import dispatch, parse
from leeward.security.kinds import Effect
from leeward.tools.declare import Text, tool

SERVICES = """
[llm]
model = "{first}:m1"
ca_file = "{ca}"
retries = 0
[[llm.providers]]
name = "chat"
base_url = "{url}"
api_key_env = "CHAT_KEY"
[[llm.providers]]
name = "claude"
kind = "anthropic"
base_url = "{url}"
api_key_env = "CHAT_KEY"
[[cost.prices]]
model = "chat:*"
input = 1
output = 2
"""


@tool(effects=Effect.READ)
async def look(word: Text = "") -> str:
    """Look."""
    await trio.lowlevel.checkpoint()
    return f"saw {word}"


async def typed(runtime, line: str):
    return await dispatch(runtime, parse(line))


@pytest.fixture
def serving(model_server, sessions, tmp_path, monkeypatch):
    monkeypatch.setenv("CHAT_KEY", model_server.KEY)

    @asynccontextmanager
    async def opened(*answers, first="chat"):
        async with model_server.serve(*answers) as server:
            config = SERVICES.format(url=server.url, ca=server.ca_file, first=first)
            async with sessions.session(tmp_path, config, None, executors=[look]) as runtime:
                yield server, runtime

    return opened


def chat_call(server, call_id: str):
    delta = server.call_delta(0, id=call_id, name="look", arguments='{"word": "a"}')
    return server.Answer(server.says("I look.", calls=[[delta]], finish="tool_calls"))


async def test_the_history_goes_along_in_the_words_of_each_dialect(serving, model_server):
    """Two dialects, back and forth; the server refuses what the real services would."""
    s = model_server
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    asks = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"word": "b"}}
    answers = [
        chat_call(s, "call_1"),
        s.Answer(s.says("Saw it.")),
        s.Answer(s.message(thought, asks, stop="tool_use")),
        s.Answer(s.message({"type": "text", "text": "Saw that too."})),
        s.Answer(s.says("Both.")),
    ]
    async with serving(*answers) as (server, runtime):
        assert (await runtime.turn("look")).text == "I look.\n\nSaw it."
        assert (await typed(runtime, "/model claude:c1")).text == "claude:c1"
        assert (await runtime.turn("look again")).text == "Saw that too."
        first = json.dumps(server.bodies[2])
        assert (
            server.bodies[2]["model"] == "c1"
            and "saw a" in first
            and "I look." in first
            and "call_1" in first
        )
        assert (await typed(runtime, "/model chat:m2")).text == "chat:m2"
        assert (await runtime.turn("and?")).text == "Both."
        last = server.bodies[-1]
        assert last["model"] == "m2" and "saw b" in json.dumps(last) and "signature" not in json.dumps(last)


async def test_a_model_that_is_not_there_changes_nothing(serving, model_server):
    s = model_server
    async with serving(s.Answer(s.says("hello"))) as (_, runtime):
        for spec in ("nonsense:x", "chat", "scripted:/does/not/exist"):
            result = await typed(runtime, f"/model {spec}")
            assert result.failed and result.text
        assert (await typed(runtime, "/model")).text == "chat:m1"
        assert (await runtime.turn("hi")).text == "hello"
        assert (await typed(runtime, "/model offline")).text == "offline"


async def test_what_it_cost_is_told_by_model(serving, model_server):
    s = model_server
    answers = [s.Answer(s.says("one")), s.Answer(s.message({"type": "text", "text": "two"}))]
    async with serving(*answers) as (_, runtime):
        ended = await runtime.turn("hi")
        assert ended.cost == pytest.approx((11 + 2 * 7) / 1e6)
        await typed(runtime, "/model claude:c1")
        assert (await runtime.turn("hi")).cost is None
        told = (await typed(runtime, "/cost")).text
        assert "no price for claude:c1" in told and "136 tokens in (100 from the cache), 16 out" in told
        assert "this turn" in told and "this session" in told


# ------------------------------------------------------------------ leeward models


async def listed(capsys, *words: str) -> tuple[int, str]:
    """Run the command in this task, for its service runs beside it; return its exit code and what
    it printed.
    """
    options = cli.read_command_line(words)
    printer = Printer(options)
    try:
        code = await models(options, printer)
    except CliError as error:
        code = printer.fail(error)
    return int(code), "".join(capsys.readouterr())


PAGE = json.dumps(
    {"data": [{"id": "m1"}, {"id": "m2", "context_length": 8192, "name": "Em\x1b Two"}]}
).encode()


@pytest.fixture
def line(leeward, monkeypatch, model_server):
    monkeypatch.setenv("CHAT_KEY", model_server.KEY)
    return leeward


@pytest.mark.parametrize(
    "words", [["models"], ["models", "chat"], ["models", "chat:anything"], ["--model", "chat:x", "models"]]
)
async def test_the_models_of_a_service_are_listed(line, capsys, model_server, words):
    answer = model_server.Answer([PAGE], media_type="application/json")
    async with model_server.serve(answer) as server:
        line.configure(SERVICES.format(url=server.url, ca=server.ca_file, first="chat"))
        code, out = await listed(capsys, *words)
        assert code == 0 and out.splitlines()[0] == "chat:m1" and "chat:m2  8192 tokens  Em" in out
        assert "\x1b" not in out
        told = json.loads((await listed(capsys, *words, "--output", "json"))[1])
        assert told["data"]["models"][1]["context_tokens"] == 8192
        assert server.heads[-1][":path"].endswith("/models")


@pytest.mark.parametrize(
    ("status", "code"), [(401, Exit.AUTH_REQUIRED), (429, Exit.RATE_LIMITED), (503, Exit.UNAVAILABLE)]
)
async def test_a_service_that_does_not_answer_is_told_by_the_exit_code(
    line, capsys, model_server, status, code
):
    answer = model_server.Answer([b"{}"], status=status, media_type="application/json")
    async with model_server.serve(answer) as server:
        line.configure(SERVICES.format(url=server.url, ca=server.ca_file, first="chat"))
        found, out = await listed(capsys, "models")
        assert found == code and model_server.KEY not in out


@pytest.mark.parametrize(
    ("words", "code"), [(["models"], 4), (["models", "offline"], 0), (["models", "nonsense"], 2)]
)
def test_without_a_service_there_is_nothing_to_list(leeward, words, code):
    ran = leeward(*words)
    assert ran.code == code and ":any" not in ran.err
