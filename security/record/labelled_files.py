"""Count what labelled files hold as read, before a call that may read them is judged.

The port `Files` knows which files hold words of others or confidential text, from this session and earlier
ones. A call that may read such a file is judged as if it had read it already: the label of the file is added
to those of the session, is recorded, and applies to the call's result.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ..call import Action, Asker, ToolResult
from ..lazy import dataclass
from ..ports import Files, RecordError
from ..session import FilesEndorsed, TextSeen
from ..trust import Origin
from .journal import Journal

__all__ = ["LabelledFiles"]

_OTHERS = frozenset({Origin.WEB, Origin.MCP})


@dataclass(frozen=True, slots=True)
class LabelledFiles:
    """The labelled files, as one session reads them; without `files` no file has a label."""

    journal: Journal
    files: Files | None

    async def with_labels(self, action: Action) -> Action:
        """Return an Action with the labels of the files it may read; from now on the session has them too.

        Raises:
            RecordError: what is known of them could not be read, so the call must not run.
        """
        if self.files is None:
            return action
        session = self.journal.session
        found = await self.files.read_by(action, session)
        new = tuple(sorted(found.labels - session.labels))
        if new:
            whose = next((label for label in new if label in _OTHERS), None)
            source = found.source if whose else ""
            self.journal.defer(TextSeen(session.now, new, origin=whose, source=source))
        return replace(action, file_labels=found.labels)

    async def endorse_commit(self, action: Action, result: ToolResult) -> None:
        """Count the files that the person has committed, by a command line they typed, as their own words."""
        is_done = result.error is None and not result.outcome.exit_code
        if self.files is None or action.call.asker is not Asker.PERSON or not is_done:
            return
        session = self.journal.session
        with suppress(RecordError):
            if paths := await self.files.committed(action, session.policy):
                await self.journal.note(FilesEndorsed(session.now, paths, "the person's commit"))
