"""Wrong: binds the workspace itself instead of an overlay, and calls an empty folder what was written."""

import os
import tempfile

from leeward.tools.sandbox import Ran, TrialRan, Upper


async def tried(sandbox, trial, program, confinement, masks, notices=(), serve=None):
    starter = sandbox._bubblewrapped(confinement, masks, program.cwd, await sandbox._supervisors.get())
    finished = await program.run(starter)
    with tempfile.TemporaryDirectory() as empty:
        handle = os.open(empty, os.O_RDONLY)
    return TrialRan(Ran(finished), Upper(handle, trial.next_tick(), trial._lower))
