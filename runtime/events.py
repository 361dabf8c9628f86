"""The events of a run, and their form as JSON lines.

The same events feed the REPL, the script account, `--output jsonl` and embedding programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from leeward.security.call import ToolCall, ToolResult
from leeward.security.lazy import dataclass

from .exits import Json
from .providers.interface import ModelError

__all__ = [
    "Alert",
    "CallEnded",
    "CallStarted",
    "EndReason",
    "LiveOutput",
    "RunEvent",
    "Text",
    "Thinking",
    "TurnEnded",
    "as_json",
    "denial_json",
    "result_json",
    "usage_json",
]

SCHEMA = 1


class EndReason(StrEnum):
    """Why a turn ended."""

    DONE = "done"
    MAX_TURNS = "max_turns"
    TIMEOUT = "timeout"
    COST = "cost"
    CONTEXT = "context"
    CANCELLED = "cancelled"
    MODEL_ERROR = "model_error"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the model's answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of what the model thinks before it answers; no part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model asked for a tool; nothing was judged yet."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class LiveOutput:
    """A running call put out some text (stripped and redacted)."""

    call: str
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call came to its end, whichever that was."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Alert:
    """Something the person must see happened."""

    message: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last event of a run. `text` is the whole answer, or what there was of it.

    `cost` is in the currency of the configured prices, None where one of them is missing.
    """

    reason: EndReason
    text: str
    calls: int = 0
    refused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    error: ModelError | None = None
    cache_read_tokens: int = 0
    cost: float | None = None


RunEvent: TypeAlias = Text | Thinking | CallStarted | LiveOutput | CallEnded | Alert | TurnEnded


def as_json(event: RunEvent) -> dict[str, Json]:
    """Return the event as the JSON object of `--output jsonl`; a result shows what the person may see."""
    head: dict[str, Json] = {"schema": SCHEMA}
    match event:
        case Text(text):
            return head | {"type": "text", "text": text}
        case Thinking(text):
            return head | {"type": "thinking", "text": text}
        case CallStarted(call):
            return head | {"type": "call", "call": call.id, "tool": call.tool, "arguments": call.arguments}
        case LiveOutput(call=call_id, text=text):
            return head | {"type": "output", "call": call_id, "text": text}
        case CallEnded(result):
            return head | {"type": "result"} | result_json(result)
        case Alert(message):
            return head | {"type": "alert", "message": message}
        case TurnEnded():
            return head | {
                "type": "end",
                "reason": event.reason.value,
                "text": event.text,
                "calls": event.calls,
                "refused": event.refused,
                "usage": usage_json([event]),
                "error": str(event.error) if event.error is not None else None,
            }


def usage_json(turns: Sequence[TurnEnded]) -> dict[str, Json]:
    """Return what turns have spent, together; `cost` is null where it is not known of one of them."""
    costs = [turn.cost for turn in turns]
    known = [cost for cost in costs if cost is not None]
    return {
        "input_tokens": sum(turn.input_tokens for turn in turns),
        "output_tokens": sum(turn.output_tokens for turn in turns),
        "cache_read_tokens": sum(turn.cache_read_tokens for turn in turns),
        "cost": round(sum(known), 9) if len(known) == len(costs) else None,
    }


def result_json(result: ToolResult) -> dict[str, Json]:
    """Return a result as JSON: its outcome, the screened text, and the error object where there is one."""
    outcome = result.outcome
    return {
        "call": result.call.id,
        "tool": result.call.tool,
        "status": outcome.status.value,
        "category": outcome.category.value if outcome.category is not None else None,
        "gate": outcome.gate,
        "exit_code": outcome.exit_code,
        "text": result.shown,
        "overflow_id": result.overflow_id,
        "error": dict(result.error) if result.error is not None else None,
    }


def denial_json(result: ToolResult) -> dict[str, Json]:
    """Return who refused a call by which rule, and what would have let it through."""
    error = result.error or {}
    asked = f"leeward audit why {result.call.id} shows what would allow it"
    return {
        "call": result.call.id,
        "tool": result.call.tool,
        "gate": result.outcome.gate,
        "rule": error.get("rule"),
        "code": error.get("code"),
        "message": error.get("message"),
        "way_out": error.get("way_out") or error.get("suggestion") or asked,
    }
