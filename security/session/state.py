"""The session: what gates may see of the past, a pure fold over recorded events.

`apply_events(session, event)` is the only way a `Session` changes, and every event that counts is
recorded, so a session read back from the audit is the session that was. The ledger is an
append-only view and is never copied.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import field, replace
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..call import Asker, Status, ToolSpec
from ..kinds import Effect, Kind, Runs
from ..lazy import dataclass
from ..outcome import Category
from ..policy import HISTORY, RANDOM_ADDITION, SEEN, Policy
from ..provenance import Sighting, Values, forms_of
from ..trust import Origin, TrustLevel, min_trust
from ..url import Fingerprints, Ledger, Provenance
from .anomaly import AnomalyDetector, Breaker
from .events import (
    COUNTING,
    THE_PERSON,
    Asked,
    AutonomySet,
    BreakerReset,
    Configured,
    ConversationCleared,
    Decided,
    Egress,
    Event,
    FilesEndorsed,
    Finished,
    Granted,
    JobChanged,
    LevelSet,
    ModelSet,
    RefusedAnswer,
    Restored,
    Resumed,
    Revoked,
    ServerAsked,
    SkillUsed,
    TextSeen,
    TurnStarted,
    UrlsAdded,
    UrlsRemoved,
    Use,
    WordsGiven,
)
from .grant import Grant

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Session", "apply_events"]


@dataclass(frozen=True, slots=True)
class Session:
    """The past and the policy, as a gate sees them. `now` is seconds since the epoch.

    `secrets` are the values that must never leave; they come from the configuration and are in no
    event. `root` is the session this one was forked from at first, "" if it was not. `definitions` are those
    of the tools in `levels` whose word is about one. The levels of the tools in `capped` were set for another
    workspace or configuration, and can only weaken what holds now.
    Of the calls in `running`, a person asked for those in `typed`. `counting` numbers the rules by which
    denials and failures count, so that a record counts as it did when it was written.
    With `reads_history` the person allowed commands to read what git holds of secret files, and with
    `wrote_later` something was written that runs later without being named.
    `lent` are the secrets that the person let command lines have, as `Decided.lends` names them; `lent_calls`
    are the calls of these, and `lent_files` the paths that they changed and the person kept.
    `chars_in` are the characters that tools brought, `chars_out` those of them the model was shown.
    `suspicion` names what looked like orders to an assistant in texts that were read; no gate decides by it.
    `skill` is the one the model follows, "" for none, and `skill_uses` what it narrows calls to.
    `model` is who answers. With `key`, which is in no event either, hashes on record are made; where
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
    values: Values = field(default_factory=Values)
    labels: frozenset[Origin] = frozenset()
    grants: tuple[Grant, ...] = ()
    levels: Mapping[str, tuple[TrustLevel, str]] = field(default_factory=lambda: MappingProxyType({}))
    definitions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    capped: frozenset[str] = frozenset()
    anomaly: AnomalyDetector = field(default_factory=AnomalyDetector)
    breaker: Breaker = field(default_factory=Breaker)
    calls_this_turn: int = 0
    calls_this_session: int = 0
    pending: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    typed: frozenset[str] = frozenset()
    reads_history: bool = False
    wrote_later: bool = False
    lent: frozenset[str] = frozenset()
    lent_calls: frozenset[str] = frozenset()
    lent_files: frozenset[str] = frozenset()
    last: tuple[str, str] = ("", "")
    repeats: int = 0
    root: str = ""
    counting: int = COUNTING
    chars_in: int = 0
    chars_out: int = 0
    suspicion: tuple[str, ...] = ()
    skill: str = ""
    skill_uses: tuple[tuple[str, str | None], ...] | None = None

    @property
    def marks_key(self) -> str:
        """The key its fingerprints are taken with: a fork keeps the key of its session."""
        return self.root or self.id

    @property
    def uses_overlays(self) -> bool:
        """Whether allowed commands write to the workspace through an overlay.

        The person may switch that off until something untrusted could have a say in what commands do.
        """
        sandbox = self.policy.sandbox
        return sandbox.rung is Runs.TRIAL and (sandbox.overlay or self.is_untrusted or self.wrote_later)

    @property
    def is_untrusted(self) -> bool:
        """Whether a text of the web or of an MCP server was read: it may have a say in what is asked for."""
        return not self.labels.isdisjoint({Origin.WEB, Origin.MCP})

    @property
    def values_key(self) -> bytes:
        """The key of the hashes of values: it is never on record, and a fork keeps it."""
        return _values_key(self.marks_key, self.key)

    @property
    def canary(self) -> str:
        """The marker at the end of this session's prompt: sending it on means sending the prompt."""
        return _canary(self.marks_key, self.key)

    def active_grants(self) -> tuple[Grant, ...]:
        """The grants that have not expired by now."""
        return tuple(grant for grant in self.grants if grant.holds_at(self.now))

    def is_endorsed(self, kind: Kind, value: str, effects: Effect) -> bool:
        """Whether the person trusts a value for what a call does, by a grant about that very value."""
        return any(grant.endorses(kind, value, effects) for grant in self.active_grants())

    def keyed(self, digest: str) -> str:
        """Return a hash as it goes on record: without the key nobody can try out what it may be of."""
        if not self.key:
            return digest
        return hashlib.blake2b(digest.encode(), digest_size=32, key=self.key).hexdigest()

    def level_of(self, tool: str) -> tuple[TrustLevel, str] | None:
        """The level this session set for a tool and why, or None where it set none."""
        return self.levels.get(tool)

    def word_on(self, spec: ToolSpec) -> tuple[TrustLevel, str] | None:
        """The level and its cause where this session set one for the tool as it is, for what holds now."""
        is_of_this = self.definitions.get(spec.name, "") == spec.definition
        return self.level_of(spec.name) if is_of_this and spec.name not in self.capped else None

    def trust_in(self, spec: ToolSpec) -> TrustLevel:
        """The person's word in this session, else the weakest of what is configured and declared."""
        if (word := self.word_on(spec)) is not None:
            return word[0]
        set_here = self.level_of(spec.name)
        configured = (self.policy.levels.get(key) for key in (spec.name, spec.source))
        found = (*configured, set_here[0] if set_here is not None else None)
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


