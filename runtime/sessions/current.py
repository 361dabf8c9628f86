"""Which session is the current one, does a turn of it run, who listens, and who is asked where nobody is?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from leeward.memory.audit import AuditLogger
from leeward.memory.sessions import SessionLock
from leeward.security.pipeline import Pipeline
from leeward.security.ports import Answer, Question, RecordError
from leeward.security.record import tell
from leeward.security.session import Session
from leeward.tools.checkpoints import Checkpoints
from leeward.tools.shell import Jobs

from ..events import Alert, LiveOutput, RunEvent

__all__ = ["Alone", "Current", "Nobody", "Relay"]

_ENDING_SECONDS = 10.0


class Relay:
    """The pipeline's observer: hands what it hears to all who listen. A listener may fail, a call may not."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[RunEvent], None]] = []
        self._told: set[str] = set()

    def live(self, call: str, chunk: str) -> None:
        """A running call put out a piece of text."""
        self.emit(LiveOutput(call, chunk))

    def alert(self, message: str) -> None:
        """Something the person must see happened."""
        self.emit(Alert(message))

    def tell_once(self, message: str) -> None:
        """Alert the person of something, unless that was done."""
        if message not in self._told:
            self._told.add(message)
            self.alert(message)

    def emit(self, event: RunEvent) -> None:
        """Hand an event on."""
        for listener in tuple(self.listeners):
            tell(partial(listener, event))


class Current:
    """The current session: its pipeline, which tools that keep something for it read, and its lock."""

    pipeline: Pipeline
    jobs: Jobs
    checkpoints: Checkpoints | None = None
    lock: SessionLock | None = None

    def session(self) -> Session:
        """Return the session as it is now."""
        return self.pipeline.session

    def begin(self, pipeline: Pipeline, lock: SessionLock) -> None:
        """Another session is the current one; let others take the one before up."""
        self.leave()
        self.pipeline, self.lock = pipeline, lock
        if self.checkpoints is not None:
            self.checkpoints.turned.clear()

    async def end(self, audit: AuditLogger, alert: Callable[[str], None]) -> None:
        """Put on record that the session ended, within seconds; what is open the next start settles."""
        if self.lock is None:
            return
        is_settled, session = False, self.pipeline.session.id
        with trio.move_on_after(_ENDING_SECONDS, shield=True):
            await self.jobs.end_all()
            await self.pipeline.note()
            try:
                await audit.end_session(session)
                is_settled = not await audit.unfinished(session)
            except RecordError as error:
                alert(str(error))
        self.leave(is_settled=is_settled)

    def leave(self, *, is_settled: bool = False) -> None:
        """Let others take the session up."""
        if self.lock is not None:
            self.lock.release(is_settled=is_settled)
        self.lock = None


class Alone:
    """Sees that a conversation is changed by one at a time."""

    def __init__(self) -> None:
        self._busy = False

    def __enter__(self) -> None:
        if self._busy:
            raise trio.BusyResourceError("a turn of this session is running")
        self._busy = True

    def __exit__(self, *_: object) -> None:
        self._busy = False


class Nobody:
    """The approver where nobody can be asked: every question is a refusal at once."""

    async def ask(self, _question: Question) -> Answer:
        """Return `Answer.NOBODY`."""
        await trio.lowlevel.checkpoint()
        return Answer.NOBODY
