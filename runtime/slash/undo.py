"""Slash commands that take back what calls changed, do it again, or show it: /undo, /redo and /diff.

A step of the workspace and how it is restored is defined in `tools/checkpoints/checkpoints.py`; here it is
put on record first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from leeward.memory.checkpoints import Revision, Step
from leeward.security.ports import RecordError
from leeward.security.session import Restored
from leeward.security.text import visible
from leeward.tools.checkpoints import Checkpoints, Conflict, NothingToUndo, Turned
from leeward.tools.files import shown_name

from ..exits import CliError, Exit
from ..sessions import difference

if TYPE_CHECKING:
    from ..app import RuntimeSession

__all__ = ["diff_text", "redo_text", "undo_text"]

_OFF = "checkpoints are off: see [tools.shell] checkpoints"
_MOST_LINES = 400


async def undo_text(runtime: RuntimeSession, argument: str) -> str:
    """Take back what the last call changed that is not taken back; say what was put back.

    Raises:
        CliError: nothing can be taken back, or somebody else changed some of it since.
        RecordError, ToolError: it cannot be put on record, or the workspace cannot be looked at.
    """
    return await _turned(runtime, argument, undo=True)


async def redo_text(runtime: RuntimeSession, argument: str) -> str:
    """Do again what was taken back last.

    Raises:
        CliError, RecordError, ToolError: as `undo_text`.
    """
    return await _turned(runtime, argument, undo=False)


async def diff_text(runtime: RuntimeSession, argument: str) -> str:
    """Show what the last call changed, or with "all" every call of the session.

    Raises:
        CliError: there is nothing, or nothing of that is meant.
        RecordError: it cannot be read.
    """
    if argument not in {"", "all"}:
        raise CliError(Exit.ARG_ERROR, "USAGE", "usage: /diff [all]")
    points = _points(runtime)
    steps = [step for step in await points.steps() if not step.undone]
    running = _running(runtime)
    if not steps:
        what = "no call has changed anything that could be undone"
        raise CliError(Exit.NOT_FOUND, "NOTHING", "\n".join([what, *running]))
    changes: dict[bytes, Revision] = {}
    for step in steps if argument else steps[-1:]:
        for one in await points.store.revisions(step.id):
            first = changes.get(one.path, one)
            changes[one.path] = Revision(one.path, first.before, one.after)
    lines = [line for path in sorted(changes) for line in await difference(points.store, changes[path])]
    rest = [f"… {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    head = f"{len(steps)} calls" if argument else _named(steps[-1])
    return "\n".join([f"{head}: {_count(len(changes))} changed", *lines[:_MOST_LINES], *rest, *running])


async def _turned(runtime: RuntimeSession, argument: str, *, undo: bool) -> str:
    word = "undo" if undo else "redo"
    if argument not in {"", "force"}:
        raise CliError(Exit.ARG_ERROR, "USAGE", f"usage: /{word} [force]")
    record = partial(_record, runtime, word, argument == "force")
    try:
        turned = await _points(runtime).turn(undo=undo, force=argument == "force", record=record)
    except NothingToUndo:
        what = "nothing is left to undo" if undo else "nothing was undone that could be done again"
        raise CliError(Exit.NOT_FOUND, "NOTHING", "\n".join([what, *_running(runtime)])) from None
    except Conflict as error:
        why = f"{error}; nothing was touched. /{word} force does it all the same"
        raise CliError(Exit.GENERAL_ERROR, "CONFLICT", why) from error
    except (OSError, RecordError) as error:
        raise CliError(Exit.GENERAL_ERROR, "FAILED", f"/{word} failed: {error}") from error
    await runtime.pipeline.note(_event(runtime, word, turned, forced=argument == "force"))
    return "\n".join(_lines(turned, word))


def _running(runtime: RuntimeSession) -> list[str]:
    """Say of each background command that runs that what it changes is no step yet."""
    return [
        f"{job.id} still runs: what it changes is shown and undone once it has ended (/jobs stop {job.id})"
        for job in runtime.jobs.all()
        if not job.over.is_set()
    ]


async def _record(runtime: RuntimeSession, word: str, forced: bool, step: Step, paths: int) -> None:
    """Put on record what is about to be done; where that cannot be, nothing is."""
    now = runtime.pipeline.session.now
    event = Restored(now, step.call, step.id, word, paths, forced=forced)
    await runtime.audit.append(runtime.session_id, event)


def _event(runtime: RuntimeSession, word: str, turned: Turned, *, forced: bool) -> Restored:
    now, step, count = runtime.pipeline.session.now, turned.step, len(turned.paths)
    return Restored(now, step.call, step.id, word, count, done=True, left=len(turned.left), forced=forced)


def _lines(turned: Turned, word: str) -> Iterator[str]:
    done = "undone" if word == "undo" else "done again"
    yield f"{done}: {_named(turned.step)}, {_count(len(turned.paths))}"
    yield from (f"  {shown_name(path)}" for path in turned.paths[:_MOST_LINES])
    yield from (f"  not {shown_name(path)}: {visible(why)}" for path, why in turned.left)


def _points(runtime: RuntimeSession) -> Checkpoints:
    if runtime.checkpoints is None:
        raise CliError(Exit.PRECONDITION, "OFF", _OFF)
    return runtime.checkpoints


def _named(step: Step) -> str:
    return f"{visible(step.tool)} ({visible(step.call[:13])})"


def _count(number: int) -> str:
    return f"{number} path{'s' if number != 1 else ''}"
