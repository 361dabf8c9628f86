"""What a gate may see of the past: a pure fold over recorded events.

`apply_events(session, event)` is the only way a `Session` changes, and every event that counts is
recorded, so a session read back from the audit is the session that was. The ledger is an
append-only view and is never copied.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..call import Asker, Status, ToolSpec
from ..kinds import Effect
from ..outcome import Category
from ..policy import HISTORY, Policy
from ..trust import Origin, TrustLevel, min_trust
from ..url import Fingerprints, Ledger, Provenance
from .anomaly import AnomalyDetector, Breaker
from .events import (
    COUNTING,
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
from .grant import Grant

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Session", "apply_events"]


@dataclass(frozen=True, slots=True)
class Session:
    """The past and the policy, as a gate sees them. `now` is seconds since the epoch.

    `secrets` are the values that must never leave; they come from the configuration and stand in no
    event. `root` is the session this one was forked from at first, "" if it was not. The levels of the
    tools in `capped` were set for another workspace or configuration, and can only weaken what holds now.
    Of the calls in `running`, a person asked for those in `typed`. `counting` numbers the rules by which
    denials and failures count, so that a record counts as it did when it was written.
    With `reads_history` the person said that commands may read what git holds of secret files.
    `model` is who answers. With `key`, which stands in no event either, hashes on record are made; where
    it is empty, they are plain.
    """

    id: str
    policy: Policy
    now: float = 0.0
    secrets: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    key: bytes = field(default=b"", repr=False, compare=False)
    model: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    seen: Fingerprints = field(default_factory=Fingerprints)
    labels: frozenset[Origin] = frozenset()
    grants: tuple[Grant, ...] = ()
    levels: Mapping[str, tuple[TrustLevel, str]] = field(default_factory=lambda: MappingProxyType({}))
    capped: frozenset[str] = frozenset()
    anomaly: AnomalyDetector = field(default_factory=AnomalyDetector)
    breaker: Breaker = field(default_factory=Breaker)
    calls_this_turn: int = 0
    calls_this_session: int = 0
    pending: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    typed: frozenset[str] = frozenset()
    reads_history: bool = False
    last: tuple[str, str] = ("", "")
    repeats: int = 0
    root: str = ""
    counting: int = COUNTING

    @property
    def marks_key(self) -> str:
        """The key its fingerprints are taken with: a fork goes on with those it was given."""
        return self.root or self.id

    def active_grants(self) -> tuple[Grant, ...]:
        """The grants that have not expired by now."""
        return tuple(grant for grant in self.grants if grant.holds_at(self.now))

    def keyed(self, digest: str) -> str:
        """Return a hash as it goes on record: without the key nobody can try out what it may be of."""
        if not self.key:
            return digest
        return hashlib.blake2b(digest.encode(), digest_size=32, key=self.key).hexdigest()

    def level_of(self, tool: str) -> tuple[TrustLevel, str] | None:
        """The level this session set for a tool and why, or None where it set none."""
        return self.levels.get(tool)

    def trust_in(self, spec: ToolSpec) -> TrustLevel:
        """The person's word in this session, else the weakest of what is configured and declared."""
        said = self.level_of(spec.name)
        if said is not None and spec.name not in self.capped:
            return said[0]
        configured = (self.policy.levels.get(key) for key in (spec.name, spec.source))
        found = (*configured, said[0] if said is not None else None)
        return min_trust(spec.level, *(level for level in found if level is not None))

    def trusts(self, spec: ToolSpec, effects: Effect) -> bool:
        """Whether a tool may have effects at all: a quarantined one may only read, a blocked one nothing."""
        level = self.trust_in(spec)
        return level < TrustLevel.QUARANTINED or (level < TrustLevel.BLOCKED and not effects & ~Effect.READ)


def apply_events(session: Session, *events: Event) -> Session:
    """Return the session as it is once the events have happened, one after the other."""
    # A copy for each of twenty thousand events would take longer than all they change: this one is
    # changed in place as long as nobody else has it.
    then = Session(*_FIELDS(session))
    for event in events:
        changes = _changes(then, event)
        changes["now"] = max(then.now, event.at)
        for name, value in changes.items():
            object.__setattr__(then, name, value)
    return then


_FIELDS = attrgetter(*(field.name for field in fields(Session)))


def _changes(session: Session, event: Event) -> dict[str, object]:
    """Return the fields an event changes, so that a session is copied once for each."""
    match event:
        case Decided():
            return _decided(session, event)
        case Finished():
            return _finished(session, event)
        case TurnStarted():
            return {"calls_this_turn": 0, "last": ("", ""), "repeats": 0}
        case Resumed():
            return _resumed(session, event)
        case UrlsAdded():
            return {"ledger": session.ledger.with_urls(event.places, event.provenance)}
        case UrlsRemoved():
            return {"ledger": session.ledger.without(event.places)}
        case ConversationCleared():
            return _forgotten(session)
        case TextSeen():
            labels, seen = session.labels.union(event.labels), session.seen.with_marks(event.marks)
            return {"labels": labels, "seen": seen}
        case Asked():
            if event.of:
                return {}
            return _booked(session) | {"pending": session.pending | {event.call}}
        case LevelSet():
            return _levelled(session, event)
        case Granted():
            return _granted(session, event)
        case Revoked():
            return {"grants": tuple(grant for grant in session.grants if grant.id != event.id)}
        case BreakerReset():
            return {"breaker": Breaker()}
        case ModelSet():
            return {"model": event.model}
        case Configured():
            return {"counting": event.counting}
        case Egress() | JobChanged() | Restored():
            return {}


def _granted(session: Session, event: Granted) -> dict[str, object]:
    """Take a grant in; one that was given for another workspace holds in none but that."""
    if event.workspace not in (None, session.policy.workspace):
        return {}
    return {"grants": (*session.grants, event.grant)}


