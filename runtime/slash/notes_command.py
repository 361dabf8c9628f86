"""What does `/memory` say and do? Notes that sessions leave to later ones, as the person sees them."""

from __future__ import annotations

from leeward.memory.notes import NoteNotFound

from ..app import Runtime
from ..describe import note_line, note_lines
from ..exits import CliError, Exit

__all__ = ["notes_told"]

_USAGE = "usage: /memory [ID | delete ID | everywhere ID]"
_NOTES = 1000


async def notes_told(runtime: Runtime, argument: str) -> str:
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
