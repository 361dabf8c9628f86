"""Run a program that can change nothing, and report what it tried to write.

Under bubblewrap the workspace is mounted read-only, at its own path. Without bubblewrap, Landlock grants no
right to write, and a seccomp filter denies what Landlock cannot restrict. In both cases there is no network,
and secret files are hidden. Attempted writes are noticed by their system calls (`wishes.py`); without
bubblewrap some are missed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure
from leeward.security.paths import is_inside
from leeward.security.sandbox import Confinement, Masks, SandboxLevel, Spot, read_only_confinement

from ..process import ProcessExit, Starter, quiet_environment
from .landlock import variables_of
from .quarantine import remove_whole
from .result import Ran, reading_hints_of
from .sandbox import (
    Sandbox,
    look_as_reader,
    made_scratch,
    reading_starter,
)
from .trial import TrialUnavailable
from .wishes import Wishes

if TYPE_CHECKING:
    from .program import Program

__all__ = ["ReadOnlyRan", "confined", "run_read_only"]

_LONGEST_LOOK = 2.0
_TOO_LARGE = "the workspace is too large to scan: secret files deep in it were readable by the command"


@dataclass(frozen=True, slots=True)
class ReadOnlyRan:
    """A program that ran read-only, and the paths in the workspace that it wished to change.

    `is_cut` tells that it may have wished for more, `is_unsure` that changes of modes, times and attributes
    were refused unnoticed.
    """

    ran: Ran
    wishes: tuple[str, ...] = ()
    is_cut: bool = False
    is_unsure: bool = False


async def run_read_only(sandbox: Sandbox, program: Program, closed: Sequence[str] = ()) -> ReadOnlyRan:
    """Run a program to its end; `closed` are folders that it cannot read besides what is secret.

    Raises:
        TrialUnavailable: it cannot be run read-only here.
        PermanentFailure: it could not be started.
        PolicyBlocked: what must not be reached cannot be kept from it.
    """
    confinement = read_only_confinement(sandbox.confinement)
    # Looked at while another's leavings are undone, those would be what is there.
    async with sandbox._looking:
        before = await trio.to_thread.run_sync(look_as_reader, sandbox, confinement)
    before.secrets += (Spot(path, is_folder=True) for path in closed)
    notices = () if before.is_whole else (_TOO_LARGE,)
    return await confined(sandbox, program, confinement, before.masks(), notices)


async def confined(
    sandbox: Sandbox, program: Program, confinement: Confinement, masks: Masks, notices: tuple[str, ...] = ()
) -> ReadOnlyRan:
    """Run a program read-only in a confinement, and listen to what it wishes to change."""
    wishes = Wishes.of(confinement.workspace, _launcher(sandbox))
    if wishes is None:
        raise TrialUnavailable("the machine's system calls are not known")
    with closing(wishes):
        finished = await _heard(sandbox, program, confinement, masks, wishes)
    hints = reading_hints_of(finished.output) if finished.exit_code != 0 else ()
    is_unsure = sandbox.level is not SandboxLevel.BUBBLEWRAP
    return ReadOnlyRan(Ran(finished, (), (*notices, *hints)), tuple(wishes.paths), wishes.is_cut, is_unsure)


def _launcher(sandbox: Sandbox) -> str:
    """Return the program that programs are started by, "" where there is none."""
    return os.path.realpath(sandbox._program) if sandbox._program else ""


def _scratch(sandbox: Sandbox) -> str:
    """Return a folder for the temporary files of one program, "" where it has its own in memory.

    Nothing in it is seen by any program that may change something.
    """
    within = sandbox._late.reading_scratch
    return made_scratch(sandbox.confinement, within) if within else ""


async def _heard(
    sandbox: Sandbox, program: Program, confinement: Confinement, masks: Masks, wishes: Wishes
) -> ProcessExit:
    starter = await reading_starter(sandbox, confinement, masks, program.cwd, wishes.listener)
    scratch = await trio.to_thread.run_sync(_scratch, sandbox)
    if scratch and is_inside(scratch, confinement.workspace):
        raise TrialUnavailable("temporary files would lie in the workspace")
    own = variables_of(scratch)
    quiet = quiet_environment(program.env, *filter(None, (own.get("TMPDIR"),)))
    program = replace(program, env={**quiet, **own})
    try:
        return await _listened_to(program, starter, wishes)
    except PermanentFailure as error:
        if wishes.listener.problem:
            raise TrialUnavailable(wishes.listener.problem) from error
        raise
    finally:
        if scratch:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(remove_whole, scratch)


async def _listened_to(program: Program, starter: Starter, wishes: Wishes) -> ProcessExit:
    """Run a program while a thread answers its calls; it is waited for, but not for long."""
    finished: ProcessExit | None = None
    failure: PermanentFailure | None = None
    listen = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, wishes.listen)
        try:
            finished = await program.run(starter)
        except PermanentFailure as error:
            # Out of here it would come in a group with nothing else.
            failure = error
        finally:
            wishes.close()
            # Nothing is left to be answered, and what it looks at may not answer it.
            nursery.cancel_scope.deadline = trio.current_time() + _LONGEST_LOOK
    if finished is None:
        raise failure or PermanentFailure("the program could not be started")
    return finished