def _resumed(session: Session, event: Resumed) -> dict[str, object]:
    """Nothing runs any more; what the person allowed for another workspace or configuration is over.

    So is what that configuration named. Grants that outlive a session are taken in anew each time.
    """
    own = tuple(grant for grant in session.grants if not grant.scope.is_lasting)
    nothing: frozenset[str] = frozenset()
    changes: dict[str, object] = {"pending": nothing, "running": nothing, "typed": nothing, "grants": own}
    if event.lapsed:
        ledger = session.ledger.known_otherwise(Provenance.CONFIG)
        changes |= {
            "grants": (),
            "reads_history": False,
            "ledger": ledger,
            "capped": frozenset(session.levels),
        }
    return changes


def _forgotten(session: Session) -> dict[str, object]:
    """Forget what belongs to the conversation, keep what protects the person from it, or was to last."""
    return {
        "ledger": Ledger(),
        "seen": Fingerprints(),
        "labels": frozenset(),
        "grants": tuple(grant for grant in session.grants if grant.scope.is_lasting),
        "reads_history": False,
        "last": ("", ""),
        "repeats": 0,
    }


def _booked(session: Session) -> dict[str, object]:
    return {
        "calls_this_turn": session.calls_this_turn + 1,
        "calls_this_session": session.calls_this_session + 1,
    }


def _decided(session: Session, event: Decided) -> dict[str, object]:
    """Book the call unless it was booked while it waited, and count a refusal where it belongs."""
    if event.hop or event.of:
        return {}
    if event.call in session.pending:
        changes: dict[str, object] = {"pending": session.pending - {event.call}}
    else:
        changes = _booked(session)
    if event.allowed:
        changes["running"] = session.running | {event.call}
        if any((word.gate, word.word, word.rule) == ("commands", "ask", HISTORY) for word in event.words):
            changes["reads_history"] = True
    if session.counting == 0:
        return changes | _counted_before(session, event)
    if event.asker == Asker.PERSON.value:
        # What a person typed says nothing of the model, and little of the tool.
        return changes | ({"typed": session.typed | {event.call}} if event.allowed else {})
    return changes | _counted(session, event)


def _counted(session: Session, event: Decided) -> dict[str, object]:
    """Count a decision about a model's call: a yes of the person is its end, a refusal by a gate one more."""
    if event.allowed:
        is_yes = event.approver.partition(";")[0] == THE_PERSON
        return {"breaker": session.breaker.lifted() if is_yes else session.breaker.relieved()}
    if event.approver or _is_blocked(session, event):
        # A person's word, or nobody there to ask, or a block that was counted when it came about.
        return {}
    return _denied(session, event)


def _denied(session: Session, event: Decided) -> dict[str, object]:
    changes: dict[str, object] = {"breaker": session.breaker.denied(session.policy.breaker)}
    if event.category is not Category.TOOL_NOT_FOUND:
        anomaly = session.anomaly.record(event.tool, False, session.policy.anomaly, refused=True)
        changes["anomaly"] = anomaly
    return changes


def _finished(session: Session, event: Finished) -> dict[str, object]:
    """Count an outcome once, however often it had to be written."""
    if event.call not in session.running:
        return {}
    changes: dict[str, object] = {"running": session.running - {event.call}}
    is_typed = event.call in session.typed
    if is_typed:
        changes["typed"] = session.typed - {event.call}
    if event.status in {Status.CANCELLED, Status.DENIED, Status.UNKNOWN}:
        # It was stopped, or never started for want of a record, or the process ended: no result that
        # could count as the same again, and no failure of the tool.
        return changes
    this = (event.digest, event.result)
    changes |= {"last": this, "repeats": session.repeats + 1 if this == session.last else 1}
    return changes if is_typed else changes | _measured(session, event)


def _measured(session: Session, event: Finished) -> dict[str, object]:
    """Count what came of a model's call for or against its tool."""
    limits, succeeded = session.policy.anomaly, event.status in {Status.OK, Status.STARTED}
    may_pass = event.category is not None and event.category.retryable
    if session.counting == 0:
        if may_pass and (event.digest, event.result) == session.last:
            return {}
        return {"anomaly": session.anomaly.record(event.tool, succeeded, limits)}
    told = session.anomaly.record(event.tool, succeeded, limits, call=event.digest, may_pass=may_pass)
    return {"anomaly": told}


def _counted_before(session: Session, event: Decided) -> dict[str, object]:
    """Count a decision as it was when nothing on record told by which rules.

    A person's own calls counted like a model's, refusals by a block counted, and no yes lifted the breaker.
    """
    if event.allowed:
        return {"breaker": session.breaker.relieved()}
    if event.approver:
        return {}
    changes = _denied(session, event)
    level = session.level_of(event.tool)
    if level is not None and level[0] is TrustLevel.BLOCKED:
        changes.pop("anomaly", None)
    return changes


def _levelled(session: Session, event: LevelSet) -> dict[str, object]:
    """Set the level; lifting a block empties the window, else the next failure would block again."""
    levels = MappingProxyType({**session.levels, event.tool: (event.level, event.cause)})
    if event.level is TrustLevel.BLOCKED:
        return {"levels": levels}
    anomaly, capped = session.anomaly.emptied(event.tool), session.capped - {event.tool}
    return {"levels": levels, "anomaly": anomaly, "capped": capped}


def _is_blocked(session: Session, event: Decided) -> bool:
    """Whether a tool is blocked, be it by the configuration or in this session."""
    level = session.level_of(event.tool)
    in_session = level is not None and level[0] is TrustLevel.BLOCKED
    return in_session or event.trust == TrustLevel.BLOCKED.name.lower()
