"""Handlers of /jobs, /mcp, /memory, /undo, /redo, /diff and /export.

A step of the workspace and how it is restored is defined in `tools/checkpoints/checkpoints.py`; here it is
put on record first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.memory.checkpoints import Revision, Step
from leeward.memory.notes import NoteNotFound
from leeward.memory.private_file import write_new
from leeward.security.ports import RecordError
from leeward.security.session import Restored
from leeward.security.text import visible
from leeward.tools.checkpoints import Checkpoints, Conflict, NothingToUndo, Turned
from leeward.tools.files import shown_name
from leeward.tools.shell import JobState

from ..describe import note_line, note_lines, tool_line
from ..exits import CliError, Exit
from ..sessions import difference, export_lines, job_lines, own_record, page_lines, session_record

if TYPE_CHECKING:
    from ..app import RuntimeSession

__all__ = [
    "diff_text",
    "export_text",
    "jobs_text",
    "notes_text",
    "redo_text",
    "servers_text",
    "undo_text",
]


_MCP_USAGE = "usage: /mcp [NAME | end NAME]"
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


_SHOWN = 20  # lines


async def export_text(runtime: RuntimeSession, argument: str) -> str:
    """Write the session to a new file: a page, or Markdown where its name ends so.

    Raises:
        CliError: there is nothing to write, or the file exists already or cannot be written.
        RecordError: the session cannot be read.
    """
    kept, workspace = runtime.kept, runtime.pipeline.session.policy.workspace
    name = argument or f"leeward-{runtime.session_id}.html"
    path = Path(workspace) / await trio.Path(name).expanduser()
    record = await session_record(kept, await own_record(kept.catalog, runtime.session_id))
    one = record.conversation
    is_page = path.suffix != ".md"
    lines = page_lines(record) if is_page else export_lines(one, record.entries, record.charges)
    try:
        await trio.to_thread.run_sync(write_new, path, "".join(f"{line}\n" for line in lines))
    except FileExistsError:
        why = f"{name} is there already; name another file: /export FILE"
        raise CliError(Exit.ARG_ERROR, "EXISTS", why) from None
    except OSError as error:
        why = f"{name} could not be written: {error.strerror}"
        raise CliError(Exit.GENERAL_ERROR, "FAILED", why) from error
    return f"written to {visible(str(path))}"


async def jobs_text(runtime: RuntimeSession, argument: str) -> str:
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


_USAGE = "usage: /memory [ID | delete ID | everywhere ID]"
_NOTES = 1000


async def notes_text(runtime: RuntimeSession, argument: str) -> str:
    """List the notes of this workspace, show one, delete it, or let it hold everywhere.

    Raises:
        CliError: there is no such note, or nothing of that is meant.
    """
    workspace, notes = runtime.pipeline.session.policy.workspace, runtime.notes
    word, _, name = argument.partition(" ")
    if not argument:
        lines = [note_line(note) for note in await notes.newest(workspace, _NOTES)]
        return "\n".join(lines) or "there are no notes here"
    try:
        note = await notes.get(workspace, name.strip() or word)
    except NoteNotFound as error:
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", f"{error}; /memory lists them") from error
    match word if name else "":
        case "":
            return "\n".join(note_lines(note))
        case "delete":
            await notes.delete(note.id)
            return f"deleted: {note_line(note)}"
        case "everywhere":
            await notes.widen(note.id)
            return f"holds in every workspace now: {note_line(note)}"
    raise CliError(Exit.ARG_ERROR, "USAGE", _USAGE)


async def servers_text(runtime: RuntimeSession, argument: str) -> str:
    """Show the servers, or one of them with its tools; end one, which the next call starts again.

    Raises:
        CliError: there is no such server, or nothing of that is meant.
    """
    servers, words = runtime.servers, argument.split()
    if not words:
        lines = [
            visible(f"{name}: {server.state} · {server.settings.endpoint}")
            for name, server in servers.servers.items()
        ]
        lines += [
            visible(f"{name}: not allowed · {one.endpoint} ({servers.names.allowing(name)} allows it)")
            for name, one in servers.names.waiting.items()
        ]
        return "\n".join(lines) or "there are no servers; leeward mcp add NAME -- COMMAND adds one"
    server = servers.servers.get(words[-1])
    if server is None:
        why = f"there is no server {words[-1]}; /mcp lists them"
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", why)
    if words[:-1] == ["end"]:
        server.close()
        return f"{words[-1]} is ended; the next call of a tool of it starts it again"
    if len(words) > 1:
        raise CliError(Exit.ARG_ERROR, "USAGE", _MCP_USAGE)
    session, source = runtime.pipeline.session, server.settings.source
    specs = [spec for spec in runtime.tools.specs() if spec.source == source]
    heads = [visible(f"{words[0]}: {server.state} · {server.settings.endpoint}")]
    return "\n".join([*heads, *(tool_line(spec, session) for spec in specs)])
