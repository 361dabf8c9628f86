"""What happens in a session, as values: each is recorded, and a session is a fold over them.

What they change is told in `session.py`, how they stand in the audit in `memory/events.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .call import Status
from .errors import Category
from .label import Origin
from .ledger import Provenance
from .level import TrustLevel

__all__ = [
    "Asked",
    "BreakerReset",
    "Decided",
    "Egress",
    "Event",
    "Finished",
    "Forgot",
    "Given",
    "Granted",
    "LevelSet",
    "Read",
    "TurnStarted",
    "Withdrawn",
]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The person said something: a turn begins. Times are seconds since the epoch, everywhere below."""

    at: float


@dataclass(frozen=True, slots=True)
class Given:
    """URLs and destinations became known, in canonical form, and how."""

    at: float
    urls: tuple[str, ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """`/browse --forget`: these URLs or destinations are known no longer, however they became known."""

    at: float
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forgot:
    """`/clear`: conversation, URLs, labels, grants and repeat counters are gone."""

    at: float


@dataclass(frozen=True, slots=True)
class Read:
    """Text of these origins reached the model; `marks` are the fingerprints of private values in it."""

    at: float
    labels: tuple[Origin, ...]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A call waits for a person; it is booked already."""

    at: float
    call: str
    tool: str
    digest: str
    questions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """A call was allowed or denied.

    `arguments` is the redacted canonical JSON; `words` holds (gate, allow|ask|deny, rule) of every
    gate; `approver` names the rule, grant, autonomy level or person that answered the Asks, or
    "nobody" where an Ask found none. `hop` is not 0 where the decision is about a redirect, or a second
    try, of a call that runs: such a decision neither books a call nor counts as a refusal of one.
    """

    at: float
    call: str
    tool: str
    digest: str
    allowed: bool
    gate: str | None = None
    rule: str = ""
    code: str = ""
    reason: str = ""
    category: Category | None = None
    arguments: str = ""
    words: tuple[tuple[str, str, str], ...] = ()
    approver: str = ""
    hop: int = 0


@dataclass(frozen=True, slots=True)
class Egress:
    """An attempt to open a URL: once when it was decided, and once more when it had `ended`.

    `hop` counts the attempts of a call from 0. `url` is canonical, its secrets masked; `rule` is what
    allowed or refused it. The rest is told by who made the attempt, and stands only where it ended;
    sizes are bytes on the wire.
    """

    at: float
    call: str
    tool: str
    hop: int
    url: str
    allowed: bool
    gate: str | None = None
    rule: str = ""
    ended: bool = False
    method: str = ""
    address: str = ""
    http_status: int | None = None
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """A call that was allowed came to an end. `result` is the hash of what came back, redacted."""

    at: float
    call: str
    tool: str
    digest: str
    status: Status
    category: Category | None = None
    exit_code: int | None = None
    result: str = ""
    size: int = 0
    overflow: str | None = None
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LevelSet:
    """A tool's trust level changed for this session, by `/trust` or by the anomaly window."""

    at: float
    tool: str
    level: TrustLevel
    cause: str


@dataclass(frozen=True, slots=True)
class Granted:
    """The person said "always": an allow rule that lives as long as the session."""

    at: float
    tool: str
    match: str | None


@dataclass(frozen=True, slots=True)
class BreakerReset:
    """`/trust reset`: the breaker starts counting anew."""

    at: float


Event: TypeAlias = (
    TurnStarted
    | Given
    | Withdrawn
    | Forgot
    | Read
    | Asked
    | Decided
    | Egress
    | Finished
    | LevelSet
    | Granted
    | BreakerReset
)
