"""A terminal with live lines at the bottom: what is running, what is being typed, and the status.

One prompt_toolkit application (`board.py`) runs for the whole chat, on an asyncio thread of its own, so that
keys are read while a turn runs and never delay it. A question replaces what is being typed, which comes back
afterwards. Keys that were pressed before the question was drawn do not answer it. `keys.py` says which key
does what.
"""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from outcome import Error, acapture
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter
from trio.lowlevel import Abort

from leeward.memory.database import AsyncioThread
from leeward.security.text import visible

from ..printer import discard
from .board import Board, terminal_size
from .desk import Asked, Called, Desk
from .layout import Looks
from .terminal import Gone, Section, Typed, View

__all__ = ["LiveTerminal"]


_LONGEST_COPY = 74_994  # characters of base64, as xterm and others bound it


class _Unwritten:
    """What is to be printed above what lives, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        """Have a text printed after what is there."""
        with self._lock:
            self._texts.append(text)

    def take(self) -> str:
        """Return what is there, which is nobody else's then."""
        with self._lock:
            texts, self._texts = self._texts, []
        return "".join(texts)


class LiveTerminal:
    """One terminal, as the session sees it; what it hands over runs in the terminal's thread."""

    obeys = True
    """Whether it obeys escape sequences."""

    def __init__(self, asyncio_thread: AsyncioThread, history: Path, *, vi: bool = False) -> None:
        self._thread = asyncio_thread
        self._history = history
        self._completer: Completer = DummyCompleter()
        self._unwritten = _Unwritten()
        self._desk = Desk(self.write, lambda: self._board.renew())  # noqa: PLW0108 — it is made below
        self._looks = Looks(self._desk, terminal_size)
        self._board = Board(self._desk, self._looks, self._unwritten.take, vi=vi)

    def attach(self, view: View, completer: Completer, called: Called) -> None:
        """Take what is shown and completed, and whom keys call."""
        self._looks.view, self._completer, self._desk.called = view, completer, called

    @property
    def room(self) -> int:
        """How many lines of the screen nothing that lives takes, while a question is put."""
        return self.size[1] - self._desk.lines

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, now."""
        return terminal_size()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Take keys and draw for as long as the block lasts; the terminal is left as it was."""
        over: Future[None] = Future()
        started: Future[None] = Future()
        completer = DynamicCompleter(lambda: self._completer)
        running = partial(self._board.run, self._history, completer, partial(started.set_result, None))
        self._thread.start(partial(_serve, running, self._desk), started, over)
        await self._thread.wait(started)
        try:
            yield
        finally:
            self._thread.call_soon(self._board.leave)
            await self._thread.wait(over)
            try:
                sys.stdout.write(self._unwritten.take())
                sys.stdout.flush()
            except OSError:
                discard(sys.stdout)

    def write(self, text: str) -> None:
        """Print whole lines above what lives."""
        self._unwritten.add(text)
        self.refresh()

    def refresh(self) -> None:
        """Draw again what lives, soon."""
        self._thread.call_soon(self._board.draw_soon)

    def notify(self, how: str, text: str) -> None:
        """Ring a bell, or have the terminal tell the person something; `text` is ours."""
        sequence = "\x07" if how == "bell" else f"\x1b]9;{visible(text)}\x07"
        self._thread.call_soon(partial(self._board.write_raw, sequence))

    def copy(self, text: str) -> bool:
        """Hand a text to the clipboard by OSC 52, where it is no longer than terminals take."""
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        if len(encoded) > _LONGEST_COPY:
            return False
        self._thread.call_soon(partial(self._board.write_raw, f"\x1b]52;c;{encoded}\x07"))
        return True

    def edit(self) -> bool:
        """Open the person's editor for what they type next, as Ctrl-X Ctrl-E does."""
        self._thread.call_soon(self._board.edit)
        return True

    async def message(self) -> Typed:
        """Return the next message, as `Terminal.message`."""
        future: Future[Typed] = Future()
        self._thread.call_soon(partial(self._desk.want, future))
        return await self._thread.wait(future, _let_go)

    async def key(self, prompt: str, *, again: bool = False) -> str:
        """Return one key, as `Terminal.key`."""
        return await self._asked(Asked(prompt, Future(), again=again))

    async def answer(self, prompt: str, text: str = "") -> str:
        """Return a line, as `Terminal.answer`."""
        return await self._asked(Asked(prompt, Future(), text))

    async def _asked(self, asked: Asked) -> str:
        self._thread.call_soon(partial(self._board.ask, asked))
        try:
            return await self._thread.wait(asked.future, _let_go)
        finally:
            self._thread.call_soon(partial(self._board.answered, asked))

    async def page(self, sections: Sequence[Section]) -> bool:
        """Show texts in the pager, as `Terminal.page`."""
        return await self._thread.run_cancellable(self._board.page, tuple(sections))


async def _serve(
    running: Callable[[], Awaitable[None]], desk: Desk, started: Future[None], over: Future[None]
) -> None:
    """Run the application to its end. What ended it is raised where the session waits."""
    ending = await acapture(running)
    if not started.done():
        started.set_result(None)
    error = ending.error if isinstance(ending, Error) else None
    # Where input has ended, the terminal is gone.
    is_gone = not isinstance(error, Exception) or isinstance(error, EOFError | OSError)
    desk.fail(Gone() if is_gone or not isinstance(error, Exception) else error)
    over.set_result(None)


def _let_go() -> Abort:
    return Abort.SUCCEEDED