_FIELDS = attrgetter(*Session.__slots__)


def _changes(session: Session, event: Event) -> dict[str, object]:
    """Return the fields an event changes, so that a session is copied once for each."""
    match event:
        case Decided():
            return _decided(session, event)
        case Finished():
            return _finished(session, event)
        case TurnStarted():
            values = session.values.in_new_turn()
            return {"calls_this_turn": 0, "last": ("", ""), "repeats": 0, "values": values}
        case Resumed():
            return _resumed(session, event)
        case UrlsAdded():
            return {"ledger": session.ledger.with_urls(event.places, event.provenance)}
        case UrlsRemoved():
            forms = (forms_of(Kind.DESTINATION, place, place.text) for place in event.places)
            forgotten = session.values.without(forms, session.values_key)
            return {"ledger": session.ledger.without(event.places), "values": forgotten}
        case ConversationCleared():
            return _forgotten(session)
        case TextSeen():
            labels, seen = session.labels.union(event.labels), session.seen.with_marks(event.marks)
            suspicion = tuple(sorted({*session.suspicion, *event.suspicion}))
            values = _with_text(session.values, event)
            return {"labels": labels, "seen": seen, "values": values, "suspicion": suspicion}
        case WordsGiven():
            marks = (event.values, event.negated, event.marked, event.acts)
            return {"values": session.values.with_words(*marks, own=event.own)}
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
        case AutonomySet():
            return {"policy": replace(session.policy, autonomy=event.autonomy_now)}
        case SkillUsed():
            return {"skill": event.skill, "skill_uses": event.uses}
        case Configured():
            return {"counting": event.counting}
        case JobChanged():
            return {"values": session.values.hiding(event.call, event.job, event.overflow)}
        case Egress() | Restored() | FilesEndorsed() | ServerAsked() | RefusedAnswer():
            return {}


def _with_use(values: Values, call: str, use: Use) -> Values:
    known = values.with_use(call, use.values, use.written, use.above, ran=use.executes)
    return replace(known, outward=known.outward.with_call(use.let_out, use.sent))


def _with_text(values: Values, event: TextSeen) -> Values:
    if event.origin is None:
        return values
    sighting = Sighting(event.origin, event.source, event.by, event.private)
    if not event.values:
        # What a labelled file holds is known by its name alone, until it is read.
        return replace(values, untrusted=sighting)
    return values.with_text(event.values, sighting, shows=event.shows)


@lru_cache(maxsize=64)
def _values_key(name: str, key: bytes) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=32, key=key[:64], person=b"values").digest()


@lru_cache(maxsize=64)
def _canary(name: str, key: bytes) -> str:
    digest = hashlib.blake2b(name.encode(), digest_size=15, key=key[:64], person=b"canary").digest()
    return base64.b32encode(digest).decode().lower()


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
            "lent": nothing,
            "ledger": ledger,
            "capped": frozenset(session.levels),
        }
    return changes


