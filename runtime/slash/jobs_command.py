"""What does `/jobs` say and do? Commands in the background, as the person sees them."""

from __future__ import annotations

from leeward.security.text import visible
from leeward.tools.shell import JobState

from ..app import Runtime
from ..exits import CliError, Exit
from ..sessions import job_lines

__all__ = ["jobs_told"]

_SHOWN = 20  # lines


async def jobs_told(runtime: Runtime, argument: str) -> str:
    """List all jobs, show one with its latest output, or end one.

    Raises:
        CliError: nothing of that is meant.
        ToolError: there is no such job.
    """
    jobs, words = runtime.jobs, argument.split()
    if words and (len(words) > 2 or (len(words) == 2) != (words[0] == "stop")):
        raise CliError(Exit.ARG_ERROR, "USAGE", "usage: /jobs [ID | stop ID]")
    if not words:
        return "\n".join(job_lines(*jobs.all())) or "nothing runs in the background"
    job = jobs.find(words[-1])
    if words[0] == "stop":
        await jobs.stop(job)
    text = job.output.latest if job.state is JobState.RUNNING else job.text
    return "\n".join([*job_lines(job), *(f"  │ {visible(line)}" for line in text.splitlines()[-_SHOWN:])])
