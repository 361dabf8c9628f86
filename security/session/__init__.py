"""What a gate sees of the past: recorded events and their fold."""

from .anomaly import AnomalyDetector
from .events import (
    THE_PERSON,
    Asked,
    BreakerReset,
    Configured,
    ConversationCleared,
    Decided,
    Egress,
    Event,
    Finished,
    Granted,
    JobChanged,
    LevelSet,
    ModelSet,
    Restored,
    Resumed,
    Revoked,
    TextSeen,
    TurnStarted,
    UrlsAdded,
    UrlsRemoved,
)
from .evidence import ActionRecord, AtomRecord, GateVerdict
from .grant import Grant, Scope
from .state import Session, apply_events

__all__ = [
    "THE_PERSON",
    "ActionRecord",
    "AnomalyDetector",
    "Asked",
    "AtomRecord",
    "BreakerReset",
    "Configured",
    "ConversationCleared",
    "Decided",
    "Egress",
    "Event",
    "Finished",
    "GateVerdict",
    "Grant",
    "Granted",
    "JobChanged",
    "LevelSet",
    "ModelSet",
    "Restored",
    "Resumed",
    "Revoked",
    "Scope",
    "Session",
    "TextSeen",
    "TurnStarted",
    "UrlsAdded",
    "UrlsRemoved",
    "apply_events",
]
