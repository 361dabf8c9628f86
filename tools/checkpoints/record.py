"""Record, before a model's call runs, that it may change the workspace, and afterwards what it changed.

What a person does by a line they type, by `/undo` or in their editor is theirs and is not written down here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import field

from leeward.memory.changes import ANYTHING, CallChanges
from leeward.security.call import Action, Asker
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.ports import RecordError

__all__ = ["ChangeRecord", "is_changing"]


def is_changing(action: Action) -> bool:
    """Whether a call may change something in the workspace."""
    return bool(action.effects & (Effect.CREATE | Effect.WRITE | Effect.EXECUTE))


@dataclass(slots=True)
class ChangeRecord:
    """What the calls of the session that `session` names change in a workspace."""

    changes: CallChanges
    workspace: str
    session: Callable[[], str]
    _begun: dict[str, str] = field(default_factory=dict)
    """By call: the session it was begun in."""

    async def begin(self, action: Action) -> None:
        """Write down that a call may change anything from now on.

        Raises:
            PermanentFailure: it could not be, so the call must not run.
        """
        if action.call.asker is Asker.PERSON or not is_changing(action):
            return
        session = self._begun[action.call.id] = self.session()
        try:
            await self.changes.begin(session, self.workspace, action.call.id)
        except RecordError as error:
            self.end(action.call.id, ())
            raise PermanentFailure(f"its possible changes could not be recorded: {error}") from error
        except BaseException:
            # What was cancelled in the middle is written all the same, and the call does not begin.
            self.end(action.call.id, ())
            raise

    def end(self, call: str, paths: Iterable[str] = (ANYTHING,)) -> None:
        """Write down what a call changed; where that cannot be, it stays one that may change anything."""
        session = self._begun.pop(call, None)
        if session is not None:
            with suppress(RecordError):
                self.changes.end(session, self.workspace, call, paths)

    @asynccontextmanager
    async def around(self, action: Action) -> AsyncGenerator[Callable[[Output], None], None]:
        """Write down that a call may have changed anything, where nobody looks at what it did.

        Raises:
            PermanentFailure: it could not be written down, so the call must not begin.
        """
        await self.begin(action)
        goes_on = False

        def came(output: Output) -> None:
            nonlocal goes_on
            goes_on = output.goes_on

        try:
            yield came
        finally:
            if not goes_on:
                self.end(action.call.id)
