"""What goes on in the background of a session, and who hears of its end? Told at each turn.

What a job is stands in `tools/jobs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from leeward.memory.overflow import OverflowStore
from leeward.security.call import Action
from leeward.security.filters import Source
from leeward.security.lasting import Lasting
from leeward.security.pipeline import Pipeline
from leeward.security.ports import Clock
from leeward.security.session import JobChanged
from leeward.security.text import visible
from leeward.security.trust import Origin
from leeward.tools.files import shown_name
from leeward.tools.shell import Job, Jobs, JobState

from ..config import Config
from ..events import Alert, RunEvent
from .current import Current

__all__ = ["job_lines", "jobs_of", "news_of"]

# Of an output, what goes along with the next turn (characters); job_output has all of it.
_TOLD = 2_000
_WIDTH = 140


def jobs_of(config: Config, current: Current, overflow: OverflowStore, clock: Clock) -> Jobs:
    """Return the background commands of whatever session is the current one."""

    def screen(action: Action) -> Lasting:
        return Lasting(action, current.session(), overflow)

    async def record(change: JobChanged) -> None:
        if change.state != JobState.RUNNING and current.checkpoints is not None:
            await current.checkpoints.job_ended(change.call)
        await current.pipeline.note(change)

    shell = config.tools.shell
    return Jobs(screen, record, clock.now, shell.max_jobs, shell.longest_job)


async def news_of(current: Current, pipeline: Pipeline, emit: Callable[[RunEvent], None]) -> str:
    """Tell the person which jobs are over; return what the model is told of them and of undoing, fenced."""
    told = []
    for turned in current.checkpoints.take_turned() if current.checkpoints is not None else ():
        did = "done again" if turned.step.undone else "undone"
        paths = map(shown_name, turned.paths)
        text = "\n".join((f"{did} by the person, what {turned.step.tool} had changed:", *paths))
        told.append(await pipeline.admit(text, Source("undo", Origin.WORKSPACE, turned.step.call)))
    for job in current.jobs.news():
        emit(Alert("".join(job_lines(job))))
        end = job.text if len(job.text) <= _TOLD else f"[…]\n{job.text[-_TOLD:]}"
        detail = job.ending.detail if job.ending is not None else ""
        source = Source("job", job.output.origin, job.id)
        told.append(await pipeline.admit(f"{job.told()}: {detail}\n{end}".rstrip(), source))
    return "\n\n".join(told)


def job_lines(*jobs: Job) -> Iterator[str]:
    """Yield a job on one line: its id, how far it has come, and its command."""
    for job in jobs:
        ending = job.ending
        detail = ""
        if ending is not None and ending.state is not JobState.STOPPED:
            detail = f": {visible(ending.detail)}"
        line = f"{job.told()}{detail} · {visible(job.command)}"
        yield line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
