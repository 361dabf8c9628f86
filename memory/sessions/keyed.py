"""Keep runs that have a key: which session each is, what was to be done, and what is on record of its steps.

A key is used once: its row stays when the session is deleted, without a word of anybody's. What is on
record of a step grows by a row for each call; once the step is done, one row takes the place of them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.ports import Clock, RecordError

from ..database import Database, Statement, parsed, storable, stored_json
from .lock import SessionLock
from .transcript import Pending

__all__ = ["KeyedRun", "KeyedRuns", "StepRecord", "forgotten_steps", "key_digest", "key_lock"]

_BEGIN = "INSERT INTO keyed_run (key, session, begun, task) VALUES (?, ?, ?, ?)"
_FIND = (
    "SELECT session, begun, task, EXISTS"
    " (SELECT 1 FROM conversation WHERE conversation.id = session AND deleted = 0)"
    " FROM keyed_run WHERE key = ?"
)
_OF_SESSION = "SELECT key FROM keyed_run WHERE session = ?"
_ADD = "INSERT INTO keyed_step (session, step, kind, content, at) VALUES (?, ?, ?, ?, ?)"
_FORGET_STEP = "DELETE FROM keyed_step WHERE session = ? AND step = ?"
_FORGET = "DELETE FROM keyed_step WHERE session = ?"
_STEPS = "SELECT step, kind, content, at FROM keyed_step WHERE session = ? ORDER BY seq"


@dataclass(frozen=True, slots=True)
class KeyedRun:
    """A run with a key: its session, since when, what was to be done, and whether the session is there."""

    session: str
    begun: float
    task: Mapping[str, str]
    is_kept: bool


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Something that is on record of a step; the runtime decides what `kind` and `content` are."""

    step: int
    kind: str
    content: Mapping[str, Json]
    at: float


def key_digest(key: str) -> str:
    """Return what a key is stored as; whatever is in it, this is hex digits."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def key_lock(database: Path, digest: str, what: str) -> SessionLock:
    """Take the right to run what has a key; `what` is how errors name it.

    Raises:
        SessionInUse: somebody else has it.
        RecordError: the lock cannot be made.
    """
    return SessionLock.take(database, f"k_{digest[:32]}", what)


def forgotten_steps(session: str) -> Statement:
    """Return what forgets all that is on record of a session's steps."""
    return _FORGET, (session,)


class KeyedRuns:
    """The runs that have a key."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, digest: str) -> KeyedRun | None:
        """Return the run of a key.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_FIND, (digest,))
        if not rows:
            return None
        session, begun, task, is_kept = rows[0]
        named = {name: str(value) for name, value in _object(task, "a run's key").items()}
        return KeyedRun(session, begun, named, bool(is_kept))

    async def key_of(self, session: str) -> str | None:
        """Return the digest of the key that a session has.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_OF_SESSION, (storable(session),))
        return str(rows[0][0]) if rows else None

    async def begin(self, digest: str, session: str, task: Mapping[str, str]) -> None:
        """Put on record that a session is the run of a key.

        Raises:
            RecordError: it could not be committed.
        """
        row = (digest, storable(session), self._clock.now(), stored_json(dict(task)))
        await self._database.write([(_BEGIN, row)])

    async def steps(self, session: str) -> list[StepRecord]:
        """Return what is on record of the steps of a session, in order.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_STEPS, (storable(session),))
        return [StepRecord(step, kind, _object(content, "a step"), at) for step, kind, content, at in rows]

    def add(self, session: str, step: int, kind: str, content: Json) -> Pending:
        """Have something about a step written; what is returned waits for it, and need not be called.

        Raises:
            RecordError: nothing can be written any more.
        """
        row = self._row(session, step, kind, content)
        return partial(self._database.written, self._database.queue([row], at_once=True))

    async def close(self, session: str, step: int, kind: str, content: Json) -> None:
        """Have this take the place of all that is on record of a step.

        Raises:
            RecordError: it could not be committed; what was there still is.
        """
        forget: Statement = (_FORGET_STEP, (storable(session), step))
        await self._database.write([forget, self._row(session, step, kind, content)])

    def _row(self, session: str, step: int, kind: str, content: Json) -> Statement:
        return _ADD, (storable(session), step, kind, stored_json(content), self._clock.now())


def _object(text: str, what: str) -> Mapping[str, Json]:
    try:
        value = parsed(text)
    except ValueError as error:
        raise RecordError(f"what is on record of {what} cannot be read: {error}") from error
    if not isinstance(value, Mapping):
        raise RecordError(f"what is on record of {what} is no object")
    return value
