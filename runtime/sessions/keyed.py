"""Tell how far a session that broke off had come: its last turn, its open calls, and what nobody knows of.

Three records are held against each other: the conversation, the audit, and what the run wrote down of its
calls. A call that may have run counts as one that may have run, whichever of them is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from leeward.security.call import Status, ToolCall
from leeward.security.lazy import dataclass
from leeward.security.session import Decided, Finished, Resumed, TurnStarted

from .history import taken_up

if TYPE_CHECKING:
    from leeward.memory.audit import AuditLogger

    from ..providers.interface import Message
    from .store import SessionStore

__all__ = ["CallRecord", "EndedInside", "LeftOff", "OpenCall", "left_off"]

_NOT_RUN = "not run: the session broke off before this call began; ask for it again if it is still needed"
# Done twice, it is as if it had been done once.
_HARMLESS = frozenset({"read"})
_LOST = (
    "{status}: this call came to its end, and the session broke off before its result was kept; do not run "
    "it again, but look at what it did"
)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What a run wrote down of a call: the id it ran by, the one the model knows, and what came of it.

    `text` is its result as the model saw it, None where it had none yet.
    """

    id: str
    model_id: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call of the last reply that has no answer, as the model asked for it.

    `answer` is what it can be answered with; None where nobody knows what came of it. One that did not begin
    can just as well be run now, if no mask in its arguments tells that they are not all there. `decided` is
    when it was allowed, `ended` how it ended where only that is known, its result being lost.
    """

    call: ToolCall
    answer: str | None = None
    has_begun: bool = True
    decided: Decided | None = None
    ended: Finished | None = None


@dataclass(frozen=True, slots=True)
class EndedInside:
    """A call of a sub-agent that came to its end: running that sub-agent again may do it once more."""

    decided: Decided
    status: Status


@dataclass(frozen=True, slots=True)
class LeftOff:
    """A session as it was left: the number of its last turn, and the open calls of that.

    `written` are the calls that the run wrote down of its open step, answered or not. `loose` are calls of
    that turn that were allowed and that the run did not write down: each may be one of the open calls without
    a `decided`. `unknown` are all calls that were allowed and whose outcome nobody knows, `inside` what of
    their sub-agents did more than read, and ended, by their ids.
    """

    turn: int
    open_calls: tuple[OpenCall, ...]
    written: tuple[OpenCall, ...]
    loose: tuple[OpenCall, ...]
    unknown: tuple[Decided, ...]
    inside: Mapping[str, Sequence[EndedInside]]


@dataclass(slots=True)
class _Calls:
    """The calls of a session by the audit; `fresh` have no known outcome since it was last resumed.

    `in_turn` were decided since its last turn began, `inside` are those of sub-agents by the calls that they
    come through.
    """

    decided: dict[str, Decided] = field(default_factory=dict)
    in_turn: dict[str, Decided] = field(default_factory=dict)
    inside: dict[str, list[Decided]] = field(default_factory=lambda: defaultdict(list))
    ended: dict[str, Finished] = field(default_factory=dict)
    fresh: dict[str, Decided] = field(default_factory=dict)

    def is_unknown(self, call: str) -> bool:
        """Whether a call, or what followed from it, was allowed and has no known outcome."""
        return any(
            decided.allowed and (name not in self.ended or self.ended[name].status is Status.UNKNOWN)
            for name, decided in self.decided.items()
            if call in {name, decided.of}
        )

    def take(self, decided: Decided) -> None:
        """Take in a decision. Calls of sub-agents are not in the conversation, so they are not `in_turn`."""
        through = decided.reading.through if decided.reading is not None else ()
        self.decided[decided.call] = decided
        if not through:
            self.in_turn[decided.call] = decided
        for _, agent, _, _ in through:
            self.inside[agent].append(decided)

    def ended_inside(self, agent: str) -> Iterator[EndedInside]:
        """Yield the calls of a sub-agent that did more than read, and came to their end."""
        for one in self.inside.get(agent, ()):
            ended, reading = self.ended.get(one.call), one.reading
            is_harmless = reading is not None and _HARMLESS.issuperset(reading.effects)
            if ended is not None and ended.status is not Status.UNKNOWN and not is_harmless:
                yield EndedInside(one, ended.status)


async def left_off(kept: SessionStore, session: str, calls: Sequence[CallRecord]) -> LeftOff:
    """Return how far a session had come; `calls` is what was written down of those of its open step.

    To be called by who has its key, with nobody else in the session.

    Raises:
        RecordError: its records or its words could not be read.
    """
    found = await _on_record(kept.audit, session)
    recall = await kept.transcript.recall(session)
    open_calls = tuple(_opened(_unanswered(taken_up(recall).messages), calls, found))
    written = tuple(_as_decided(record, found) for record in calls)
    wanted = {one.call.tool for one in open_calls if one.decided is None}
    loose = tuple(one for one in _loose(calls, found) if one.call.tool in wanted)
    open_ones = [one for one in (*open_calls, *loose) if one.answer is None]
    unknown = found.fresh | {one.decided.call: one.decided for one in open_ones if one.decided}
    inside = {call: ended for call in unknown if (ended := tuple(found.ended_inside(call)))}
    return LeftOff(recall.last_turn, open_calls, written, loose, tuple(unknown.values()), inside)


async def _on_record(audit: AuditLogger, session: str) -> _Calls:
    found = _Calls()
    # With the evidence: through whom a call came is a part of it.
    for event in await audit.events_of(session):
        match event:
            case Decided(hop=0):
                found.take(event)
            case TurnStarted():
                found.in_turn.clear()
            case Finished(call=call, status=Status.UNKNOWN):
                found.ended[call] = event
                if call in found.decided:
                    found.fresh[call] = found.decided[call]
            case Finished(call=call):
                found.ended[call] = event
            case Resumed():
                found.fresh.clear()
    return found


def _unanswered(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls without an answer; the conversation has them in its last reply only."""
    answered = {message.call_id for message in messages if message.role == "tool"}
    return tuple(call for message in messages for call in message.calls if call.id not in answered)