def _forgotten(session: Session) -> dict[str, object]:
    """Forget what belongs to the conversation, keep what protects the person from it, or was to last."""
    return {
        "ledger": Ledger(),
        "seen": Fingerprints(),
        "values": session.values.cleared(),
        "labels": frozenset(),
        "suspicion": (),
        "skill": "",
        "skill_uses": None,
        "grants": tuple(grant for grant in session.grants if grant.scope.is_lasting),
        "reads_history": False,
        "lent": frozenset(),
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
    later = event.allowed and any((word.word, word.rule) == ("ask", "runs_later") for word in event.words)
    changes: dict[str, object] = {"wrote_later": True} if later else {}
    if event.hop or event.of:
        changes |= _kept_of_lent(session, event)
        return (
            changes
            if event.use is None
            else changes | {"values": _with_use(session.values, event.call, event.use)}
        )
    if event.call in session.pending:
        changes["pending"] = session.pending - {event.call}
    else:
        changes |= _booked(session)
    if event.allowed:
        changes["running"] = session.running | {event.call}
        if event.use is not None:
            changes["values"] = _with_use(session.values, event.call, event.use)
        if any((word.gate, word.word, word.rule) == ("commands", "ask", HISTORY) for word in event.words):
            changes["reads_history"] = True
        if event.lends:
            changes["lent"] = session.lent | set(event.lends)
            changes["lent_calls"] = session.lent_calls | {event.call}
    changes |= _answered(session, event, changes)
    if session.counting == 0:
        return changes | _counted_before(session, event)
    if event.asker == Asker.PERSON.value:
        # What a person typed says nothing of the model, and little of the tool.
        return changes | ({"typed": session.typed | {event.call}} if event.allowed else {})
    return changes | _counted(session, event)


def _kept_of_lent(session: Session, event: Decided) -> dict[str, object]:
    """Note which files are kept of a command that was lent a secret: they may hold it in any form."""
    if event.of not in session.lent_calls or not event.allowed or event.reading is None:
        return {}
    paths = [part for part in event.reading.parts if part.kind == Kind.PATH]
    # Where a name is not on record as it is, nobody can say which file it is.
    whole = [session.policy.workspace] if any(part.is_altered for part in paths) else []
    return {"lent_files": session.lent_files.union(whole, (part.text for part in paths))}


def _answered(session: Session, event: Decided, changes: Mapping[str, object]) -> dict[str, object]:
    """Take down what a yes is good for again: a host for random additions, a text for a tool's values."""
    asked = [word for word in event.words if word.word == "ask" and word.rule in (RANDOM_ADDITION, SEEN)]
    if not event.allowed or not asked:
        return {}
    hosts, texts = (
        {
            value
            for word in asked
            if word.rule == rule and not word.force
            for name, value in word.facts
            if name == what
        }
        for rule, what in ((RANDOM_ADDITION, "host"), (SEEN, "seen by call"))
    )
    if event.approver.partition(";")[0] != THE_PERSON:
        texts = set()
    values = changes.get("values", session.values)
    assert isinstance(values, Values)
    confirmed = [(event.tool, text) for text in texts]
    return {"values": replace(values, outward=values.outward.with_yes(hosts, confirmed))}


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
    changes: dict[str, object] = {
        "running": session.running - {event.call},
        "chars_in": session.chars_in + event.chars_in,
        "chars_out": session.chars_out + event.chars_out,
        "values": session.values.hiding(event.call, event.overflow),
    }
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
    verdict = session.anomaly.record(event.tool, succeeded, limits, call=event.digest, may_pass=may_pass)
    return {"anomaly": verdict}


def _counted_before(session: Session, event: Decided) -> dict[str, object]:
    """Count a decision as it was when nothing on record named the rules.

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
    changes: dict[str, object] = {"levels": levels}
    if event.definition or event.tool in session.definitions:
        changes["definitions"] = MappingProxyType({**session.definitions, event.tool: event.definition})
    if event.level is TrustLevel.BLOCKED:
        return changes
    anomaly, capped = session.anomaly.emptied(event.tool), session.capped - {event.tool}
    return changes | {"anomaly": anomaly, "capped": capped}


def _is_blocked(session: Session, event: Decided) -> bool:
    """Whether a tool is blocked, be it by the configuration or in this session."""
    level = session.level_of(event.tool)
    in_session = level is not None and level[0] is TrustLevel.BLOCKED
    return in_session or event.trust == TrustLevel.BLOCKED.name.lower()
