"""What a gate sees of the past: recorded events and their fold."""

from .anomaly import AnomalyDetector
from .events import (
    THE_PERSON,
    Asked,
    BreakerReset,
    Configured,
    Decided,
    Egress,
    Event,
    Finished,
    Forgot,
    Given,
    Granted,
    JobChanged,
    LevelSet,
    ModelSet,
    Read,
    Restored,
    Resumed,
    Revoked,
    TurnStarted,
    Withdrawn,
)
from .evidence import Part, Reading, Said
from .grant import Grant, Scope
from .state import Session, after

__all__ = [
    "THE_PERSON",
    "AnomalyDetector",
    "Asked",
    "BreakerReset",
    "Configured",
    "Decided",
    "Egress",
    "Event",
    "Finished",
    "Forgot",
    "Given",
    "Grant",
    "Granted",
    "JobChanged",
    "LevelSet",
    "ModelSet",
    "Part",
    "Read",
    "Reading",
    "Restored",
    "Resumed",
    "Revoked",
    "Said",
    "Scope",
    "Session",
    "TurnStarted",
    "Withdrawn",
    "after",
]
