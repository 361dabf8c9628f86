"""The prompt_toolkit application that draws the last lines of the terminal and reads keys.

Everything here runs in the terminal's thread. To print a text, the live lines are removed, the text is
written, and the lines are drawn again below it, all in one write.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from ..printer import discard
from .desk import Asked, Desk
from .keys import Editing, bindings, editing_keys
from .layout import Looks, Windows, layout_of
from .pager import Pager
from .plain import end_with
from .screen import harmless
from .terminal import Section

__all__ = ["Board", "History", "terminal_size"]

_ONE_KEY = 0.05  # seconds within which all bytes of one key come
_ALONE, _IN_SEQUENCE = 0.15, 0.8  # seconds after which a key that may begin a sequence, such as Esc, is alone
_TICK = 0.2  # seconds between two drawings of what only time changes
_SOON = 0.04  # seconds within which news is drawn together
_TYPING = 1.0  # seconds: a key before a question that is younger shows that somebody is typing
_PAUSE = 0.7  # seconds without a key after which such a person is taken to have seen the question


def terminal_size() -> tuple[int, int]:
    """Return columns and lines of the terminal, now."""
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (OSError, ValueError):
        return 80, 24
    return size.columns or 80, size.lines or 24


def _size() -> Size:
    columns, rows = terminal_size()
    return Size(rows=rows, columns=columns)


class _Output(Vt100_Output):
    """Writes all that belongs together at once, and no text that a terminal would obey."""

    _holds = 0

    def write(self, data: str) -> None:
        """Take a text to be drawn; sequences of prompt_toolkit's own go through `write_raw`."""
        super().write(data if data.strip("\r\n") == "" else harmless(data))

    def flush(self) -> None:
        """Write out, unless more belongs to it; a terminal that is gone takes nothing."""
        if self._holds:
            return
        try:
            super().flush()
        except OSError:
            discard(sys.stdout)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Write out at the end of the block, and not before."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.flush()


