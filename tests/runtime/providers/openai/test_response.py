"""Parsing a streamed reply, from bytes to events, without a network."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.runtime.providers.interface import (
    CallRequested,
    ModelError,
    ModelEvent,
    Stopped,
    StopReason,
    TextDelta,
)
from leeward.runtime.providers.openai.response import ChatReader
from leeward.runtime.providers.transport import EventStream
from leeward.security.call import ToolCall


def text(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls(events: list[ModelEvent]) -> list[ToolCall]:
    return [event.requested for event in events if isinstance(event, CallRequested)]


def read(*chunks: object) -> list[ModelEvent]:
    reader = ChatReader("me")
    told = [reader.feed(json.dumps(chunk)) for chunk in chunks]
    events = [
        event for one in told for event in ([TextDelta(one)] * bool(one) if isinstance(one, str) else one)
    ]
    reader.feed("[DONE]")
    return [*events, *reader.finish()]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([(0, {"name": "f", "arguments": ""})], [("f", "{}")]),
        (
            [
                (0, {"id": "a", "name": "f", "arguments": "{}"}),
                (0, {"id": "b", "name": "g", "arguments": "{}"}),
            ],
            [("f", "{}"), ("g", "{}")],
        ),
        (
            [(0, {"id": "a", "name": "f", "arguments": "{"}), (0, {"id": "z", "arguments": "}"})],
            [("f", "{}")],
        ),
        ([(0, {"id": "a", "name": "f"}), (0, {"id": "a", "name": "f", "arguments": "{}"})], [("f", "{}")]),
        (
            [(None, {"name": "f", "arguments": "{"}), (None, {"arguments": "}"}), (None, {"name": "f"})],
            [("f", "{}"), ("f", "{}")],
        ),
        ([(3, {"name": "re"}), (3, {"name": "ad"}), (3, {"arguments": "{}"})], [("read", "{}")]),
        ([(0, {"name": None, "arguments": None, "id": None})], [("", "{}")]),
        (
            [(0, {"name": "f", "arguments": "\ud83d"}), (0, {"arguments": "\ude00\udead"})],
            [("f", "\U0001f600\ufffd")],
        ),
    ],
    ids=["none", "one-index", "new-ids", "name-again", "no-index", "cut-name", "nulls", "surrogates"],
)
def test_how_servers_differ_in_telling_calls(
    model_server: ModuleType, deltas: list[tuple[int | None, dict[str, Any]]], expected: list[tuple[str, str]]
) -> None:
    chunks = [
        model_server.chunk({"tool_calls": [model_server.call_delta(n, **facts)]}) for n, facts in deltas
    ]
    found = calls(read(*chunks))
    assert [(call.tool, call.arguments) for call in found] == expected
    assert len({call.id for call in found}) == len(found)
    assert all(call.id for call in found)


def test_ids_given_twice_are_told_apart_and_the_first_is_kept(model_server: ModuleType) -> None:
    deltas = [model_server.call_delta(n, id="same", name="f") for n in range(3)]
    found = [call.id for call in calls(read(model_server.chunk({"tool_calls": deltas})))]
    assert found[0] == "same"
    assert len(set(found)) == 3


def test_a_call_cut_by_the_length_limit_is_not_made_to_look_whole(model_server: ModuleType) -> None:
    delta = {"tool_calls": [model_server.call_delta(0, id="a", name="shell")]}
    events = read(model_server.chunk(delta, finish_reason="length"))
    assert calls(events) == [ToolCall("a", "shell", "")]
    assert events[-1] == Stopped(StopReason.LENGTH)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": None, "reasoning_content": "hm", "reasoning": "hm"}, ""),
        ({"refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, 3]}, "a"),
        ({"content": 7, "tool_calls": "x"}, ""),
        ({"content": "a\udc00b"}, "a\ufffdb"),
    ],
)
def test_what_counts_as_text(model_server: ModuleType, delta: dict[str, Any], expected: str) -> None:
    assert text(read(model_server.chunk(delta))) == expected


def test_a_pair_of_surrogates_cut_between_two_chunks_is_one_character(model_server: ModuleType) -> None:
    pieces = [model_server.chunk({"content": part}) for part in ("a\ud83d", "\ude00b", "c\ud83d")]
    assert text(read(*pieces)) == "a\U0001f600bc\ufffd"


def test_arguments_without_end_are_given_up(model_server: ModuleType) -> None:
    reader = ChatReader()
    piece = model_server.chunk({"tool_calls": [model_server.call_delta(0, arguments="x" * 1_000_000)]})
    with pytest.raises(ModelError, match="held"):
        for _ in range(64):
            reader.feed(json.dumps(piece))


def test_10_000_tokens_a_byte_at_a_time(model_server: ModuleType) -> None:
    words = [f" t\u00f6ken{n}" for n in range(10_000)]
    whole = b"".join(model_server.event(model_server.chunk({"content": word})) for word in words)
    stream, reader = EventStream(), ChatReader()
    seen = [reader.feed(data) for n in range(len(whole)) for data in stream.feed(whole[n : n + 1])]
    assert seen == words


LINES = st.sampled_from(
    ["data: a", "data:b", "data:  c", "data", ": comment", "", "", "event: x", "id: 1", "\ufeffdata: d"]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=12), st.lists(st.integers(1, 5), min_size=1))
@example([("data: a", "\r\n"), ("", "\r\n")], [1])
@example([("data: a", "\r"), ("", "\n"), ("data: b", "\r\n")], [1])
@settings(max_examples=settings().max_examples * 2)
def test_where_the_bytes_are_cut_makes_no_difference(lines: list[tuple[str, str]], sizes: list[int]) -> None:
    whole = "".join(line + end for line, end in lines).encode()
    at_once, cut = EventStream(), EventStream()
    expected = [*at_once.feed(whole), *at_once.flush()]
    found, start, step = [], 0, 0
    while start < len(whole):
        size = sizes[step % len(sizes)]
        found += cut.feed(whole[start : start + size])
        start, step = start + size, step + 1
    assert found + cut.flush() == expected


@pytest.mark.parametrize(
    ("sent", "events"),
    [
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"\xef\xbb\xbfdata:a\r\rdata:  b\r\r", ["a", " b"]),
        (b": ping\n\nevent: x\n\ndata: \xff\xe2\x82\n\n", ["\ufffd\ufffd"]),
        (b"data: end", ["end"]),
        (b"data\n\n", [""]),
    ],
)
def test_event_streams_are_read_as_the_standard_says(sent: bytes, events: list[str]) -> None:
    stream = EventStream()
    assert [*stream.feed(sent), *stream.flush()] == events


def test_an_event_without_an_end_is_given_up() -> None:
    stream = EventStream()
    with pytest.raises(ModelError, match="without an end"):
        for _ in range(40):
            stream.feed(b"data: " + b"x" * 500_000 + b"\n")
