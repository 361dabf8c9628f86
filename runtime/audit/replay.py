"""Replay the audit: how another configuration would decide the recorded calls.

A session is folded again from its events, and each call is judged at its place: with what had happened and
what was looked up by then. Nothing is looked up, asked or run, and the consequences of another decision are
not guessed: later calls are judged as they followed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import trio

from leeward.memory.audit import AuditLogger, RecordFilter, hash_key
from leeward.security.call import Action
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.permissions import Asks, resolve_asks
from leeward.security.pipeline import GATES, judge
from leeward.security.policy import Policy
from leeward.security.record import (
    OF_THE_CALL,
    action_from_record,
    gates_not_replayable,
    not_looked_up,
    session_at,
    words_of,
)
from leeward.security.session import Asked, Configured, Decided, Event, GateVerdict, Session, apply_events
from leeward.security.text import visible

from ..config import load, trust_of
from ..console import Startup, look
from ..exits import Exit
from ..options import Options
from ..policy import to_policy
from ..printer import Printer
from ..sessions import recorded
from .query import filter_of

__all__ = ["PolicyOf", "Replayed", "ReplayedVerdict", "replay", "replayed"]


PolicyOf: TypeAlias = Callable[[Configured], Policy]
"""Returns what another configuration allows in the place where a session was."""

_GATES = frozenset(gate.__name__ for gate in GATES)


@dataclass(frozen=True, slots=True)
class ReplayedVerdict:
    """What was, or would be, decided: "allow", "ask" or "deny", and by which gate and rule."""

    word: str
    gate: str = ""
    rule: str = ""

    def __str__(self) -> str:
        return f"{self.word} by {self.gate} ({self.rule})" if self.gate else self.word


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision, made again.

    `was` and `now` are each gate's answer then and today, `old` and `new` what followed and would
    follow. `gates_not_replayable` explains each gate without an answer; `new` is None where that leaves
    it open.
    """

    decided: Decided
    old: ReplayedVerdict
    new: ReplayedVerdict | None
    was: tuple[GateVerdict, ...]
    now: tuple[GateVerdict, ...]
    untold: Mapping[str, str]

    @property
    def is_changed(self) -> bool:
        """Whether the decision would differ, or the answer of any gate that has one."""
        known = (verdict for verdict in self.now if verdict.gate not in self.untold)
        was = {verdict.gate: _plainly(verdict) for verdict in self.was}
        is_other = self.new is not None and self.new.word != self.old.word
        return is_other or any(_is_other(was.get(verdict.gate), verdict) for verdict in known)

    def as_json(self) -> dict[str, Json]:
        """Return it as `--output json` says it."""
        was = {verdict.gate: verdict for verdict in self.was}
        gates: list[dict[str, Json]] = [
            {
                "gate": verdict.gate,
                "before": _word_json(was.get(verdict.gate)),
                "after": None if verdict.gate in self.untold else _word_json(verdict),
                "untold": self.untold.get(verdict.gate),
            }
            for verdict in self.now
            if verdict.gate in self.untold or _is_other(_plainly(was.get(verdict.gate)), verdict)
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


def _is_other(was: tuple[str, str] | None, verdict: GateVerdict) -> bool:
    """Whether a gate says something else; one that was not there then, and has no objection, does not."""
    return was != _plainly(verdict) and not (was is None and verdict.word == "allow")


def _plainly(verdict: GateVerdict | None) -> tuple[str, str] | None:
    """Return a gate's answer and its rule, without the place of the rule."""
    return None if verdict is None else (verdict.word, verdict.rule.removesuffix(f" at {verdict.where}"))


def _word_json(verdict: GateVerdict | None) -> Json:
    return None if verdict is None else {"word": verdict.word, "rule": verdict.rule}


def _ruling_json(ruling: ReplayedVerdict) -> Json:
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
        session = apply_events(session, event)


def _is_declined(decided: Decided) -> bool:
    return not decided.allowed and decided.code == "INPUT_REQUIRED"


def _again(decided: Decided, session: Session) -> Replayed:
    old, was = _recorded(decided), tuple(verdict for verdict in decided.words if verdict.gate in _GATES)
    action = action_from_record(decided, session.policy)
    if action is None:
        why = "the record is from an older version and lacks how the call was read"
        return Replayed(decided, old, None, was, (), {verdict.gate: why for verdict in was})
    session = session_at(decided, session)
    decision = judge(action, session)
    now = tuple(_as_it_was(verdict, decided) for verdict in words_of(decision, action, session))
    unsure = {one.gate: why for one in now if (why := _why_not(one.gate, decided, action, session))}
    left, _ = resolve_asks(decision.asks, action, session)
    return Replayed(decided, old, _ruling(old, now, left, unsure), was, now, unsure)


def _why_not(gate: str, decided: Decided, action: Action, session: Session) -> str:
    """Return why a gate's answer is unknown, or "" if it is known."""
    hidden = gates_not_replayable(gate, decided)
    if hidden:
        named = ", ".join(pointer.lstrip("/") or "all of it" for pointer in hidden[:3])
        return f"the argument was redacted or cut ({named})"
    if gate == "commands" and not_looked_up(decided, action, session.policy):
        return "it would ask what nobody looked up then"
    if gate == "hooks" and {*session.policy.hooks_on(decided.tool)} - {one.hook for one in action.hooked}:
        return "a hook would be asked that was not asked then"
    return ""


def _recorded(decided: Decided) -> ReplayedVerdict:
    """Return what was decided; if a person answered yes or no, that was a question."""
    if not decided.allowed:
        return ReplayedVerdict("ask" if _is_declined(decided) else "deny", decided.gate or "", decided.rule)
    asks = [verdict for verdict in decided.words if verdict.word == "ask"]
    if decided.approver.partition(";")[0] == "the person" and asks:
        return ReplayedVerdict("ask", asks[0].gate, asks[0].rule)
    return ReplayedVerdict("allow")


def _as_it_was(verdict: GateVerdict, decided: Decided) -> GateVerdict:
    """Return the word on record of a gate that no configuration changes, where it cannot be asked again."""
    is_whole = decided.reading is None or not decided.reading.hidden
    if is_whole or verdict.gate not in OF_THE_CALL:
        return verdict
    return next((one for one in decided.words if one.gate == verdict.gate), verdict)


def _ruling(
    old: ReplayedVerdict, now: tuple[GateVerdict, ...], left: Asks, unsure: Mapping[str, str]
) -> ReplayedVerdict | None:
    """Return what would be decided, or None where that depends on a gate whose answer is unknown."""
    for verdict in now:
        if verdict.gate not in unsure and verdict.word == "deny":
            return ReplayedVerdict("deny", verdict.gate, verdict.rule)
    if unsure:
        return None
    if old.word == "deny" and old.gate not in _GATES:
        # What changed between question and answer, or one redirect too many: no gate's business.
        return old
    return ReplayedVerdict("ask", left[0][0], left[0][1].rule) if left else ReplayedVerdict("allow")


_AT_ONCE = 20  # calls judged between two points at which others may run
_LONGEST = 100


@dataclass(slots=True)
class _Count:
    """How many decisions were made again, and what came of that."""

    sessions: int = 0
    decisions: int = 0
    changed: int = 0
    untold: int = 0

    def as_json(self) -> dict[str, Json]:
        return {
            "sessions": self.sessions,
            "decisions": self.decisions,
            "changed": self.changed,
            "untold": self.untold,
        }


async def replay(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Judge the calls of one session, or of all, again, and tell what would be another decision.

    Raises:
        CliError: there is no such session, or the configuration cannot be used.
        RecordError: the records cannot be read.
    """
    wanted, start = await filter_of(options, opened), look(options)
    sessions = await opened.reports.sessions(wanted)
    count, rows = _Count(), list[Json]()
    for session in sessions:
        count.sessions += 1
        async for one in _replayed(session, opened, start, options):
            count.decisions += 1
            count.changed += one.is_changed
            count.untold += one.new is None
            if one.is_changed or one.untold:
                rows.append({"session": session, **one.as_json()})
                printer.event({"schema": 1, "type": "replayed", "session": session, **one.as_json()})
                printer.answer("".join(f"{line}\n" for line in _lines(session, one)))
    printer.answer(_summary(count))
    return printer.finish(Exit.SUCCESS, {**count.as_json(), "calls": rows})


def _summary(count: _Count) -> str:
    untold = f", {count.untold} are unknown" if count.untold else ""
    sessions = f"{count.sessions} session{'s' if count.sessions != 1 else ''}"
    changed = f"{count.changed} would be decided differently"
    return f"{count.decisions} decisions in {sessions}: {changed}{untold}\n"


def _lines(session: str, one: Replayed) -> Iterator[str]:
    """Yield a decision that would differ, or that is not fully known."""
    decided, new = one.decided, one.new
    hop = f" (hop {decided.hop})" if decided.hop else ""
    about = visible(decided.arguments)[:_LONGEST]
    yield f"{visible(decided.call)}  {visible(decided.tool)}{hop}  {about}  {session}"
    yield f"  was {visible(str(one.old))}; would be {'open: see below' if new is None else visible(str(new))}"
    was = {verdict.gate: verdict.word for verdict in one.was}
    for verdict in one.now:
        if verdict.gate in one.untold:
            yield f"    {verdict.gate}: unknown: {visible(one.untold[verdict.gate])}"
        elif was.get(verdict.gate) != verdict.word:
            rule = f" ({visible(verdict.rule)})" if verdict.rule else ""
            before = was.get(verdict.gate, "not asked")
            yield f"    {verdict.gate}: was {before}, would be {verdict.word}{rule}"


async def _replayed(
    session: str, opened: AuditLogger, start: Startup, options: Options
) -> AsyncIterator[Replayed]:
    """Yield the decisions of a session, made again; what a fork was given by another is folded before."""
    root, recalled = await recorded(opened, session)
    events = list(recalled)
    given = len(events) - len(await opened.events_of(session))
    policies = _Policies(start, options)
    first = Configured(0.0, "", workspace=await _workspace(session, opened), home=str(start.places.home))
    # By it values are known again (`provenance/`); nothing else that is replayed rests on it.
    key = await trio.to_thread.run_sync(hash_key, start.places.data)
    origin = root if root != session else ""
    began = Session(session, policies.of(first), key=key, root=origin, counting=0)
    skipped = sum(isinstance(event, Decided) for event in events[:given])
    for number, one in enumerate(replayed(began, events, policies.of)):
        if number % _AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        if number >= skipped and (options.since is None or one.decided.at >= options.since):
            yield one


async def _workspace(session: str, opened: AuditLogger) -> str:
    """Return where a session was, which an older one says only where it began."""
    begun = await opened.reports.after(RecordFilter(session, ("session",)), 0, 1)
    return str(begun[0].body.get("workspace", "/")) if begun else "/"


class _Policies:
    """What the configuration allows, in whichever workspace a session was."""

    def __init__(self, start: Startup, options: Options) -> None:
        self._start = start
        self._options = options
        self._known: dict[tuple[str, str, bool], Policy] = {}

    def of(self, configured: Configured) -> Policy:
        """Return what is allowed in the place that an event names; links are as they were then."""
        workspace, home, headless = configured.workspace, configured.home, configured.headless
        key = (workspace, home, headless)
        if key not in self._known:
            self._known[key] = replace(self._read(*key), workspace=workspace, home=home)
        return self._known[key]

    def _read(self, workspace: str, home: str, headless: bool) -> Policy:
        places, options = self._start.places, self._options
        trusted = trust_of(places.data, Path(workspace)).reads_configuration
        loaded = load(file=options.config, workspace=Path(workspace), trusted=trusted, flags=options.flags())
        return to_policy(
            loaded,
            workspace=Path(workspace),
            home=Path(home),
            headless=headless,
            data_dir=places.data,
            config_dir=places.config,
        )