def _opened(unanswered: Sequence[ToolCall], calls: Sequence[CallRecord], found: _Calls) -> Iterator[OpenCall]:
    # The last try of a call is the one that counts.
    written = {record.model_id: record for record in calls}
    for call in unanswered:
        yield _open_call(call, written.get(call.id), found)


def _loose(calls: Sequence[CallRecord], found: _Calls) -> Iterator[OpenCall]:
    """Yield the calls that were allowed and not written down, as they were decided."""
    known = {record.id for record in calls}
    for one in found.in_turn.values():
        if one.allowed and one.call not in known and not one.of:
            yield _as_decided(CallRecord(one.call, ""), found)


def _as_decided(record: CallRecord, found: _Calls) -> OpenCall:
    """Return what is known of a call; what was asked for is as it was decided, or nothing."""
    decided = found.decided.get(record.id)
    call = ToolCall(record.id, decided.tool if decided else "", decided.arguments if decided else "")
    return _open_call(replace(call, model_id=record.model_id), record, found)


def _open_call(call: ToolCall, record: CallRecord | None, found: _Calls) -> OpenCall:
    decided = found.decided.get(record.id) if record is not None else None
    if record is None or decided is None or not decided.allowed:
        text = record.text if record is not None else None
        return OpenCall(call, text or _NOT_RUN, has_begun=text is not None)
    if found.is_unknown(decided.call):
        return OpenCall(call, decided=decided)
    if record.text is not None:
        return OpenCall(call, record.text, decided=decided)
    ended = found.ended[decided.call]
    return OpenCall(call, _LOST.format(status=ended.status.value), decided=decided, ended=ended)
