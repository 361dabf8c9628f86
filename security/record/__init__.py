"""Write judgements to the audit and read them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .decisions import asked_event, decided_event, declined_event, finished_event, words_of
    from .egress import attempt_events, connection_event, redirect_events, response_event
    from .journal import Journal, tell
    from .labelled_files import LabelledFiles
    from .replay import OF_THE_CALL, action_from_record, gates_not_replayable, not_looked_up, session_at

__all__ = [
    "OF_THE_CALL",
    "Journal",
    "LabelledFiles",
    "action_from_record",
    "asked_event",
    "attempt_events",
    "connection_event",
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

_HOMES = {
    "Journal": ".journal",
    "LabelledFiles": ".labelled_files",
    "OF_THE_CALL": ".replay",
    "action_from_record": ".replay",
    "asked_event": ".decisions",
    "attempt_events": ".egress",
    "connection_event": ".egress",
    "decided_event": ".decisions",
    "declined_event": ".decisions",
    "finished_event": ".decisions",
    "gates_not_replayable": ".replay",
    "not_looked_up": ".replay",
    "redirect_events": ".egress",
    "response_event": ".egress",
    "session_at": ".replay",
    "tell": ".journal",
    "words_of": ".decisions",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
