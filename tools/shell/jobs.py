"""Background commands of a session, and the tools `job_output` and `job_stop`.

A background command was judged and runs like any other (`shell.py`); only its end is not waited for. It is
bounded in time, ended with its session, and its output is screened as it comes (`security/output.py`).
Messages name a job by its id alone, for its command is the model's own text.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import field
from enum import StrEnum
from typing import Annotated, TypeAlias

import trio
from pydantic import Field

from leeward.security.call import Action, Cleared, ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure, ResourceNotFound, ToolError
from leeward.security.output import BackgroundOutput
from leeward.security.ports import RecordError
from leeward.security.session import JobChanged
from leeward.security.text import redact_text

from ..declare import ResourceId, tool
from ..process import OnChunk

__all__ = ["Ending", "Job", "JobState", "Jobs"]

_ENDING_SECONDS = 10.0
_LONGEST_WAIT = 25
_MOST_REMEMBERED = 50
_LONGEST_DETAIL = 500


class JobState(StrEnum):
    """How far a job has come. `FAILED`: it did not run to an end of its own."""

    RUNNING = "running"
    ENDED = "ended"
    STOPPED = "stopped"
    TIMEOUT = "timeout"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job came to its end, with what there is to say of it in our words."""

    state: JobState
    detail: str
    exit_code: int | None = None
    notices: tuple[str, ...] = ()


Run: TypeAlias = Callable[[float, OnChunk], Awaitable[Ending]]
"""Runs a command until a deadline on trio's clock, and hands its output on as it comes."""


@dataclass(slots=True, eq=False)
class Job:
    """One background command. Times are on trio's clock; `command` is for the person's eyes.

    `ending` is None while it runs, and `text` is then what is shown of its output. `is_reported` is set once
    its end was reported.
    """

    id: str
    call: str
    command: str
    output: BackgroundOutput
    began: float = field(default_factory=trio.current_time)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    over: trio.Event = field(default_factory=trio.Event)
    ending: Ending | None = None
    text: str = ""
    seconds: float = 0.0
    is_reported: bool = False

    @property
    def state(self) -> JobState:
        """How far it has come."""
        return JobState.RUNNING if self.ending is None else self.ending.state

    def describe(self) -> str:
        """Say in one sentence of ours how far it has come; `Ending.detail` may hold what others wrote."""
        if self.ending is None:
            return f"{self.id} has been running for {trio.current_time() - self.began:.0f} s"
        kept = f"; its whole output is kept as {self.output.id}" if self.output.id is not None else ""
        return f"{self.id} is over ({self.ending.state} after {self.seconds:.0f} s){kept}"


async def _nowhere(_: JobChanged) -> None:
    """Keep no record, as where tools are made by themselves."""


