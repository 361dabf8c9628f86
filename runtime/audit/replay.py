"""What would another configuration have decided about the calls on record?

A session is folded again from its events, and each call is judged at its place: with what had
happened by then, and with what was looked up then. Nothing is looked up, asked or run. What would have
come of another decision is not guessed: the calls that followed are judged as they followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from leeward.security.call import Action
from leeward.security.kinds import Json
from leeward.security.permissions import Asks, answered
from leeward.security.pipeline import GATES, judge
from leeward.security.policy import Policy
from leeward.security.record import OF_THE_CALL, not_looked_up, reread, standpoint, untold, words_of
from leeward.security.session import Asked, Configured, Decided, Event, Said, Session, after

__all__ = ["PolicyOf", "Replayed", "Ruling", "replayed"]

PolicyOf: TypeAlias = Callable[[Configured], Policy]
"""Returns what another configuration allows in the place where a session was."""

_GATES = frozenset(gate.__name__ for gate in GATES)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was, or would be, decided: "allow", "ask" or "deny", and by which gate and rule."""

    word: str
    gate: str = ""
    rule: str = ""

    def __str__(self) -> str:
        return f"{self.word} by {self.gate} ({self.rule})" if self.gate else self.word


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision, made again.

    `was` and `now` are what every gate said and would say, `old` and `new` what followed and would
    follow. `untold` says of each gate that cannot be told why; `new` is None where that leaves it open.
    """

    decided: Decided
    old: Ruling
    new: Ruling | None
    was: tuple[Said, ...]
    now: tuple[Said, ...]
    untold: Mapping[str, str]

    @property
    def is_changed(self) -> bool:
        """Whether something else would have been decided, or said by any gate that can be told."""
        told = (said for said in self.now if said.gate not in self.untold)
        was = {said.gate: _plainly(said) for said in self.was}
        is_other = self.new is not None and self.new.word != self.old.word
        return is_other or any(was.get(said.gate) != _plainly(said) for said in told)

    def as_json(self) -> dict[str, Json]:
        """Return it as `--output json` says it."""
        was = {said.gate: said for said in self.was}
        gates: list[dict[str, Json]] = [
            {
                "gate": said.gate,
                "before": _word_json(was.get(said.gate)),
                "after": None if said.gate in self.untold else _word_json(said),
                "untold": self.untold.get(said.gate),
            }
            for said in self.now
            if said.gate in self.untold or _plainly(said) != _plainly(was.get(said.gate))
        ]
        return {
            "call": self.decided.call,
            "tool": self.decided.tool,
            "at": self.decided.at,
            "hop": self.decided.hop,
            "before": _ruling_json(self.old),
            "after": None if self.new is None else _ruling_json(self.new),
            "changed": self.is_changed,
            "gates": gates,
        }


def _plainly(said: Said | None) -> tuple[str, str] | None:
    """Return a word and its rule, wherever that stands."""
    return None if said is None else (said.word, said.rule.removesuffix(f" at {said.where}"))


def _word_json(said: Said | None) -> Json:
    return None if said is None else {"word": said.word, "rule": said.rule}


def _ruling_json(ruling: Ruling) -> Json:
    return {"word": ruling.word, "gate": ruling.gate or None, "rule": ruling.rule or None}


def replayed(
    session: Session, events: Iterable[Event], policy_of: PolicyOf | None = None
) -> Iterator[Replayed]:
    """Yield every decision of a session, made again.

    `session` is the one it began as. Without `policy_of`, its own policy holds all the time.
    """
    asking: dict[str, Session] = {}
    for event in events:
        match event:
            case Configured() if policy_of is not None:
                session = replace(session, policy=policy_of(event))
            case Asked():
                asking[event.call] = session
            case Decided(hop=0):
                # Who found no yes was judged when the question came up, everybody else at the end of it.
                asked = asking.pop(event.call, session)
                yield _again(event, asked if _is_declined(event) else session)
            case Decided():
                yield _again(event, session)
        session = after(session, event)


def _is_declined(decided: Decided) -> bool:
    return not decided.allowed and decided.code == "INPUT_REQUIRED"


def _again(decided: Decided, session: Session) -> Replayed:
    old, was = _recorded(decided), tuple(said for said in decided.words if said.gate in _GATES)
    action = reread(decided, session.policy)
    if action is None:
        why = "the record is of an older version, and does not say what the call was read as"
        return Replayed(decided, old, None, was, (), {said.gate: why for said in was})
    session = standpoint(decided, session)
    decision = judge(action, session)
    now = tuple(_as_it_was(said, decided) for said in words_of(decision, action, session))
    unsure = {said.gate: why for said in now if (why := _why_not(said.gate, decided, action, session))}
    left, _ = answered(decision.asks, action, session)
    return Replayed(decided, old, _ruling(old, now, left, unsure), was, now, unsure)


def _why_not(gate: str, decided: Decided, action: Action, session: Session) -> str:
    """Say why it cannot be told what a gate would say, or "" where it can."""
    hidden = untold(gate, decided)
    if hidden:
        named = ", ".join(pointer.lstrip("/") or "all of it" for pointer in hidden[:3])
        return f"the argument was redacted or cut ({named})"
    if gate == "commands" and not_looked_up(decided, action, session.policy):
        return "it would ask what nobody looked up then"
    return ""


def _recorded(decided: Decided) -> Ruling:
    """Return what was decided; what a person said yes or no to was a question."""
    if not decided.allowed:
        return Ruling("ask" if _is_declined(decided) else "deny", decided.gate or "", decided.rule)
    asks = [said for said in decided.words if said.word == "ask"]
    if decided.approver.partition(";")[0] == "the person" and asks:
        return Ruling("ask", asks[0].gate, asks[0].rule)
    return Ruling("allow")


def _as_it_was(said: Said, decided: Decided) -> Said:
    """Return the word on record of a gate that no configuration changes, where it cannot be asked again."""
    is_whole = decided.reading is None or not decided.reading.hidden
    if is_whole or said.gate not in OF_THE_CALL:
        return said
    return next((one for one in decided.words if one.gate == said.gate), said)


def _ruling(old: Ruling, now: tuple[Said, ...], left: Asks, unsure: Mapping[str, str]) -> Ruling | None:
    """Return what would be decided, or None where that hangs on a gate that cannot be told."""
    for said in now:
        if said.gate not in unsure and said.word == "deny":
            return Ruling("deny", said.gate, said.rule)
    if unsure:
        return None
    if old.word == "deny" and old.gate not in _GATES:
        # What changed between question and answer, or one redirect too many: no gate's business.
        return old
    return Ruling("ask", left[0][0], left[0][1].rule) if left else Ruling("allow")
