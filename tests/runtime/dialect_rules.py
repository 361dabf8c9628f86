"""The strictest rules services have for requests, as assertions.

Taken from the services' own references and from the errors they are known to answer with.
"""

from __future__ import annotations

import json
import re
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
BLOCKS = {
    "user": {"text", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
THOUGHTS = ("thinking", "redacted_thinking")


def check_chat(body: dict[str, Any]) -> None:
    """Refuse a request that OpenAI, or a server that parses what it is sent back, would refuse."""
    _check_text(body)
    assert body["model"] and body["stream"] is True
    assert len(body.get("tools", [1])) > 0, "an empty list of tools"
    waiting: list[str] = []
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role == "tool":
            assert waiting and message["tool_call_id"] == waiting.pop(0), "a result without its call"
            assert isinstance(content, str)
            continue
        assert not waiting, f"calls without a result: {waiting}"
        assert role in ("system", "user", "assistant"), role
        calls = message.get("tool_calls")
        assert isinstance(content, str) or (content is None and calls), "no content"
        if calls is not None:
            assert role == "assistant" and calls
            waiting = [_check_chat_call(call) for call in calls]
            assert len(set(waiting)) == len(waiting), "an id twice"
    assert not waiting, f"calls without a result: {waiting}"


def _check_chat_call(call: dict[str, Any]) -> str:
    assert call["type"] == "function"
    assert 0 < len(call["id"]) <= 40, "an id that is too long"
    assert NAME.fullmatch(call["function"]["name"]), call["function"]["name"]
    assert isinstance(_strict(call["function"]["arguments"]), dict), "arguments that are no object"
    return str(call["id"])


def check_gemini(body: dict[str, Any]) -> None:
    """Refuse what Google refuses beyond that: unsigned calls in the turn at hand, words it does not know."""
    check_chat(body)
    messages = body["messages"]
    turn = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=0)
    for message in messages[turn:]:
        if calls := message.get("tool_calls"):
            assert calls[0]["extra_content"]["google"]["thought_signature"], "a call without a signature"
    for tool in body.get("tools", []):
        text = json.dumps(tool["function"].get("parameters", {"properties": {"x": {}}}))
        assert not re.search(
            r'"(\$\w+|additionalProperties|oneOf|const|propertyNames|exclusive\w+)":', text
        ), text


def check_messages(body: dict[str, Any]) -> None:
    """Refuse a request that Anthropic would refuse."""
    _check_text(body)
    assert body["model"] and body["stream"] is True
    assert isinstance(body["max_tokens"], int) and body["max_tokens"] > 0
    assert json.dumps(body).count('"cache_control"') <= 4, "more than four marks"
    turns = body["messages"]
    roles = [turn["role"] for turn in turns]
    assert roles[0] == roles[-1] == "user", roles
    assert all(a != b for a, b in zip(roles, roles[1:], strict=False)), "turns do not alternate"
    for block in body.get("system", []):
        assert block["type"] == "text" and block["text"].strip()
    for tool in body.get("tools", []):
        assert NAME.fullmatch(tool["name"]) and tool["input_schema"]["type"] == "object"
    seen: set[str] = set()
    asked: list[str] = []
    for turn in turns:
        asked = _check_turn(turn["role"], turn["content"], asked, seen)


def _check_turn(role: str, blocks: list[dict[str, Any]], asked: list[str], seen: set[str]) -> list[str]:
    """Check one turn against the calls before it, and return its own."""
    assert blocks, "an empty turn"
    kinds = [block["type"] for block in blocks]
    assert set(kinds) <= BLOCKS[role], kinds
    for block in blocks:
        assert block["type"] != "text" or block["text"].strip(), "an empty text"
        assert block["type"] not in THOUGHTS or "cache_control" not in block
        assert block["type"] != "thinking" or block["signature"], "a thought without its signature"
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert all(kind == "tool_result" for kind in kinds[: len(answered)]), "results behind words"
    assert answered == asked, "calls and results do not fit"
    assert kinds[-1] not in THOUGHTS, "a turn that ends in a thought"
    calls = [block for block in blocks if block["type"] == "tool_use"]
    for call in calls:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["id"]) and NAME.fullmatch(call["name"])
        assert isinstance(call["input"], dict) and call["id"] not in seen, "an id twice"
        seen.add(call["id"])
    return [call["id"] for call in calls]


def _check_text(value: Any) -> None:
    """Refuse halves of characters anywhere, written out or escaped."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except ValueError as error:
        raise AssertionError(error) from error


def _strict(text: str) -> Any:
    """Read JSON as a strict parser does."""

    value = json.loads(text)
    _check_text(value)
    return value
