"""Read a line at the terminal with prompt_toolkit, on its own asyncio thread: no key stalls the session.

`repl.py` decides what messages and answers mean. Between two prompts the terminal is quiet: what is typed
meanwhile is not printed into the answer and waits for the next message. It never counts as the answer to a
question that nobody has seen yet.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout

from leeward.memory.database import AsyncioThread

from ..printer import discard

__all__ = ["Closed", "Gone", "Interrupt", "Terminal", "Typed", "quiet"]

_LOCAL, _INPUT = 3, 0  # where the flags stand in what tcgetattr returns


class Interrupt(Exception):
    """Ctrl-C was pressed while a line was edited. Not a KeyboardInterrupt, which would end the loop."""


class Closed(Exception):
    """The person wants to say no more: Ctrl-D was pressed on an empty line."""


class Gone(Closed):
    """The terminal is gone, and nobody sits at it any more."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What the person entered. `is_pasted` tells that a slash it begins with was not typed."""

    text: str
    is_pasted: bool = False


@contextmanager
def quiet() -> Iterator[None]:
    """Print no key that is typed while the block lasts; Ctrl-C is still a signal.

    Nothing is set where standard input is no terminal. What a terminal that is gone could not be told
    any more is dropped at the end.
    """
    try:
        handle = sys.stdin.fileno()
        before = termios.tcgetattr(handle)
        during = termios.tcgetattr(handle)
    except (OSError, ValueError, termios.error):
        yield
        return
    during[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    # Ctrl-S would stop the output and with it whoever writes: the session.
    during[_INPUT] &= ~(termios.IXON | termios.ICRNL)
    _set(handle, during)
    try:
        yield
    finally:
        _set(handle, before)
        try:
            sys.stdout.flush()
        except OSError:
            discard(sys.stdout)


def _set(handle: int, attributes: list[int | list[bytes | int]]) -> None:
    with suppress(termios.error):  # the terminal is gone
        termios.tcsetattr(handle, termios.TCSADRAIN, attributes)


class SlashCompleter(Completer):
    """Completes the name of a slash command at the beginning of a line."""

    def __init__(self, commands: Iterable[tuple[str, str]]) -> None:
        self._commands = tuple(commands)

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterator[Completion]:
        """Yield the commands that begin with what stands before the cursor."""
        before = document.text_before_cursor
        if not before.startswith("/") or " " in before:
            return
        for name, summary in self._commands:
            if name.startswith(before):
                yield Completion(name, -len(before), display_meta=summary)


class Terminal:
    """One line editor with its history.

    Enter sends; Alt-Enter, or a backslash before Enter, begins a new line.

    `history` is the file that messages are remembered in, `commands` what is completed (name and
    summary).
    """

    def __init__(
        self, asyncio_thread: AsyncioThread, history: Path, commands: Iterable[tuple[str, str]]
    ) -> None:
        self._asyncio_thread = asyncio_thread
        self._history = history
        self._commands = tuple(commands)
        self._has_typed_slash = False
        self._begins_pasted = False
        self._is_pasted = False
        self._editor: PromptSession[str] | None = None
        self._asker: PromptSession[str] | None = None

    async def line(self, prompt: str) -> Typed:
        """Read one message.

        Raises:
            Interrupt: Ctrl-C was pressed.
            Closed: the input has ended; Gone, where the terminal is what ended.
        """
        text = await self._asyncio_thread.run_cancellable(self._edit, prompt)
        return Typed(text, self._is_pasted)

    async def answer(self, prompt: str, text: str = "") -> str:
        """Read a short answer, which enters no history; what was typed before it was asked for is dropped.

        `text` stands there already, to be edited.

        Raises:
            Interrupt, Closed: as for `line`.
        """
        return await self._asyncio_thread.run_cancellable(self._ask, prompt, text)

    async def _edit(self, prompt: str) -> str:
        # Made inside the asyncio thread: prompt_toolkit binds to the loop it is made in.
        if self._editor is None:
            self._editor = PromptSession(
                history=_History(self._history),
                completer=SlashCompleter(self._commands),
                complete_while_typing=True,
                multiline=True,
                key_bindings=self._bindings(),
                prompt_continuation="… ",
                interrupt_exception=Interrupt,
                eof_exception=Closed,
            )
            self._editor.default_buffer.on_text_changed += self._look_at_slash
        self._has_typed_slash = self._begins_pasted = self._is_pasted = False
        return await _prompted(self._editor, prompt)

    async def _ask(self, prompt: str, text: str) -> str:
        if self._asker is None:
            self._asker = PromptSession(interrupt_exception=Interrupt, eof_exception=Closed)
        clear_typeahead(self._asker.input)
        with suppress(OSError, ValueError, termios.error):
            termios.tcflush(self._asker.input.fileno(), termios.TCIFLUSH)
        return await _prompted(self._asker, prompt, text)

    def _look_at_slash(self, buffer: Buffer) -> None:
        self._has_typed_slash &= buffer.text.startswith("/")

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        editing = has_focus(DEFAULT_BUFFER)

        @bindings.add("enter", filter=editing)
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
                return
            self._check(buffer)
            buffer.validate_and_handle()

        @bindings.add("escape", "enter", filter=editing)
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add("/", filter=editing)
        def slash(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            is_first = buffer.cursor_position == 0
            buffer.insert_text(event.data)
            self._has_typed_slash |= is_first

        @bindings.add(Keys.BracketedPaste, filter=editing)
        def paste(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.cursor_position == 0:
                self._has_typed_slash, self._begins_pasted = False, True
            buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))

        return bindings

    def _check(self, buffer: Buffer) -> None:
        """Make a text of what is sent, and see whether a slash at its beginning was pasted."""
        # Bytes that are no UTF-8 come in as halves of surrogate pairs, which nothing can store.
        text = buffer.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        is_recalled = buffer.working_index < len(buffer._working_lines) - 1 and not self._begins_pasted
        self._is_pasted = text.startswith("/") and not (self._has_typed_slash or is_recalled)
        # Remembered with a blank before it, it is no command either when it is called back.
        text = f" {text}" if self._is_pasted else text
        if text != buffer.text:
            buffer.text = text


async def _prompted(session: PromptSession[str], prompt: str, text: str = "") -> str:
    """Run one prompt, in which a text may stand already; a terminal that is gone has ended the input.

    Raises:
        Gone: it is.
        Closed, Interrupt: the person pressed the key for it.
    """
    asyncio.get_running_loop().set_exception_handler(partial(_end, session.app))
    try:
        # What is printed by us meanwhile holds our own styles, and nothing else a terminal obeys.
        with patch_stdout(raw=True):
            return await session.prompt_async(
                prompt, default=text, set_exception_handler=False, handle_sigint=False
            )
    except (EOFError, OSError) as error:
        raise Gone from error


def _end(app: Application[str], _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """End a prompt with what went wrong behind it, where prompt_toolkit would print it and wait for a key."""
    error = context.get("exception")
    if isinstance(error, Exception) and app.future is not None and not app.future.done():
        app.exit(exception=error)


class _History(FileHistory):
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
