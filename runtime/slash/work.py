"""Slash commands about the work: pages, the next message, the model's tasks, jobs and notes.

`/plan` is in `rights.py`, since it changes what may be done; `/skill` is in `skills.py`, and `/undo`, `/redo`
and `/diff` are in `undo.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.memory.notes import NoteNotFound
from leeward.security.call import Asker, Status, ToolResult
from leeward.security.session import UrlsRemoved
from leeward.security.text import visible
from leeward.security.url import Provenance, Url, parse_place
from leeward.tools.shell import JobState

from ..describe import known_lines, note_line, note_lines
from ..exits import CliError, Exit
from ..sessions import job_lines
from .result import Misused, SlashResult

if TYPE_CHECKING:
    from ..app import RuntimeSession

__all__ = ["browse", "edit_message", "jobs_text", "notes_text", "show_todo", "write_instructions"]

_FIRST_INSTRUCTIONS = (
    "Look at this workspace: what it is, how it is laid out, built, tested and checked. Then write "
    "AGENTS.md, or improve the one that is there, for the next assistant: commands, conventions, and what to "
    "take care of. At most 60 lines, and nothing that you did not see here."
)
_NOTES_USAGE = "usage: /memory [ID | delete ID | everywhere ID]"
_MOST_NOTES = 1000
_SHOWN = 20  # lines of a job's output


async def browse(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Open a page, and ask about it if there is a question; list known URLs, or forget one."""
    url, _, question = argument.partition(" ")
    if not url:
        return SlashResult("\n".join(known_lines(runtime.pipeline.session)))
    if url == "--forget":
        return await _forget(runtime, question.strip())
    # A bare host that is typed here means a web address, whatever else such a word could be.
    target = url if "://" in url else f"https://{url}"
    await runtime.give(target, Provenance.SLASH)
    return answer_of(await runtime.call("fetch", {"url": target}, Asker.PERSON), question)


def answer_of(result: ToolResult, question: str) -> SlashResult:
    """Return what /browse answers when its call has ended so."""
    if result.outcome.status is not Status.OK:
        return SlashResult(result.shown, failed=True, came_in=True)
    if question.strip():
        return SlashResult(turn=(question.strip(), result.text))
    return SlashResult(result.shown, came_in=True)


async def _forget(runtime: RuntimeSession, text: str) -> SlashResult:
    """Withdraw one URL or address; if another known one still covers it, the answer names that."""
    known = parse_place(text) or parse_place(f"https://{text}")
    if known is None or not text:
        raise Misused
    session = runtime.pipeline.session
    await runtime.pipeline.note(UrlsRemoved.of(session.now, (known,)))
    left = runtime.pipeline.session.ledger.lookup(known).source if isinstance(known, Url) else None
    still = f"; {visible(left.text)} still covers it" if left is not None else ""
    return SlashResult(f"forgotten: {visible(known.text)}{still}")


async def edit_message(_runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Have the next message written in an editor, where there is a terminal."""
    return SlashResult("an editor can only be opened at a terminal", failed=True, edits=True)


async def write_instructions(_runtime: RuntimeSession, argument: str) -> SlashResult:
    """Have the model write `AGENTS.md`, or improve it."""
    return SlashResult(turn=("\n\n".join(filter(None, (_FIRST_INSTRUCTIONS, argument))), ""))


async def show_todo(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """List the model's tasks."""
    return SlashResult("\n".join(map(visible, runtime.todo.lines())) or "the model has no task list")


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


async def notes_text(runtime: RuntimeSession, argument: str) -> str:
    """List the notes of this workspace, show one, delete it, or let it hold everywhere.

    Raises:
        CliError: there is no such note, or nothing of that is meant.
    """
    workspace, notes = runtime.pipeline.session.policy.workspace, runtime.notes
    word, _, name = argument.partition(" ")
    if not argument:
        lines = [note_line(note) for note in await notes.newest(workspace, _MOST_NOTES)]
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
    raise CliError(Exit.ARG_ERROR, "USAGE", _NOTES_USAGE)
