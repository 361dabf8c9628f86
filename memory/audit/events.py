"""Convert events of a session to audit records and back without loss.

A record's body is the canonical JSON of the event's fields; its kind is the word for the event's class
in `KINDS`. The events themselves are defined in `security/session/events.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from leeward.security.call import Status
from leeward.security.kinds import Runs
from leeward.security.outcome import Category
from leeward.security.policy import Autonomy
from leeward.security.session import (
    ActionRecord,
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
    GateVerdict,
    Grant,
    Granted,
    JobChanged,
    LevelSet,
    ModelSet,
    RefusedAnswer,
    Restored,
    Resumed,
    Revoked,
    Scope,
    ServerAsked,
    SkillUsed,
    TextSeen,
    TurnStarted,
    UrlsAdded,
    UrlsRemoved,
    Use,
    WordsGiven,
)
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Provenance

from ..database import stored_json

__all__ = ["KINDS", "body_of", "event_of", "kind_of", "stored_fields"]

KINDS: Mapping[str, type[Event]] = {
    "turn": TurnStarted,
    "resumed": Resumed,
    "given": UrlsAdded,
    "withdrawn": UrlsRemoved,
    "forgot": ConversationCleared,
    "read": TextSeen,
    "words": WordsGiven,
    "approval": Asked,
    "decision": Decided,
    "egress": Egress,
    "outcome": Finished,
    "job": JobChanged,
    "snapshot": Restored,
    "endorsement": FilesEndorsed,
    "block": LevelSet,
    "trust": LevelSet,
    "grant": Granted,
    "revocation": Revoked,
    "reset": BreakerReset,
    "model": ModelSet,
    "autonomy": AutonomySet,
    "skill": SkillUsed,
    "server_asked": ServerAsked,
    "refused_answer": RefusedAnswer,
    "config": Configured,
}
"""The kinds of record a session is a fold over, and the event of each."""

_KIND_OF = {event: kind for kind, event in KINDS.items()}


def _rows(value: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row) for row in value)


def _offers(value: list[list[str | None]]) -> tuple[tuple[str | None, ...], ...]:
    """Return rules with folder and command; where earlier releases name none, the root is meant."""
    return tuple((*row, None, None)[:4] for row in value)


def _files(value: list[Any] | None) -> tuple[Any, ...] | None:
    """Return names of files, or names with what they held; a grant may be bound to none."""
    return None if value is None else tuple(tuple(one) if isinstance(one, list) else one for one in value)


def _use(value: Mapping[str, Any]) -> Use:
    paths = {name: tuple(value.get(name, ())) for name in ("written", "above", "let_out")}
    return Use(**{**value, **paths})


# JSON has neither tuples nor enumerations; a field of these names becomes again what it was. All
# other fields are strings, numbers, truth values or None, and come back as they are.
_RESTORE: Mapping[str, Callable[[Any], Any]] = {
    "urls": tuple,
    "marks": tuple,
    "origin": lambda value: None if value is None else Origin(value),
    "use": lambda value: None if value is None else _use(value),
    "provenance": Provenance,
    "labels": lambda value: tuple(Origin(label) for label in value),
    "questions": _rows,
    "words": lambda value: tuple(map(GateVerdict.from_json, value)),
    "reading": ActionRecord.from_json,
    "always": _offers,
    "files": _files,
    "sources": _rows,
    "off": tuple,
    "suspicion": tuple,
    "category": lambda value: None if value is None else Category(value),
    "status": Status,
    "level": TrustLevel,
    "autonomy_now": Autonomy,
    "scope": Scope,
    "grants": tuple,
    "hosts": tuple,
    "lends": tuple,
    "runs": Runs,
    "rung": Runs,
    "uses": lambda value: None if value is None else _rows(value),
}


_UNSAID: Mapping[str, Mapping[str, Any]] = {"config": {"counting": 0}, "grant": {"id": ""}}
"""What a record of an earlier release means by not saying it, where that is not the default of today."""

_LAID_OPEN: Mapping[type[Event], tuple[str, type[Grant]]] = {Granted: ("grant", Grant)}
"""The field of an event whose value is laid open: its fields are in the record beside the event's own."""


def stored_fields(event: type[Event]) -> Mapping[str, tuple[str, str]]:
    """Return the way to each value of an event, and its type, by the name under which it is recorded."""
    opened, inner = _LAID_OPEN.get(event, ("", Grant))
    found: dict[str, tuple[str, str]] = {}
    for field in fields(event):
        if not field.init:
            continue
        if field.name == opened:
            found |= {one.name: (f"{opened}.{one.name}", str(one.type)) for one in fields(inner)}
        else:
            found[field.name] = (field.name, str(field.type))
    return found


@cache
def _getter(kind: str) -> tuple[tuple[str, ...], Callable[[Event], tuple[Any, ...]]]:
    """Return the recorded names of the fields of a kind of event, and what gets their values in one step."""
    stored = stored_fields(KINDS[kind])
    ways = [way for way, _ in stored.values()]
    # The last way is one too many: for a single one no tuple would come back.
    return tuple(stored), attrgetter(*ways, ways[0])


@cache
def _restored(kind: str) -> tuple[str, ...]:
    """Return the fields of a kind of event that JSON says otherwise than the event."""
    return tuple(name for name in stored_fields(KINDS[kind]) if name in _RESTORE)


def kind_of(event: Event) -> str:
    """Return the word under which an event is recorded."""
    if isinstance(event, LevelSet):
        return "block" if event.level is TrustLevel.BLOCKED else "trust"
    return _KIND_OF[type(event)]


def body_of(event: Event) -> str:
    """Return the canonical JSON of an event's fields.

    Raises:
        RecordError: a number is infinite or not a number.
    """
    names, values = _getter(kind_of(event))
    return stored_json(dict(zip(names, values(event), strict=False)))


def event_of(kind: str, body: Mapping[str, Any]) -> Event:
    """Return the event that a record was made of.

    Raises:
        ValueError: the record does not hold an event of its kind.
    """
    try:
        made, fields_of = KINDS[kind], {**_UNSAID.get(kind, {}), **body}
        for name in _restored(kind):
            if name in fields_of:
                fields_of[name] = _RESTORE[name](fields_of[name])
        held: dict[str, Any] = {}
        if made in _LAID_OPEN:
            opened, inner = _LAID_OPEN[made]
            held[opened] = inner(
                **{one.name: fields_of.pop(one.name) for one in fields(inner) if one.name in fields_of}
            )
        return made(**fields_of, **held)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no event of kind {kind!r} can be read from it: {error}") from error
