"""What becomes of the output of something that goes on when its call is over?

The same as of a call's own (`live.py`): screened a piece at a time, and stored once it is long. Its latest
lines can be had at any time, its whole when it is over; both are a tool's output then, and pass the
filters like any other.
"""

from __future__ import annotations

from collections import deque

from .brought import Output
from .call import Action
from .filters import Screened
from .live import Live
from .output import source_of
from .ports import OverflowStore
from .session import Session
from .trust import Origin

__all__ = ["Lasting"]

_LATEST = 16 * 1024
"""Characters of what came last that are held."""


class Lasting:
    """The output of one such thing; `origin` is whose words it is, `chars` how much there was by now."""

    def __init__(self, action: Action, session: Session, store: OverflowStore) -> None:
        source = source_of(action, Output(""), session)
        self.origin: Origin = source.origin
        self.chars = 0
        self._live = Live(action, source, self, store, session.id)
        self._latest: deque[str] = deque()
        self._held = 0

    @property
    def id(self) -> str | None:
        """Where the whole is kept, once it is over and if it was long."""
        return self._live.id

    @property
    def latest(self) -> str:
        """What came last, screened."""
        text = "".join(self._latest)[-_LATEST:]
        return text if self.chars <= _LATEST else text.partition("\n")[2] or text

    async def emit(self, chunk: str) -> None:
        """Take a piece in."""
        await self._live.emit(chunk)

    async def finish(self) -> Screened:
        """Take nothing more, and return what is to be shown of all there was."""
        with self._live:
            await self._live.close()
            return await self._live.finish(self.origin)

    def live(self, _call: str, chunk: str) -> None:
        """Hear what is certain of a piece by now."""
        self.chars += len(chunk)
        self._latest.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._latest[0]) >= _LATEST:
            self._held -= len(self._latest.popleft())

    def alert(self, _message: str) -> None:
        """Nothing is told here that the person must see."""
