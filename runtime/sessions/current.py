"""The current session: its running turn, its listeners, its background jobs and its checkpoints.

Jobs are defined in `tools/shell/jobs.py`, checkpoints in `tools/checkpoints/checkpoints.py`; what a
checkpoint does not cover is put into the question beforehand. Where nobody is present, `NoApprover` answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from leeward.memory.checkpoints import JOURNALS, CheckpointStore
from leeward.security.filters import Source
from leeward.security.lazy import dataclass
from leeward.security.output import BackgroundOutput
from leeward.security.ports import Answer, Approver, Clock, Question, Reader, RecordError, Reply
from leeward.security.record import tell
from leeward.security.text import visible
from leeward.security.trust import Origin
from leeward.tools.checkpoints import ChangeRecord, Checkpoints, SnapshotLimits, is_changing
from leeward.tools.files import Guard, shown_name
from leeward.tools.sandbox import Keeping
from leeward.tools.shell import Job, Jobs, JobState

from ..events import Alert, LiveOutput, RunEvent

if TYPE_CHECKING:
    from leeward.memory.audit import AuditLogger
    from leeward.memory.database import Database
    from leeward.memory.overflow import OverflowStore
    from leeward.memory.sessions import SessionLock
    from leeward.security.call import Action
    from leeward.security.pipeline import Pipeline
    from leeward.security.policy import Policy
    from leeward.security.session import JobChanged, Session

    from ..config import Config

__all__ = [
    "CheckpointNotice",
    "Current",
    "EventRelay",
    "NoApprover",
    "TurnLock",
    "checkpoints_of",
    "job_lines",
    "jobs_of",
    "keeping_of",
    "news_of",
    "states_of",
]


_ENDING_SECONDS = 10.0


class EventRelay:
    """The pipeline's observer: hands what it hears to all who listen. A listener may fail, a call may not."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[RunEvent], None]] = []
        self._alerted: set[str] = set()

    def live(self, call: str, chunk: str) -> None:
        """A running call put out a piece of text."""
        self.emit(LiveOutput(call, chunk))

    def alert(self, message: str) -> None:
        """Something the person must see happened."""
        self.emit(Alert(message))

    def tell_once(self, message: str) -> None:
        """Alert the person of something, unless that was done."""
        if message not in self._alerted:
            self._alerted.add(message)
            self.alert(message)

    def emit(self, event: RunEvent) -> None:
        """Hand an event on."""
        for listener in tuple(self.listeners):
            tell(partial(listener, event))


class Current:
    """The current session: its pipeline, which tools that keep something for it read, and its lock.

    `reader` is the model that reads for it.
    """

    pipeline: Pipeline
    reader: Reader
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


class TurnLock:
    """Sees that a conversation is changed by one at a time."""

    def __init__(self) -> None:
        self._busy = False

    def __enter__(self) -> None:
        if self._busy:
            raise trio.BusyResourceError("a turn of this session is running")
        self._busy = True

    def __exit__(self, *_: object) -> None:
        self._busy = False


class NoApprover:
    """The approver where nobody can be asked: every question is a refusal at once."""

    async def ask(self, _question: Question) -> Answer:
        """Return `Answer.NOBODY`."""
        await trio.lowlevel.checkpoint()
        return Answer.NOBODY


# Of an output, what goes along with the next turn (characters); job_output has all of it.
_TOLD = 2_000
_WIDTH = 140


def jobs_of(
    config: Config, current: Current, overflow: OverflowStore, clock: Clock, alert: Callable[[str], None]
) -> Jobs:
    """Return the background commands of whatever session is the current one; `alert` hears of each end."""

    def screen(action: Action) -> BackgroundOutput:
        return BackgroundOutput(action, current.session(), overflow)

    async def record(change: JobChanged) -> None:
        if change.state != JobState.RUNNING and current.checkpoints is not None:
            await current.checkpoints.job_ended(change.call)
        await current.pipeline.note(change)
        if change.state != JobState.RUNNING:
            alert("".join(job_lines(current.jobs.find(change.job))))

    shell = config.tools.shell
    return Jobs(screen, record, clock.now, shell.max_jobs, shell.longest_job)


async def news_of(current: Current, pipeline: Pipeline) -> str:
    """Return the model's notice of jobs that are over and of undoing, fenced."""
    news = []
    for turned in current.checkpoints.take_turned() if current.checkpoints is not None else ():
        did = "done again" if turned.step.undone else "undone"
        paths = map(shown_name, turned.paths)
        text = "\n".join((f"{did} by the person, what {turned.step.tool} had changed:", *paths))
        news.append(await pipeline.admit(text, Source("undo", Origin.WORKSPACE, turned.step.call)))
    for job in current.jobs.news():
        end = job.text if len(job.text) <= _TOLD else f"[…]\n{job.text[-_TOLD:]}"
        detail = job.ending.detail if job.ending is not None else ""
        source = Source("job", job.output.origin, job.id)
        news.append(await pipeline.admit(f"{job.describe()}: {detail}\n{end}".rstrip(), source))
    return "\n\n".join(news)


def job_lines(*jobs: Job) -> Iterator[str]:
    """Yield a job on one line: its id, how far it has come, and its command."""
    for job in jobs:
        ending = job.ending
        detail = ""
        if ending is not None and ending.state is not JobState.STOPPED:
            detail = f": {visible(ending.detail)}"
        line = f"{job.describe()}{detail} · {visible(job.command)}"
        yield line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


# Of what is kept of all states together, of all sessions, as a multiple of what is of one.
_STATES = 8


def states_of(config: Config, database: Database, clock: Clock) -> CheckpointStore:
    """Return where the states that changes can be taken back to are kept."""
    return CheckpointStore(database, clock, _STATES * config.tools.shell.checkpoint_bytes)


def checkpoints_of(
    config: Config,
    policy: Policy,
    store: CheckpointStore,
    record: ChangeRecord,
    alert: Callable[[str], None],
) -> Checkpoints | None:
    """Return what keeps the changes of whatever session is the current one, if that is wanted."""
    shell = config.tools.shell
    if not shell.checkpoints:
        return None
    limits = SnapshotLimits(shell.checkpoint_bytes)
    return Checkpoints(store, Guard(policy), limits, record.session, alert, record)


def keeping_of(config: Config, policy: Policy, store: CheckpointStore, database: Database) -> Keeping:
    """Return what keeps changes of trial runs; what one that was killed left has to be finished first."""
    budget = config.tools.shell.checkpoint_bytes
    return Keeping(
        store, Guard(policy, keeps_git=True), budget, database.path.with_name(database.path.name + JOURNALS)
    )


@dataclass(frozen=True, slots=True)
class CheckpointNotice:
    """Puts questions together with what of their call could not be undone."""

    approver: Approver
    checkpoints: Checkpoints | None

    async def ask(self, question: Question) -> Reply:
        """Return the answer."""
        if self.checkpoints is None:
            return await self.approver.ask(question)
        known = {one.action.call.id: one for one in [await self._noted(one) for one in question.beside()]}

        def beside() -> Sequence[Question]:
            # A question that came since then is about a call that runs beside this one: it changes nothing.
            now = [known.get(one.action.call.id, one) for one in question.beside()]
            return [one for one in now if one.action.call.id in known or not is_changing(one.action)]

        return await self.approver.ask(replace(await self._noted(question), beside=beside))

    async def _noted(self, question: Question) -> Question:
        assert self.checkpoints is not None
        return replace(question, uncovered=await self.checkpoints.uncovered(question.action))
