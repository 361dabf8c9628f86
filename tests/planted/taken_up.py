"""Says again what was stored, line by line: a crash left calls without results, and results without calls."""

from __future__ import annotations

from leeward.memory.sessions import Recall
from leeward.runtime.conversation import HistorySnapshot
from leeward.runtime.providers.interface import Message
from leeward.security.call import ToolCall


def taken_up(recall: Recall) -> HistorySnapshot:
    lines = [entry for entry in recall.rest if entry.role in {"user", "assistant", "tool"}]
    messages = [
        Message(
            entry.role,
            entry.content["text"],
            tuple(ToolCall(*call) for call in entry.content.get("calls", ())),
            entry.content.get("call_id", ""),
        )
        for entry in lines
    ]
    return HistorySnapshot(
        tuple(messages), tuple(entry.place for entry in lines), recall.last_place, recall.last_turn
    )
