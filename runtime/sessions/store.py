"""Find, resume, fork and delete sessions: fold their records and read their conversations.

Nothing here decides anything: what a session may do is what its records say it was allowed, less what lapses
when it is resumed elsewhere or under another configuration. Sessions are put into words in `text.py`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.memory.sessions import (
    Catalog,
    Charge,
    Conversation,
    KeyedRuns,
    SessionInUse,
    SessionLock,
    Transcript,
    key_lock,
)
from leeward.security.call import Status
from leeward.security.lazy import dataclass
from leeward.security.session import (
    BreakerReset,
    Configured,
    ConversationCleared,
    Decided,
    Event,
    Finished,
    Granted,
    LevelSet,
    Resumed,
    Session,
    SkillUsed,
    TextSeen,
    TurnStarted,
    UrlsAdded,
    apply_events,
)
from leeward.security.text import visible
from leeward.security.trust import TrustLevel

from ..describe import gates_off
from ..exits import CliError, Exit
from .current import states_of
from .history import origins_of, taken_up

if TYPE_CHECKING:
    from leeward.memory.audit import AuditLogger, Record, Unfinished
    from leeward.memory.checkpoints import CheckpointStore
    from leeward.memory.database import Database
    from leeward.security.kinds import Json
    from leeward.security.ports import Clock

    from ..config import Config, Loaded
    from ..conversation import HistorySnapshot

__all__ = [
    "MOVED",
    "ResumedSession",
    "SessionStore",
    "configured",
    "delete",
    "end_run",
    "expire",
    "find",
    "fork",
    "lease",
    "lock",
    "new_session_id",
    "own_record",
    "recorded",
    "take_up",
    "unknown_lines",
]

MOVED = "moved"
"""What is on record of a run whose session was resumed by others."""

_SAME_COMMAND = "wait for that run to end; the same command then gives its answer"
_AT_ONCE = 1000  # events folded between two points at which others may run
_MOST_UNKNOWN = 5
_ALL = 1_000_000_000
_INDEX_STEPS = 16
_LONGEST_ARGUMENTS = 160


@dataclass(frozen=True, slots=True)
class SessionStore:
    """Where sessions are kept."""

    audit: AuditLogger
    transcript: Transcript
    catalog: Catalog
    states: CheckpointStore
    keys: KeyedRuns
    database: Path

    @classmethod
    def of(cls, database: Database, clock: Clock, audit: AuditLogger, config: Config) -> SessionStore:
        """Return it for an open database."""
        return cls(
            audit,
            Transcript(database, clock),
            Catalog(database, clock),
            states_of(config, database, clock),
            KeyedRuns(database, clock),
            database.path,
        )


@dataclass(frozen=True, slots=True)
class ResumedSession:
    """A session as it was left: its state, its conversation, what it has cost, and how it is listed.

    `events` are recorded because it is resumed. `notices`, and the lines about `unknown` outcomes of calls,
    are shown to the person.
    """

    session: Session
    taken: HistorySnapshot
    charges: Sequence[Charge]
    conversation: Conversation
    events: tuple[Event, ...]
    notices: tuple[str, ...]
    lapsed: bool
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class _Fold:
    """The state of a session, under which configuration it was, and which calls have no known end."""

    session: Session
    under: Configured | None = None
    open_calls: dict[str, Decided] = field(default_factory=dict)
    unknown: list[Decided] = field(default_factory=list)

    def take(self, events: Sequence[Event]) -> None:
        """Let events count."""
        self.session = apply_events(self.session, *events)
        for event in events:
            match event:
                case Decided(call=call, allowed=True, hop=0):
                    self.open_calls[call] = event
                case Finished(call=call, status=status) if decided := self.open_calls.pop(call, None):
                    if status is Status.UNKNOWN:
                        self.unknown.append(decided)
                case Resumed():
                    self.open_calls.clear()
                    self.unknown.clear()
                case Configured():
                    self.under = event

    @property
    def without_end(self) -> list[Decided]:
        """The calls of which nobody knows what came."""
        return [*self.unknown, *self.open_calls.values()]


def configured(loaded: Loaded, session: Session) -> Configured:
    """Return the event that says under which configuration a session continues."""
    policy = session.policy
    sources = ((key, place) for key, place in loaded.sources.items() if place != "default")
    return Configured(
        session.now,
        loaded.digest,
        tuple(map(str, loaded.files)),
        tuple(sources),
        str(policy.autonomy),
        policy.workspace,
        policy.home,
        policy.headless,
        gates_off(session),
    )


async def expire(kept: SessionStore, retention_days: float, most: int | None = None) -> int:
    """Delete the sessions that nobody went on with for so long, but no open ones; return how many.

    With `most` no more than so many, and their words leave the index a few steps at a time.

    Raises:
        RecordError: they could not be deleted.
    """
    deleted = 0
    for session in await kept.catalog.expired(retention_days, _ALL if most is None else most):
        with suppress(CliError):
            await delete(kept, session)
            deleted += 1
    if deleted:
        await kept.catalog.forget_words(None if most is None else _INDEX_STEPS)
    return deleted


async def delete(kept: SessionStore, session: str) -> None:
    """Delete the conversation of a session; its audit stays, and its key is not free again.

    Raises:
        CliError: it is open, or its key is in use.
        RecordError: it could not be deleted.
    """
    digest = await kept.keys.key_of(session)
    with ExitStack() as stack:
        if digest is not None:
            # A run has its key before it has its session open, and after.
            stack.callback(lease(kept.database, digest, f"the key of session {session}").release)
        stack.callback(lock(kept.database, session).release)
        await kept.audit.settle(session)
        await kept.catalog.delete(session)


def new_session_id() -> str:
    """Return an id that no session has."""
    return f"s_{secrets.token_hex(6)}"


async def find(catalog: Catalog, name: str, workspace: str, besides: str = "") -> Conversation:
    """Return the session whose id begins so; for "" the latest of the workspace that is not `besides`.

    Raises:
        CliError: there is none, or more than one id begins so.
        RecordError: they could not be read.
    """
    if not name:
        latest = await catalog.sessions(2, workspace)
        if others := [one for one in latest if one.id != besides]:
            return others[0]
        why = "there is no session to resume in this workspace"
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", why, suggestion="leeward sessions list")
    found = await catalog.named(name)
    if len(found) == 1:
        return found[0]
    if found:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", "the ids of several sessions begin so", session=name)
    why = f"there is no session {visible(name)}"
    raise CliError(Exit.NOT_FOUND, "NOT_FOUND", why, session=name, suggestion="leeward sessions list")


async def own_record(catalog: Catalog, session: str) -> Conversation:
    """Return how the current session is stored, once it has a message.

    Raises:
        CliError: there is no message yet.
        RecordError: it could not be read.
    """
    found = await catalog.named(session)
    if not found or not found[0].turns:
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", "this session has no message yet")
    return found[0]


def lock(database: Path, session: str) -> SessionLock:
    """Take the right to resume a session.

    Raises:
        CliError: it is open, here or in another process.
        RecordError: the lock cannot be made.
    """
    try:
        return SessionLock.take(database, session)
    except SessionInUse as error:
        raise CliError(
            Exit.PRECONDITION,
            "SESSION_IN_USE",
            str(error),
            session=session,
            suggestion=f"go on there, or fork it: leeward sessions fork {session}",
        ) from error


def lease(database: Path, digest: str, what: str, way_out: str = _SAME_COMMAND) -> SessionLock:
    """Take the right to run what has a key, which is one of the sessions of a database.

    Raises:
        CliError: another run has it, here or in another process.
        RecordError: the lock cannot be made.
    """
    try:
        return key_lock(database, digest, what)
    except SessionInUse as error:
        raise CliError(Exit.PRECONDITION, "KEY_IN_USE", str(error), suggestion=way_out) from error


async def end_run(kept: SessionStore, session: str) -> None:
    """Put on record that a session is resumed outside of the run that has its key, if it has one.

    That is there before the session can be changed, so no run takes what is allowed there for its own.

    Raises:
        CliError: the run is under way.
        RecordError: it could not be written.
    """
    digest = await kept.keys.key_of(session)
    if digest is None:
        return
    way_out = f"wait for that run to end, or go on from a copy: leeward sessions fork {session}"
    held = lease(kept.database, digest, f"the key of session {session}", way_out)
    try:
        await kept.keys.add(session, 0, MOVED, {})()
    finally:
        held.release()


async def take_up(kept: SessionStore, found: Conversation, fresh: Session, digest: str) -> ResumedSession:
    """Return a session as it was left; `fresh` is one without a past, of its id and under today's policy.

    Raises:
        CliError: its records do not begin where it began.
        RecordError: its records or its words could not be read.
    """
    await kept.audit.settle(found.id)
    root, events = await recorded(kept.audit, found.id, evidence=False)
    # Until its own records tell by which rules it counts, those of the first releases hold.
    began = replace(fresh, root=root if root != found.id else "", counting=0)
    fold = await _folded(began, events)
    recall = await kept.transcript.recall(found.id)
    now, under = fresh.now, fold.under
    lapsed = under is None or (under.digest, under.workspace) != (digest, fresh.policy.workspace)
    happened: list[Event] = [Resumed(now, lapsed)]
    # Words that come back weigh what they weighed, also where the record of that was lost.
    if unlabelled := origins_of(recall) - fold.session.labels:
        happened.append(TextSeen(now, tuple(sorted(unlabelled))))
    notices = tuple(_notices(fold, lapsed=lapsed))
    # The level of autonomy was set for that time only.
    session = replace(fold.session, policy=fresh.policy)
    unknown = tuple(unknown_lines(fold.without_end))
    return ResumedSession(
        session, taken_up(recall), recall.charges, found, tuple(happened), notices, lapsed, unknown
    )


async def fork(kept: SessionStore, source: Conversation, turn: int | None = None) -> str:
    """Make a session that begins as another was at the end of a turn (None: the last); return its id.

    Raises:
        CliError: there is no such turn.
        RecordError: it could not be made.
    """
    turn = source.turns if turn is None else turn
    if not 1 <= turn <= source.turns:
        why = f"session {source.id} has turns 1 to {source.turns}"
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", why, session=source.id, turn=turn)
    new = new_session_id()
    came_from: dict[str, Json] = {"forked_from": source.id, "forked_turn": turn}
    # On record first: a conversation whose state nobody can tell would be one without labels.
    await kept.audit.start_session(new, source.workspace, "", came_from)
    await kept.catalog.fork(source.id, turn, new)
    return new


async def recorded(audit: AuditLogger, session: str, *, evidence: bool = True) -> tuple[str, Iterator[Event]]:
    """Return which session this one comes from at first, and all that happened from there up to now."""
    parts: list[Iterable[Event]] = []
    until: int | None = None
    forked_at = math.inf
    while True:
        begun = await _beginning(audit, session)
        came_from = _came_from(begun)
        if came_from is None or until is None or until >= came_from[1]:
            events = await (audit.events_of(session) if evidence else audit.history_of(session))
            parts.append(events if until is None else _before_fork(events, until, forked_at))
        if came_from is None:
            return session, chain.from_iterable(reversed(parts))
        session, turn = came_from
        until = turn if until is None else min(turn, until)
        forked_at = begun.at


def _before_fork(events: Iterable[Event], turn: int, forked_at: float) -> Iterator[Event]:
    """Yield what of a session counts in one that was forked from it then, at the end of that turn."""
    return (event for event in _until(events, turn) if not _is_another_life(event, forked_at))


def _is_another_life(event: Event, forked_at: float) -> bool:
    """Whether something that makes a session freer came after another one was forked off.

    What the person forgets or allows there has no effect on this one. All else may count here, too: it makes
    nothing freer, and the order of two events rests on a clock that may have been set.
    """
    match event:
        case ConversationCleared() | UrlsAdded() | Granted() | BreakerReset():
            return event.at > forked_at
        case SkillUsed():
            return event.at > forked_at and event.uses is None
        case LevelSet():
            return event.at > forked_at and event.level is not TrustLevel.BLOCKED
        case _:
            return False


def _came_from(begun: Record) -> tuple[str, int] | None:
    """Return which session this one was forked from, and behind which turn."""
    match begun.body:
        case {"forked_from": str(source), "forked_turn": int(turn)}:
            return source, turn
    return None


async def _beginning(audit: AuditLogger, session: str) -> Record:
    """Return the record of the beginning of a session; records before it belong to no session.

    Raises:
        CliError: it is gone.
    """
    records = await audit.list_records(session, 1, kinds=["session"])
    if not records:
        why = f"the audit of session {session} was cut, so nobody can tell what it had read and was allowed"
        raise CliError(Exit.PRECONDITION, "RECORDS_GONE", why, session=session)
    return records[0]


def _until(events: Iterable[Event], turn: int) -> Iterator[Event]:
    """Yield what happened before the turn after this one began."""
    number = 0
    for event in events:
        if isinstance(event, TurnStarted):
            number = event.turn or number + 1
            if number > turn:
                return
        yield event


async def _folded(session: Session, events: Iterator[Event]) -> _Fold:
    fold = _Fold(session)
    while batch := tuple(islice(events, _AT_ONCE)):
        fold.take(batch)
        await trio.lowlevel.checkpoint()
    return fold


def _notices(fold: _Fold, *, lapsed: bool) -> Iterator[str]:
    if lapsed and (fold.session.grants or fold.session.levels):
        yield (
            "the workspace or the configuration is another one than before: what was always-allowed in this "
            "session, and what made a tool more trusted, no longer counts"
        )


def unknown_lines(calls: Sequence[Decided | Unfinished]) -> Iterator[str]:
    """Tell the person of calls that ran when their process was killed, so that they look themselves."""
    for call in calls[:_MOST_UNKNOWN]:
        arguments = visible(call.arguments)
        shown = arguments if len(arguments) <= _LONGEST_ARGUMENTS else f"{arguments[:_LONGEST_ARGUMENTS]}…"
        what = f"{visible(call.tool)} {shown}"
        yield f"unknown outcome: {what} ran when the session broke off; it is not run again"
    if len(calls) > _MOST_UNKNOWN:
        yield f"unknown outcome: so of {len(calls) - _MOST_UNKNOWN} more calls"
