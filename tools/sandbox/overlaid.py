"""Run an allowed program for real, but hold its writes to the workspace back until it has ended.

They are found and applied like those of a trial run (`trial.py`). The upper layer is on a disk if they may
not fit into memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from leeward.security.outcome import PermanentFailure

from ..process import ProcessExit, Serve, room_on_disk
from .result import overlay_hints_of
from .sandbox import Sandbox, Watch, notices_of, run_tried, tried_small, watched, without_git
from .trial import Trial, TrialRan, TrialUnavailable, open_trial

if TYPE_CHECKING:
    from .program import Program

__all__ = ["disk_for", "run_overlaid"]


@asynccontextmanager
async def run_overlaid(
    sandbox: Sandbox, program: Program, *, disk: int = 0, serve: Serve | None = None
) -> AsyncIterator[TrialRan]:
    """Run a program that is allowed to run for real, and yield it with what it wrote to the workspace.

    It has what the configuration gives to commands, but the workspace is as it was until that is applied;
    what it wrote there is discarded as in a trial. So nothing has to be looked for there afterwards.

    Raises:
        TrialUnavailable: there is no overlay to run it on.
        PermanentFailure: it could not be started.
        PolicyBlocked: what must not be reached cannot be kept from it.
    """
    if problem := await sandbox.no_trial_because():
        raise TrialUnavailable(problem)
    confinement = sandbox.confinement
    async with open_trial(confinement.workspace, sandbox._settings.bounds(disk)) as trial:
        if confinement.changes_workspace_only:
            async with sandbox._looking:
                before = await trio.to_thread.run_sync(sandbox.look)
                watch = Watch(before, sandbox._masks(before, confinement.kept, lasting=False))
            tried = await _followed(sandbox, trial, program, watch, serve)
        else:
            async with watched(sandbox, lasting=False) as watch:
                tried = await _followed(sandbox, trial, program, watch, serve)
                watch.finished = tried.ran.finished
        yield replace(tried, ran=replace(tried.ran, blocked=watch.blocked))


async def _followed(
    sandbox: Sandbox, trial: Trial, program: Program, watch: Watch, serve: Serve | None
) -> TrialRan:
    """Run a program that runs for real over an overlay, and return it with what it wrote."""
    masks = without_git(watch.masks)

    def notices(finished: ProcessExit) -> tuple[str, ...]:
        hints = overlay_hints_of(finished.output) if finished.exit_code != 0 else ()
        return (*notices_of(sandbox, watch.before, finished), *hints)

    return await run_tried(sandbox, trial, program, sandbox.confinement, masks, notices, serve)


async def disk_for(sandbox: Sandbox) -> int:
    """Return how many bytes a run may write to a disk, where that is more than to memory; else 0.

    Whether that works here is found by a real run.
    """
    settings, workspace = sandbox._settings, sandbox.confinement.workspace
    room = await trio.to_thread.run_sync(room_on_disk, settings.on_disk, workspace)
    if room <= settings.upper.size:
        return 0
    try:
        async with tried_small(sandbox, settings.bounds(room), workspace, ":") as ran:
            return room if ran.upper is not None and ran.ran.finished.exit_code == 0 else 0
    except (TrialUnavailable, PermanentFailure):
        return 0