@dataclass(slots=True)
class Jobs:
    """The background commands of the current session.

    At most `most` run at once, none for longer than `longest` seconds. `screen` makes what takes the
    output of a job in, `record` puts a change on record, `now` tells the time of day. Until it is opened,
    nothing can be started.
    """

    screen: Callable[[Action], BackgroundOutput] | None = None
    record: Callable[[JobChanged], Awaitable[None]] = _nowhere
    now: Callable[[], float] = lambda: 0.0
    most: int = 4
    longest: float = 3600.0
    _nursery: trio.Nursery | None = None
    _jobs: dict[str, Job] = field(default_factory=dict)
    _begun: int = 0

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Let jobs be started; whatever runs in the end is ended."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    yield
                finally:
                    self._nursery = None
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            # Jobs raise nothing: an error raised here is that of their owner's body, and is passed on.
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from group.exceptions[0].__cause__

    def tools(self) -> list[ToolExecutor]:
        """Return the two tools. Both do no more than what a session's own calls began was cleared for."""
        return [
            tool(effects=Effect.READ, idempotent=True)(self.job_output),
            tool(effects=Effect.READ)(self.job_stop).ordered(),
        ]

    async def job_output(
        self,
        id: ResourceId,  # noqa: A002 — the argument's name in the tool's schema
        wait: Annotated[
            int, Field(ge=0, le=_LONGEST_WAIT, description="seconds to wait for its end, at most")
        ] = 0,
    ) -> Output:
        """Tell how far a background command has come, with its latest output, or all once it is over."""
        job = self.find(id)
        with trio.move_on_after(wait):
            await job.over.wait()
        return _shown(job)

    async def job_stop(
        self,
        id: ResourceId,  # noqa: A002 — the argument's name in the tool's schema
    ) -> Output:
        """End a background command of this session, with all it started, and return what it printed."""
        job = self.find(id)
        await self.stop(job)
        return _shown(job)

    def all(self) -> tuple[Job, ...]:
        """Return the jobs of the session, oldest first."""
        return tuple(self._jobs.values())

    def find(self, id: str) -> Job:  # noqa: A002 — it is called so everywhere
        """Return a job by its id.

        Raises:
            ResourceNotFound: there is none.
        """
        if id in self._jobs:
            return self._jobs[id]
        known = f"are: {', '.join(self._jobs)}" if self._jobs else "is none at all"
        raise ResourceNotFound(f"this session has no background command of that id; there {known}")

    async def start(self, cleared: Cleared, command: str, run: Run) -> Job:
        """Let a cleared command run in the background.

        Raises:
            PermanentFailure: it cannot, or too many do.
        """
        running = [job.id for job in self._jobs.values() if job.ending is None]
        if self._nursery is None or self.screen is None:
            raise PermanentFailure("nothing can run in the background here; run it without `background`")
        if len(running) >= self.most:
            refusal = f"{', '.join(running)} run in the background, and no more than {self.most} may at once"
            raise PermanentFailure(f"{refusal}; wait for one to end, or stop it with job_stop")
        self._begun += 1
        job = Job(f"job_{self._begun}", cleared.action.call.id, command, self.screen(cleared.action))
        self._remember(job)
        self._nursery.start_soon(self._follow, job, run)
        return job

    async def stop(self, job: Job) -> None:
        """End a job, and wait until it has ended."""
        job.scope.cancel()
        await job.over.wait()

    async def end_all(self) -> None:
        """End every job and forget it; nothing of a session survives it."""
        for job in self._jobs.values():
            job.scope.cancel()
        with trio.move_on_after(_ENDING_SECONDS, shield=True):
            for job in self._jobs.values():
                await job.over.wait()
        self._jobs.clear()
        self._begun = 0

    def news(self) -> tuple[Job, ...]:
        """Return the jobs that have ended since the last time this was asked."""
        new = tuple(job for job in self._jobs.values() if job.ending is not None and not job.is_reported)
        for job in new:
            job.is_reported = True
        return new

    def _remember(self, job: Job) -> None:
        self._jobs[job.id] = job
        over = [one.id for one in self._jobs.values() if one.is_reported]
        for name in over[: max(len(self._jobs) - _MOST_REMEMBERED, 0)]:
            del self._jobs[name]

    async def _follow(self, job: Job, run: Run) -> None:
        ending = Ending(JobState.STOPPED, "it was stopped")
        try:
            with job.scope:
                await self.record(self._change(job, JobState.RUNNING))
                ending = await run(trio.current_time() + self.longest, job.output.emit)
        except (ToolError, RecordError, OSError) as error:
            ending = Ending(JobState.FAILED, str(error))
        finally:
            with trio.move_on_after(_ENDING_SECONDS, shield=True):
                await self._end(job, ending)

    async def _end(self, job: Job, ending: Ending) -> None:
        job.seconds = trio.current_time() - job.began
        try:
            screened = await job.output.finish()
            job.text = screened.text
            notices = (*ending.notices, *screened.notices)
            job.ending = Ending(ending.state, ending.detail, ending.exit_code, notices)
            await self.record(self._change(job, ending.state))
        finally:
            job.ending = job.ending or ending
            job.over.set()

    def _change(self, job: Job, state: JobState) -> JobChanged:
        ending = job.ending
        return JobChanged(
            self.now(),
            job.call,
            job.id,
            state.value,
            exit_code=None if ending is None else ending.exit_code,
            seconds=round(job.seconds, 3),
            size=job.output.chars,
            overflow=job.output.id,
            detail="" if ending is None else redact_text(ending.detail)[:_LONGEST_DETAIL],
        )


def _shown(job: Job) -> Output:
    """Return what there is to see of a job; whose words it is, is as it was when it began."""
    if job.ending is None:
        return Output(job.output.latest, job.output.origin, notices=(f"{job.describe()}; this came last",))
    job.is_reported = True
    notices, facts = (job.describe(), *job.ending.notices), (("how it ended", job.ending.detail),)
    code = job.ending.exit_code
    return Output(job.text, job.output.origin, exit_code=code, notices=notices, facts=facts)
