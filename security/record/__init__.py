"""What is written down of a judgement, and how it is read back."""

from .decisions import words_of
from .journal import Journal, tell
from .replay import OF_THE_CALL, action_from_record, gates_not_replayable, not_looked_up, session_at

__all__ = [
    "OF_THE_CALL",
    "Journal",
    "action_from_record",
    "gates_not_replayable",
    "not_looked_up",
    "session_at",
    "tell",
    "words_of",
]
