"""Count what labelled files hold as read, before a call that may read them is judged.

Which files hold words of others, or what is confidential, the port `Files` knows, in this session and in
earlier ones. A call that may read such a file is judged as if it had been read already: its label joins
those of the session, on record, and what the call brings has it, too.
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

    async def read_by(self, action: Action) -> Action:
        """Return a call with the labels of the files it may read, which are the session's from here on.

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
            self.journal.owe(TextSeen(session.now, new, origin=whose, source=source))
        return replace(action, words=found.labels)

    async def endorsed(self, action: Action, result: ToolResult) -> ToolResult:
        """Return a result, once what the person committed by a line they typed is theirs."""
        is_done = result.error is None and not result.outcome.exit_code
        if self.files is None or action.call.asker is not Asker.PERSON or not is_done:
            return result
        session = self.journal.session
        with suppress(RecordError):
            if paths := await self.files.committed(action, session.policy):
                await self.journal.note(FilesEndorsed(session.now, paths, "the person's commit"))
        return result
