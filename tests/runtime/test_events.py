"""The events of a run as JSON lines."""

from __future__ import annotations

import json

import pytest

from leeward.runtime.events import (
    Alert,
    CallEnded,
    CallStarted,
    EndReason,
    LiveOutput,
    Text,
    Thinking,
    TurnEnded,
    as_json,
)
from leeward.runtime.exits import to_json
from leeward.runtime.providers.interface import ErrorKind, ModelError
from leeward.security.call import Asker, Outcome, Status, ToolCall, ToolResult
from leeward.security.outcome import Category

CALL = ToolCall("call_1", "read", '{"path": "a\x1b"}', Asker.MODEL)
DENIED = ToolResult(
    CALL,
    Outcome(Status.DENIED, Category.POLICY_BLOCKED, "paths"),
    "fenced",
    "shown",
    {"code": "PERMISSION_DENIED"},
)
RAN = ToolResult(CALL, Outcome(Status.OK, exit_code=3), "«…»", "out", overflow_id="of_1")

TABLE = [
    (Text("hé\x1b"), {"type": "text", "text": "hé\x1b"}),
    (Thinking("so"), {"type": "thinking", "text": "so"}),
    (CallStarted(CALL), {"type": "call", "call": "call_1", "tool": "read", "arguments": '{"path": "a\x1b"}'}),
    (LiveOutput("call_1", "x\n"), {"type": "output", "call": "call_1", "text": "x\n"}),
    (Alert("careful"), {"type": "alert", "message": "careful"}),
    (
        CallEnded(DENIED),
        {
            "type": "result", "call": "call_1", "tool": "read", "status": "denied",
            "category": "policy_blocked",
            "gate": "paths", "exit_code": None, "text": "shown", "overflow_id": None,
            "error": {"code": "PERMISSION_DENIED"},
        },
    ),
    (
        CallEnded(RAN),
        {
            "type": "result", "call": "call_1", "tool": "read", "status": "ok", "category": None,
            "gate": None,
            "exit_code": 3, "text": "out", "overflow_id": "of_1", "error": None,
        },
    ),
    (
        TurnEnded(EndReason.MODEL_ERROR, "half", 2, 1, 10, 5, ModelError("gone", ErrorKind.UNAVAILABLE)),
        {
            "type": "end", "reason": "model_error", "text": "half", "calls": 2, "refused": 1,
            "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cost": None},
            "error": "gone",
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("event", "expected"), TABLE)
def test_each_event_is_one_pure_line(event, expected):
    told = as_json(event)
    assert told == {"schema": 1, **expected}
    line = to_json(told)
    assert json.loads(line) == told and line.isascii() and line.isprintable()


def test_the_reasons_are_a_promise():
    assert {reason.value for reason in EndReason} >= {
        "done",
        "max_turns",
        "cancelled",
        "model_error",
        "failed",
    }


async def test_every_event_of_a_session_can_be_told(sessions, tmp_path):
    says = [[("list_directory", {"path": "."}), ("nonsense", {}), ("read", "{broken")], "done"]
    async with sessions.session(tmp_path, says=says) as runtime:
        await runtime.turn("go")
        told = [json.loads(to_json(as_json(event))) for event in runtime.heard]
        kinds = [line["type"] for line in told]
        assert sorted(kinds[:6]) == [*["call"] * 3, *["result"] * 3] and kinds[6:] == ["text", "end"]
        assert all(line["schema"] == 1 for line in told)
