"""What becomes of output while it comes? Screened a piece at a time, shown, and stored once it is long.

However much a tool hands out, held in memory are no more than what is shown of it and a piece. What is
stored has passed the same `strip` and `redact` as everything; `distill.py` says what is shown of it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Self

import trio

from .call import Action
from .filters import Excerpt, Feeder, Screened, Source, redact, strip
from .ports import Observer, OverflowStore, RecordError, Spool
from .record import tell
from .trust import Origin

__all__ = ["Live", "told_kept", "told_lost"]

_PIECE = 64 * 1024


def told_kept(key: str, chars: int, lines: int, dropped: int = 0) -> str:
    """Say where a text is kept, and how much of it is not."""
    size = f"{chars} characters in {lines} lines"
    whole = f"the first {size}, are" if dropped else f"the whole text, {size}, is"
    rest = f"; the other {dropped} characters were dropped" if dropped else ""
    return f"{whole} kept as {key}{rest}; read_overflow reads it by page"


def told_lost(why: object) -> str:
    """Say that a text is not kept."""
    return f"the whole text could not be stored: {why}"


class Live:
    """The output of one running call. Left without `finish`, what was stored of it is abandoned."""

    def __init__(
        self, action: Action, source: Source, observer: Observer, store: OverflowStore, session: str
    ) -> None:
        self.id: str | None = None
        self.store = store
        self._call = action.call.id
        self._source = source
        self._observer = observer
        self._begin = partial(store.spool, session)
        self._turn = trio.Lock()
        self._incoming: deque[str] = deque()
        self._feeders: tuple[Feeder, ...] = ()
        self._excerpt = Excerpt(source.threshold)
        self._kept = _Kept(source.max_bytes)
        self._unwritten: list[str] = []
        self._spool: Spool | None = None
        self._problem = ""
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take nothing more: whoever kept the `Cleared` adds to no text that is finished."""
        self._is_over = True
        if self._spool is not None:
            self._spool.abandon()

    async def emit(self, chunk: str) -> None:
        """Screen a piece, show what is certain of it by now, and store it once there is much."""
        if self._is_over:
            return
        # Taken in before anything is awaited, so that a caller who is cancelled leaves no hole. A
        # subclass of str may turn into another text each time it is looked at.
        text = str.__str__(chunk)
        self._incoming.extend(text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        async with self._turn:
            await self._drain()

    async def close(self) -> None:
        """Show what was held back."""
        async with self._turn:
            await self._drain()
            rest = ""
            for feeder in self._feeders:
                rest = feeder.feed(rest) + feeder.flush()
            self._add(rest)

    async def finish(self, origin: Origin) -> Screened:
        """Return what is to be shown of all there was, once what is cut is stored; `id` names it then."""
        await self._spill()
        notices = [notice for feeder in self._feeders for notice in feeder.notices]
        notices += self._excerpt.notices
        if self._spool is not None:
            try:
                self.id = await self._spool.finish(origin)
            except RecordError as error:
                self._problem = str(error)
        dropped = self._excerpt.total - self._kept.chars
        if self.id is not None:
            notices.append(told_kept(self.id, self._kept.chars, self._kept.lines, dropped))
        elif self._problem:
            notices.append(told_lost(self._problem))
        return Screened(self._excerpt.text, tuple(notices), is_cut=self._excerpt.is_cut)

    async def _drain(self) -> None:
        # Most calls put nothing out while they run, so what screens it is made when something comes.
        if self._incoming and not self._feeders:
            self._feeders = (strip.start(self._source), redact.start(self._source))
        while self._incoming:
            piece = self._incoming.popleft()
            for feeder in self._feeders:
                piece = feeder.feed(piece)
            self._add(piece)
            await self._spill()
            await trio.lowlevel.checkpoint()

    def _add(self, text: str) -> None:
        self._excerpt.feed(text)
        kept = self._kept.part(text)
        if kept:
            self._unwritten.append(kept)
            tell(partial(self._observer.live, self._call, kept))

    async def _spill(self) -> None:
        """Store what has come by now, if not all of it will be shown."""
        if not self._excerpt.is_cut or not self._unwritten:
            return
        text = "".join(self._unwritten)
        self._unwritten.clear()
        if self._problem:
            return
        try:
            self._spool = self._spool or self._begin()
            await self._spool.write(text)
        except RecordError as error:
            self._problem = str(error)
            if self._spool is not None:
                self._spool.abandon()
                self._spool = None


class _Kept:
    """How much of a text is kept: what is beyond a bound in bytes of UTF-8 is not, from a line's end on."""

    def __init__(self, bound: int) -> None:
        self.chars = 0
        self._room = bound
        self._line_ends = 0
        self._ends_line = True

    @property
    def lines(self) -> int:
        return self._line_ends + (not self._ends_line)

    def part(self, text: str) -> str:
        """Return as much of the next piece as is kept."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > self._room:
            encoded = text.encode("utf-8", "replace")[: self._room]
            encoded = encoded[: encoded.rfind(b"\n") + 1 or None]
            text, size = encoded.decode("utf-8", "ignore"), self._room
        self._room -= size
        if text:
            self.chars += len(text)
            self._line_ends += text.count("\n")
            self._ends_line = text.endswith("\n")
        return text
