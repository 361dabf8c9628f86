"""Any conversation is repaired to what every dialect accepts: property tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.providers.anthropic.request import Messages
from leeward.runtime.providers.dialect import Dialect
from leeward.runtime.providers.history import NO_ANSWER, History, object_text
from leeward.runtime.providers.interface import Message, Request, ToolView, Verbatim
from leeward.runtime.providers.openai.gemini import Gemini
from leeward.runtime.providers.openai.request import ChatCompletions
from leeward.security.call import ToolCall

MODEL, OWN = "gemini-9", "gemini-9@here"
TOOLS = (ToolView("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "cw=="}
CALL_PART = {"type": "tool_use"}


class Long(str):
    """A text that is too long to be shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} characters>"


NESTED = Long("{" + '"a":{' * 2000 + "}" * 2001)
TEXTS = st.sampled_from(
    ["", " \n", "hello", "\ud800 half", "\U0001f600\x00", "\u200b", Long("x" * 5000)]
) | st.text(max_size=8)
IDS = st.sampled_from(
    ["call_1", "call_2", "functions.read:0", "", "a b", "\u00e9\n", "i" * 41, "i" * 65, "toolu_9"]
) | st.uuids().map(str)
NAMES = st.sampled_from(["read", "", "no such!", "n" * 65, "sh\u00e9ll", "a.b"])
ARGUMENTS = st.sampled_from(
    [
        '{"path": "a"}',
        "{}",
        "",
        "{broken",
        "[1]",
        "null",
        '"x"',
        '{"a": NaN}',
        '{"a": "\\ud83d"}',
        '{"a": "\ud83d"}',
    ]
    + [NESTED, Long('{"n": ' + "9" * 5000 + "}"), '{"a": 1, "a": 2}', '{"\\udc00": 1}', '{"a": 1e999}']
)
CALLS = st.lists(st.builds(ToolCall, IDS, NAMES, ARGUMENTS), max_size=4).map(tuple)
PARTS = st.lists(
    st.sampled_from(
        [
            THOUGHT,
            CALL_PART,
            {"type": "text", "text": "said"},
            {"type": "text", "text": ""},
            {"type": "redacted_thinking", "data": "x"},
        ]
    ),
    max_size=5,
).map(tuple)
FIELDS = st.lists(
    st.sampled_from([{}, {"extra_content": {"google": {"thought_signature": "cw=="}}}]), max_size=5
).map(tuple)
KEPT = st.none() | st.builds(Verbatim, st.sampled_from([OWN, "other@there"]), PARTS | FIELDS)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Draw what a conversation can have become: cancelled, resumed, compacted, from another model."""
    messages = [Message("system", draw(TEXTS))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 9)):
            messages.append(Message("user", draw(TEXTS)))
        for _ in range(draw(st.integers(0, 3))):
            calls = draw(CALLS)
            messages.append(Message("assistant", draw(TEXTS), calls, verbatim=draw(KEPT)))
            results = [
                Message("tool", draw(TEXTS), call_id=call.id) for call in calls if draw(st.integers(0, 5))
            ]
            messages += draw(st.permutations(results))
            if not draw(st.integers(0, 9)):
                messages.append(Message("tool", "nobody asked", call_id=draw(IDS)))
    return [*messages, Message("user", draw(TEXTS))]


def one(*calls: ToolCall, verbatim: Verbatim | None = None) -> list[Message]:
    return [Message("user", "go"), Message("assistant", "", calls, verbatim=verbatim), Message("user", "on")]


DIALECTS: dict[str, Dialect] = {
    "check_chat": ChatCompletions(),
    "check_gemini": Gemini(),
    "check_messages": Messages({"thinking": {"type": "enabled", "budget_tokens": 1024}}),
}


@pytest.mark.parametrize("rules", DIALECTS)
@given(conversations())
@example(one(ToolCall("a", "f", "{}"), ToolCall("a", "f", "{}")))
@example(one(ToolCall("", "", ""), verbatim=Verbatim(OWN, (THOUGHT, CALL_PART))))
@example(one(verbatim=Verbatim(OWN, (THOUGHT,))))
@example([Message("tool", "x", call_id="a"), Message("assistant", "late"), Message("user", " ")])
@example(
    [*one(ToolCall("a", "f", "{}")), Message("tool", "after the words", call_id="a"), Message("user", "so")]
)
def test_every_service_takes_any_conversation(
    dialect_rules: ModuleType, rules: str, messages: list[Message]
) -> None:
    dialect = DIALECTS[rules]
    body = sent(dialect, messages)
    getattr(dialect_rules, rules)(body)
    # The same conversation is always the same bytes: the service's cache depends on it.
    assert sent(dialect, messages) == body


def sent(dialect: Dialect, messages: list[Message]) -> Any:
    return json.loads(dialect.writer(MODEL, OWN).write(Request(tuple(messages), TOOLS)))


def sendable(messages: list[Message], is_id: Callable[[str], bool]) -> list[Message]:
    told, _ = History(is_id).sendable(messages)
    return list(told)


@pytest.mark.parametrize("rules", DIALECTS)
@given(conversations(), st.lists(st.integers(0, 40), max_size=5))
@example(
    [*one(ToolCall("a", "f", "{}")), Message("tool", "late", call_id="a"), Message("user", "so")], [2, 3, 4]
)
@example([*one(ToolCall("a", "f", "{}")), *one(ToolCall("a", "f", "{}"))], [3, 1, 6])
@example([*one(ToolCall("a", "f", "{}")), Message("assistant", "late"), Message("user", "so")], [4, 3])
@example([Message("assistant", "late"), *one(ToolCall("a", "f", "{}")) * 9], [20, 26, 28, 5])
@example(
    [*one(ToolCall("a", "f", "{}")) * 3, Message("system", "s"), *one(ToolCall("a", "f", "{}")) * 3],
    [12, 18, 9, 18],
)
def test_what_was_written_before_makes_no_difference(
    rules: str, messages: list[Message], cuts: list[int]
) -> None:
    dialect = DIALECTS[rules]
    writer = dialect.writer(MODEL, OWN)
    for cut in (*cuts, len(messages)):
        request = Request((*messages[:cut], Message("user", "now")), TOOLS[: cut % 2])
        assert writer.write(request) == dialect.writer(MODEL, OWN).write(request)


@given(conversations())
def test_nothing_a_person_or_a_model_said_is_lost_or_moved(messages: list[Message]) -> None:
    told = sendable(messages, lambda call_id: bool(call_id))
    words = [m.text for m in messages if m.role in ("user", "system")]
    assert [m.text for m in told if m.role in ("user", "system")] == words
    said = [(m.text, len(m.calls)) for m in messages if m.role == "assistant" and (m.text.strip() or m.calls)]
    assert [(m.text, len(m.calls)) for m in told if m.role == "assistant"] == said


def test_a_sound_conversation_is_sent_as_it_is() -> None:
    calls = (ToolCall("a", "read", '{"path": "p"}'), ToolCall("b", "read", "{}"))
    results = [Message("tool", "1", call_id="a"), Message("tool", "2", call_id="b")]
    messages = [
        Message("system", "s"),
        Message("user", "u"),
        Message("assistant", "t", calls),
        *results,
        Message("user", "v"),
    ]
    assert sendable(messages, lambda _: True) == messages


REPAIRS = [
    ("order", [("a", "1"), ("b", "2")], ["b", "a"], [("a", "1"), ("b", "2")]),
    ("missing", [("a", "1"), ("b", "2")], ["b"], [("a", NO_ANSWER), ("b", "2")]),
    ("twice", [("a", "1"), ("b", "2")], ["a", "b", "a"], [("a", "1"), ("b", "2")]),
]


@pytest.mark.parametrize(("_", "asked", "answered", "expected"), REPAIRS, ids=[row[0] for row in REPAIRS])
def test_results_stand_behind_their_calls(_, asked, answered, expected) -> None:
    texts = dict(asked)
    calls = tuple(ToolCall(name, "f", "{}") for name, _text in asked)
    messages = [Message("user", "u"), Message("assistant", "", calls), Message("user", "words")]
    messages += [Message("tool", texts[name], call_id=name) for name in answered]
    told = sendable(messages, lambda _: True)
    assert [(m.call_id, m.text) for m in told if m.role == "tool"] == expected
    assert [m.role for m in told] == ["user", "assistant", "tool", "tool", "user"]


def test_of_two_calls_with_one_id_each_keeps_its_result() -> None:
    calls = (ToolCall("same", "f", '{"n": 1}'), ToolCall("same", "f", '{"n": 2}'))
    results = [Message("tool", text, call_id="same") for text in ("first", "second")]
    told = sendable([Message("user", "u"), Message("assistant", "", calls), *results], lambda _: True)
    ids = [call.id for call in told[1].calls]
    assert ids[0] == "same" != ids[1]
    assert [(m.call_id, m.text) for m in told[2:]] == [(ids[0], "first"), (ids[1], "second")]


@pytest.mark.parametrize(
    ("written", "sent_as"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
        ("{broken", '{"invalid_json": "{broken"}'),
        ("", '{"invalid_json": ""}'),
        ("[]", '{"invalid_json": "[]"}'),
        ('{"a": 1e999}', '{"invalid_json": "{\\"a\\": 1e999}"}'),
        ('{"a": Infinity}', '{"invalid_json": "{\\"a\\": Infinity}"}'),
        ('{"a": "\\ud83d\\ude00"}', '{"a": "\U0001f600"}'),
        ('{"a": "\\ud83d"}', '{"a": "\ufffd"}'),
    ],
)
def test_arguments_of_earlier_calls_are_objects(written: str, sent_as: str) -> None:
    assert object_text(written) == sent_as
