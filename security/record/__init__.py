"""What is written down of a judgement, and how it is read back."""

from .decisions import asked_event, decided_event, declined_event, finished_event, words_of
from .egress import attempt_events, redirect_events, response_event
from .journal import Journal, tell
from .replay import OF_THE_CALL, action_from_record, gates_not_replayable, not_looked_up, session_at

__all__ = [
    "OF_THE_CALL",
    "Journal",
    "action_from_record",
    "asked_event",
    "attempt_events",
    "decided_event",
    "declined_event",
    "finished_event",
    "gates_not_replayable",
    "not_looked_up",
    "redirect_events",
    "response_event",
    "session_at",
    "tell",
    "words_of",
]
