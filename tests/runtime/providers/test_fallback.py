"""Fallback to another model, with the conversation translated to its dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
import trio

from leeward.runtime.config import load
from leeward.runtime.exits import CliError
from leeward.runtime.model import open_model
from leeward.runtime.providers.interface import (
    ErrorKind,
    FellBack,
    Message,
    ModelError,
    ModelEvent,
    ModelInfo,
    Reasoning,
    Request,
    Retrying,
    Stopped,
    StopReason,
    TextDelta,
    Verbatim,
)
from leeward.runtime.providers.retry import FallbackProvider, RetryingProvider, RetryPolicy
from leeward.security.call import ToolCall

DONE = Stopped(StopReason.STOP)
HELLO = Request((Message("user", "hello"),))


class Says:
    """A provider that always says the same, or fails the same way."""

    def __init__(self, name: str, *events: ModelEvent | ModelError) -> None:
        self.name = name
        self.events = events
        self.asked = 0

    @asynccontextmanager
    async def stream(self, _request: Request) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self.asked += 1
        yield self._each(self.events)

    async def _each(self, events: Sequence[ModelEvent | ModelError]) -> AsyncIterator[ModelEvent]:
        for event in events:
            await trio.lowlevel.checkpoint()
            if isinstance(event, ModelError):
                raise event
            yield event

    async def list_models(self) -> tuple[ModelInfo, ...]:
        return (ModelInfo(self.name),)


async def ask(provider: Any) -> list[ModelEvent | ModelError]:
    seen: list[ModelEvent | ModelError] = []
    try:
        async with provider.stream(HELLO) as events:
            async for event in events:
                seen.append(event)
    except ModelError as error:
        seen.append(error)
    return seen


def failed(kind: ErrorKind = ErrorKind.UNAVAILABLE, words: str = "failed (503)") -> ModelError:
    return ModelError(words, kind)


@pytest.mark.parametrize(
    "kind", [ErrorKind.UNAVAILABLE, ErrorKind.RATE_LIMITED, ErrorKind.AUTH, ErrorKind.PROTOCOL]
)
async def test_the_next_one_answers(kind: ErrorKind) -> None:
    first, second = Says("a", failed(kind)), Says("b", TextDelta("hi"), DONE)
    provider = FallbackProvider([first, second])
    assert await ask(provider) == [FellBack("b", "failed (503)"), TextDelta("hi"), DONE]
    assert (provider.name, await provider.list_models()) == ("a", (ModelInfo("a"),))


async def test_a_request_that_was_refused_goes_to_nobody_else() -> None:
    error = failed(ErrorKind.BAD_REQUEST)
    second = Says("b", DONE)
    assert await ask(FallbackProvider([Says("a", error), second])) == [error]
    assert second.asked == 0


async def test_nor_does_one_whose_answer_had_begun() -> None:
    error, second = failed(), Says("b", DONE)
    assert await ask(FallbackProvider([Says("a", Reasoning("hm"), TextDelta("H"), error), second])) == [
        Reasoning("hm"),
        TextDelta("H"),
        error,
    ]
    assert second.asked == 0


async def test_where_all_fail_the_first_one_s_reason_counts() -> None:
    models = [
        Says("a", failed(ErrorKind.RATE_LIMITED, "slow")),
        Says("b", failed(words="down")),
        Says("c", failed(words="off")),
    ]
    *fell, error = await ask(FallbackProvider(models))
    assert fell == [FellBack("b", "slow"), FellBack("c", "slow; b could not answer in its place: down")]
    assert isinstance(error, ModelError) and error.kind is ErrorKind.RATE_LIMITED
    assert str(error) == "slow; b could not answer in its place: down; c could not answer in its place: off"


async def test_who_stood_in_goes_on_for_a_while(autojump_clock) -> None:
    first, second = Says("a", failed()), Says("b", DONE)
    provider = FallbackProvider([first, second], return_after=60)
    assert await ask(provider) == [FellBack("b", "failed (503)"), DONE]
    assert await ask(provider) == [FellBack("b", "failed (503)", again=True), DONE]
    assert (first.asked, second.asked) == (1, 2)
    await trio.sleep(60)
    first.events = (TextDelta("back"), DONE)
    assert await ask(provider) == [TextDelta("back"), DONE]
    assert await ask(provider) == [TextDelta("back"), DONE]


async def test_if_the_one_that_stood_in_fails_the_first_is_asked_again(autojump_clock) -> None:
    first, second = Says("a", failed()), Says("b", DONE)
    provider = FallbackProvider([first, second])
    await ask(provider)
    first.events, second.events = (DONE,), (failed(words="down"),)
    assert await ask(provider) == [FellBack("b", "failed (503)", again=True), FellBack("a", "down"), DONE]
    assert await ask(provider) == [DONE]
    assert (first.asked, second.asked) == (3, 2)


def test_a_list_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        FallbackProvider([])


async def test_the_conversation_goes_along_in_the_other_s_dialect(model_server: ModuleType) -> None:
    calls = (
        ToolCall("functions.read:0", "read", '{"path": "a"}'),
        ToolCall("functions.read:1", "no such!", "{broken"),
    )
    history = (
        Message("system", "rules"),
        Message("user", "go"),
        Message(
            "assistant",
            "",
            calls,
            verbatim=Verbatim("m@127.0.0.1/v1/chat/completions", ({"reasoning_content": "hm"}, {}, {})),
        ),
        *(Message("tool", "", call_id=call.id) for call in calls),
        Message("user", ""),
    )
    down = model_server.Answer([], 503, "text/plain")
    good = model_server.Answer(model_server.message({"type": "text", "text": "hi"}))
    async with (
        model_server.serve(down, down, good) as server,
        model_server.opened(server, "openai:m") as first,
        model_server.opened(server, "anthropic:n") as second,
    ):
        quick = RetryPolicy(1, first_wait=0.01)
        provider = FallbackProvider([RetryingProvider(one, quick) for one in (first, second)])
        seen = await model_server.ask(provider, Request(history))
        assert [type(event) for event in seen[:2]] == [Retrying, FellBack]
        assert model_server.text(seen) == "hi"
        chat, messages = server.bodies[1]["messages"], server.bodies[2]["messages"]
    assert chat[2]["reasoning_content"] == "hm"
    assert [block["type"] for block in messages[1]["content"]] == ["tool_use", "tool_use"]
    assert "hm" not in str(messages)


KEYS = {
    "OPENAI_API_KEY": "sk-test-" + "1" * 32,
    "MINE": "sk-test-" + "2" * 32,
    "ANTHROPIC_API_KEY": "sk-test-" + "3" * 32,
}
CONFIG = """
[llm]
model = "mine:a"
fallback = ["anthropic:claude", "mine:a", "openai:b"]
retries = {retries}
stall_timeout = 2
ca_file = "{ca_file}"
[[llm.providers]]
name = "mine"
base_url = "{url}"
api_key_env = "MINE"
headers = {{ "X-Title" = "Leeward" }}
"""


@pytest.fixture
def configured(tmp_path, monkeypatch):
    def read(**values: Any):
        (tmp_path / "config.toml").write_text(
            CONFIG.format(**{"retries": 0, "ca_file": "", "url": "https://127.0.0.1:1/v1", **values})
        )
        return load(config_dir=tmp_path, environment={}).config

    for name in ("GEMINI_API_KEY", *KEYS):
        monkeypatch.delenv(name, raising=False)
        if name in KEYS:
            monkeypatch.setenv(name, KEYS[name])
    return read


async def test_the_configuration_says_who_stands_in(model_server: ModuleType, configured) -> None:
    async with model_server.serve(model_server.Answer(model_server.says("hi"))) as server:
        config = configured(url=server.url, ca_file=server.ca_file)
        async with open_model(config) as model:
            assert isinstance(model.provider, FallbackProvider)
            assert model.provider.name == "mine:a"
            assert model.secrets == set(KEYS.values())
            assert model_server.text(await model_server.ask(model.provider)) == "hi"
            assert server.heads[0]["authorization"] == f"Bearer {KEYS['MINE']}"
            assert server.heads[0]["x-title"] == "Leeward"
            # Another model of the same service goes over the same connection.
            await model_server.ask(model.choose("mine:b"))
            assert (server.bodies[1]["model"], len(server.clients)) == ("b", 1)


@pytest.mark.parametrize("missing", ["ANTHROPIC_API_KEY", "MINE"])
async def test_a_key_that_is_missing_is_said_before_anything_is_asked(
    configured, monkeypatch, missing
) -> None:
    monkeypatch.delenv(missing)
    with pytest.raises(CliError, match=missing):
        async with open_model(configured()):
            pass


async def test_a_key_goes_to_its_own_service_only(model_server: ModuleType, tmp_path, configured) -> None:
    async with model_server.serve(model_server.Answer(model_server.says("hi"))) as server:
        text = (
            f'[llm]\nca_file = "{server.ca_file}"\n[[llm.providers]]\nname = "openai"\nbase_url = '
            f'"{server.url}"\n'
        )
        (tmp_path / "config.toml").write_text(text)
        async with open_model(load(config_dir=tmp_path, environment={}).config) as model:
            await model_server.ask(model.choose("openai:x"))
        assert "authorization" not in server.heads[0]
    with pytest.raises(CliError, match="nonsense"):
        model.choose("nonsense:x")
