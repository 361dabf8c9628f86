"""Record, before a model's call runs, that it may change the workspace, and afterwards what it changed.

What may hold words of others, or what is confidential, is labelled in the same step (`memory/labels.py`).

What a person does by a line they type, by `/undo` or in their editor is theirs and is not written down here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field

from leeward.memory.changes import ANYTHING, CallChanges
from leeward.memory.labels import ChangedFile, closed_call, labelled_changes, opened_call
from leeward.security.call import Action, Asker
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.ports import RecordError
from leeward.security.trust import FileWords

__all__ = ["ChangeRecord", "is_changing"]


def is_changing(action: Action) -> bool:
    """Whether a call may change something in the workspace."""
    return bool(action.effects & (Effect.CREATE | Effect.WRITE | Effect.EXECUTE))


@dataclass(frozen=True, slots=True)
class _Begun:
    """A call at work: its session, whose words it could write when it began, and what tells that later."""

    session: str
    at_first: FileWords
    later: Callable[[], FileWords]

    def by_now(self) -> FileWords:
        """Return whose words it may have written; what was forgotten meanwhile counts still."""
        now = self.later()
        return FileWords(now.labels | self.at_first.labels, now.source or self.at_first.source)


@dataclass(slots=True)
class ChangeRecord:
    """What the calls of the session that `session` names change in a workspace."""

    changes: CallChanges
    workspace: str
    session: Callable[[], str]
    _begun: dict[str, _Begun] = field(default_factory=dict)
    """By call: how it was begun."""

    async def begin(self, action: Action, words: Callable[[], FileWords] = FileWords) -> None:
        """Write down that a call may change anything from now on; `words` tells whose words it may write.

        Raises:
            PermanentFailure: it could not be, so the call must not run.
        """
        if action.call.asker is Asker.PERSON or not is_changing(action):
            return
        session, call, now = self.session(), action.call.id, words()
        self._begun[call] = _Begun(session, now, words)
        try:
            opened = opened_call(self.workspace, call, now)
            await self.changes.begin(session, self.workspace, call, *opened)
        except RecordError as error:
            self.end(action.call.id, ())
            raise PermanentFailure(f"its possible changes could not be recorded: {error}") from error
        except BaseException:
            # What was cancelled in the middle is written all the same, and the call does not begin.
            self.end(action.call.id, ())
            raise

    def end(self, call: str, files: Sequence[ChangedFile] = (ChangedFile(ANYTHING),)) -> None:
        """Write down what a call changed; where that cannot be, it stays one that may change anything."""
        begun = self._begun.pop(call, None)
        if begun is None:
            return
        labelled = labelled_changes(self.workspace, begun.by_now(), files)
        with suppress(RecordError):
            over = closed_call(self.workspace, call)
            paths = (one.path for one in files)
            self.changes.end(begun.session, self.workspace, call, paths, *labelled, over)

    @asynccontextmanager
    async def around(
        self, action: Action, words: Callable[[], FileWords] = FileWords
    ) -> AsyncGenerator[Callable[[Output], None], None]:
        """Write down that a call may have changed anything, where nobody looks at what it did.

        Raises:
            PermanentFailure: it could not be written down, so the call must not begin.
        """
        await self.begin(action, words)
        goes_on = False

        def came(output: Output) -> None:
            nonlocal goes_on
            goes_on = output.goes_on

        try:
            yield came
        finally:
            if not goes_on:
                self.end(action.call.id)
