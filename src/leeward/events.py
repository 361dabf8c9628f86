"""What happens in a turn: the events of `run` and of a `listener`, and their form as JSON."""

from __future__ import annotations

from leeward.runtime.events import (
    Alert,
    CallEnded,
    CallStarted,
    EndReason,
    LiveOutput,
    RunEvent,
    Text,
    Thinking,
    TurnEnded,
    as_json,
)

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
]