class Board:
    """Draws what `looks` says, and above that what `unwritten` returns: text that is to be printed."""

    def __init__(self, desk: Desk, looks: Looks, unwritten: Callable[[], str], *, vi: bool) -> None:
        self._desk = desk
        self._looks = looks
        self._unwritten = unwritten
        self._vi = vi
        self._app: Application[None] | None = None
        self._output: _Output
        self._windows: Windows
        self._editing: Editing
        self._line: Buffer
        self._drawn_lines = 0
        self._is_due = False

    async def run(self, history: Path, completer: Completer, started: Callable[[], None]) -> None:
        """Draw and take keys until `leave`."""
        self._app = app = self._made(history, completer)
        asyncio.get_running_loop().set_exception_handler(partial(end_with, app))
        ticking = asyncio.ensure_future(self._tick())
        try:
            await app.run_async(pre_run=started, set_exception_handler=False, handle_sigint=False)
        finally:
            ticking.cancel()
            self._app = None

    def _made(self, history: Path, completer: Completer) -> Application[None]:
        self._output = _Output(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        editor = Buffer(
            name="editor",
            multiline=True,
            completer=completer,
            complete_while_typing=Condition(lambda: editor.text.startswith("/") or "@" in editor.text),
            history=History(history),
            tempfile_suffix=".md",
        )
        self._line = Buffer(name="line", multiline=False)
        self._editing = editing = Editing(editor)
        layout, self._windows = layout_of(self._looks, editor, editing_keys(editing), self._line)
        app: Application[None] = Application(
            layout=layout,
            key_bindings=bindings(self._desk, editing),
            editing_mode=EditingMode.VI if self._vi else EditingMode.EMACS,
            input=create_input(sys.stdin),
            output=self._output,
            erase_when_done=True,
            terminal_size_polling_interval=0.25,
            color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else ColorDepth.DEPTH_4_BIT,
        )
        app.key_processor.before_key_press += editing.key_pressed

        def take_time(_processor: object) -> None:
            app.timeoutlen = _ALONE if self._vi or self._desk.is_busy else _IN_SEQUENCE

        app.key_processor.before_key_press += take_time
        app.ttimeoutlen = _ONE_KEY
        return app

    async def _tick(self) -> None:
        """Draw what only time changes, and end a pause."""
        while True:
            await asyncio.sleep(_TICK)
            question = self._desk.question
            if question is not None and question.ignores_until_pause:
                question.ignores_until_pause = time.monotonic() - self._editing.last_key < _PAUSE
                self.draw()
            elif self._desk.is_busy:
                self.paint()
                self.draw()
            else:
                self.paint()

    @property
    def is_away(self) -> bool:
        """Whether nothing can be drawn: the pager or an editor has the terminal."""
        return self._app is None or self._app._running_in_terminal or not self._app.is_running

    def paint(self) -> None:
        """Write what is to be printed above what lives."""
        if self.is_away or self._app is None:
            return
        text = self._unwritten()
        if text:
            with self._output.held():
                self._app.renderer.erase()
                self._output.write_raw(text.replace("\n", "\r\n"))
                self.draw()

    def draw(self) -> None:
        """Draw what lives; where it got shorter, the lines before are taken away first."""
        app = self._app
        if app is None or self.is_away:
            return
        height = app.layout.container.preferred_height(*terminal_size()).preferred
        with self._output.held():
            if height < self._drawn_lines:
                app.renderer.erase()
            app._redraw()
        self._drawn_lines = height

    def draw_soon(self) -> None:
        """Draw what is new, together with what else comes within a moment."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(_SOON, self.renew)

    def renew(self) -> None:
        """Write and draw what is new, now."""
        self._is_due = False
        self.paint()
        self.draw()

    def edit(self) -> None:
        """Open the person's editor for what is being typed."""
        if self.is_away:
            asyncio.get_running_loop().call_later(_SOON, self.edit)
        else:
            self._editing.buffer.open_in_editor()

    def write_raw(self, sequence: str) -> None:
        """Write a sequence of ours."""
        if not self.is_away:
            self._output.write_raw(sequence)
            self._output.flush()

    def ask(self, asked: Asked) -> None:
        """Put a question: what it is about is drawn first, and what was typed until then answers nothing."""
        if self._app is not None and self.is_away:
            asyncio.get_running_loop().call_later(_SOON, self.ask, asked)
            return
        self.paint()
        if not asked.again and self._app is not None:
            _discard_keys(self._app)
        if self._desk.ask(asked) and self._app is not None:
            asked.ignores_until_pause = time.monotonic() - self._editing.last_key < _TYPING
            self._line.reset()
            self._line.insert_text(asked.text or "")
            self._app.layout.focus(self._windows.keys if asked.text is None else self._windows.line)
            self.draw()

    def answered(self, asked: Asked) -> None:
        """Go back to the message that was being edited."""
        if self._desk.question is asked:
            self._desk.question = None
            if self._app is not None:
                self._editing.last_key = 0.0
                self._app.layout.focus(self._windows.editor)
            self.draw()

    async def page(self, sections: Sequence[Section]) -> bool:
        """Show texts in the pager; return whether their end was seen."""
        app = self._app
        if app is None or app.context is None or self.is_away:
            return False
        showing = _in_pager(sections, app)
        saw_end = await asyncio.get_running_loop().create_task(showing, context=app.context.copy())
        self.paint()
        return saw_end

    def leave(self) -> None:
        """End the application."""
        if self._app is not None and self._app.future is not None and not self._app.future.done():
            self.paint()
            self._app.exit()


def _discard_keys(app: Application[None]) -> None:
    app.key_processor.input_queue.clear()
    with suppress(OSError, ValueError, termios.error):
        termios.tcflush(app.input.fileno(), termios.TCIFLUSH)


async def _in_pager(sections: Sequence[Section], app: Application[None]) -> bool:
    pager = Pager(sections, app.input, app.output, app.color_depth)
    async with in_terminal():
        await pager.run()
    return pager.saw_end


class History(FileHistory):
    """Messages of earlier sessions, in a file that only the person may read; lost where it cannot be used."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        with suppress(OSError):
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with open(handle, "ab"):  # noqa: PTH123 — it is open already, and is closed by this
                os.fchmod(handle, 0o600)

    def load_history_strings(self) -> Iterable[str]:
        """Return the messages there are, the newest first."""
        try:
            return tuple(super().load_history_strings())
        except OSError:
            return ()

    def store_string(self, string: str) -> None:
        """Remember a message."""
        with suppress(OSError):
            super().store_string(string)
