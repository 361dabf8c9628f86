"""The scripted model replies from its file, in order; a mistake in the file is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from leeward.runtime.providers.interface import (
    CallRequested,
    ErrorKind,
    Message,
    ModelError,
    Provider,
    Request,
    ScriptError,
    Stopped,
    StopReason,
    TextDelta,
)
from leeward.runtime.providers.registry import open_provider
from leeward.security.call import ToolCall

HELLO = (Message("user", "hello"),)


async def play(provider: Provider, *messages: Message) -> tuple[str, list[ToolCall]]:
    async with provider.stream(Request(messages or HELLO)) as events:
        told = [event async for event in events]
    calls = [event.requested for event in told if isinstance(event, CallRequested)]
    assert told[-1] == Stopped(StopReason.TOOL_CALLS if calls else StopReason.STOP)
    return "".join(event.text for event in told if isinstance(event, TextDelta)), calls


def script(folder: Path, text: str) -> str:
    file = folder / "script.toml"
    file.write_text(text, encoding="utf-8")
    return f"scripted:{file}"


async def test_replies_come_in_order_and_then_it_ends(tmp_path: Path) -> None:
    spec = script(
        tmp_path,
        """
        [[reply]]
        text = "one\\ntwo"
        calls = [
          { tool = "fetch", args = { url = "https://a.example/", n = [1, { x = "\u00fc" }] } },
          { tool = "no such tool!", arguments = "{broken" },
          { tool = "read", id = "same" },
          { tool = "read", id = "same" },
        ]
        [[reply]]
        text = "three"
        """,
    )
    async with open_provider(spec) as provider:
        assert provider.name == spec
        text, calls = await play(provider)
        assert text == "one\ntwo"
        assert json.loads(calls[0].arguments) == {"url": "https://a.example/", "n": [1, {"x": "\u00fc"}]}
        assert (calls[1].tool, calls[1].arguments) == ("no such tool!", "{broken")
        assert [(call.id, call.arguments) for call in calls[2:]] == [("same", "{}")] * 2
        assert calls[0].id != calls[1].id
        assert [await play(provider) for _ in range(3)] == [("three", []), *[("(script ended)", [])] * 2]
    async with open_provider(spec) as again:
        assert (await play(again))[0] == "one\ntwo"


async def test_when_waits_for_the_person_s_words_and_only_for_the_last(tmp_path: Path) -> None:
    spec = script(tmp_path, '[[reply]]\nwhen = "sun"\ntext = "S"\n[[reply]]\ntext = "any"\n')
    past = (Message("user", "sun"), Message("assistant", "sun"), Message("tool", "sun", call_id="x"))
    async with open_provider(spec) as provider:
        assert await play(provider, *past, Message("user", "rain")) == ("any", [])
        assert await play(provider, *past, Message("user", "rain")) == ("(no reply of the script fits)", [])
        assert await play(provider, Message("user", "the sun?"), Message("tool", "x", call_id="y")) == (
            "S",
            [],
        )
        assert await play(provider) == ("(script ended)", [])


async def test_an_argument_can_be_taken_from_the_latest_result(tmp_path: Path) -> None:
    taking = (
        "[[reply]]\ncalls = [{ tool = 'read_overflow', args = { limit = 5 }, args_from = { id = '%s' } }]\n"
    )
    spec = script(tmp_path, taking % "of_[0-9a-f]+" + taking % "key=(\\w+)" + taking % "absent")
    results = (
        *HELLO,
        Message("tool", "of_999", call_id="a"),
        Message("tool", "of_1 key=k of_2", call_id="b"),
    )
    async with open_provider(spec) as provider:
        for expected in ("of_2", "k"):
            _, calls = await play(provider, *results)
            assert json.loads(calls[0].arguments) == {"limit": 5, "id": expected}
        with pytest.raises(ModelError, match="nothing in the latest tool result matches absent") as caught:
            await play(provider, *results)
    assert caught.value.kind is ErrorKind.BAD_REQUEST


async def test_a_reply_can_be_cancelled_at_each_event(tmp_path: Path) -> None:
    spec = script(tmp_path, '[[reply]]\ntext = "a\\nb\\nc"\n')
    async with open_provider(spec) as provider:
        with trio.CancelScope() as scope:
            async with provider.stream(Request(HELLO)) as events:
                async for _ in events:
                    scope.cancel()
        assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[reply]\n", "line 1"),
        ("[[replies]]\n", "unknown key replies; did you mean reply"),
        ("reply = 3\n", "reply must be a list, found int"),
        ("reply = [3]\n", "list of tables"),
        ("[[reply]]\ntext = 3\n", "reply 1: text must be a str"),
        ("[[reply]]\n[[reply]]\ncall = []\n", "reply 2: unknown key call; did you mean calls"),
        ("[[reply]]\ncalls = [{}]\n", "reply 1, call 1: say which tool"),
        ("[[reply]]\ncalls = [{ tool = 'a', arg = {} }]\n", "did you mean args"),
        ("[[reply]]\ncalls = [{ tool = 'a', args = {}, arguments = '' }]\n", "not both"),
        ("[[reply]]\ncalls = [{ tool = 'a', args = { d = 2020-01-01 } }]\n", "cannot be JSON"),
        ("[[reply]]\ncalls = [{ tool = 'a', args = { d = nan } }]\n", "cannot be JSON"),
        (
            "[[reply]]\ncalls = [{ tool = 'a', args_from = { d = '(' } }]\n",
            "args_from.d: not a regular expression",
        ),
        ("[[reply]]\ncalls = [{ tool = 'a', args_from = { d = 1 } }]\n", "expected a regular expression"),
    ],
)
async def test_a_mistake_in_the_file_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    spec = script(tmp_path, text)
    with pytest.raises(ScriptError) as caught:
        async with open_provider(spec):
            pass
    assert words in str(caught.value)
    assert "script.toml" in str(caught.value)


async def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, words in (("absent.toml", "cannot be read"), ("binary", "utf-8"), (".", "cannot be read")):
        with pytest.raises(ScriptError, match=words):
            async with open_provider(f"scripted:{tmp_path / name}"):
                pass


def test_neither_of_the_local_models_loads_the_network(fresh_interpreter: str) -> None:
    assert fresh_interpreter == "False False"


@pytest.fixture
def fresh_interpreter() -> str:
    """What a fresh interpreter says after it has imported the front of the providers."""
    words = (
        "import sys, leeward.runtime.providers.registry; print('httpx' in sys.modules, 'h2' in sys.modules)"
    )
    return subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    ).stdout.strip()
