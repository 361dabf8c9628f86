"""A terminal that reads whole lines and moves no cursor: `TERM=dumb`, or output that is not a terminal.

A line that is typed while something runs is kept for the next message. It never answers a question that was
not yet visible when it was typed. Where a key would answer, the first letter of a line does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.output import DummyOutput

from leeward.memory.database import AsyncioThread
from leeward.security.text import visible

from ..printer import discard
from .screen import choices_within, plain_text
from .terminal import Closed, Gone, Interrupt, Section, Typed

__all__ = ["Echo", "PlainTerminal", "end_with"]


class Echo:
    """Shows a line while it is typed, where nothing on the screen can be written over."""

    def __init__(self, prompt: str, text: str, write: Callable[[str], None]) -> None:
        self._prompt = prompt.rpartition("\n")[2]
        self._write = write
        self._shown = _on_one_line(text)
        write(f"{prompt}{self._shown}")

    def changed(self, buffer: Buffer) -> None:
        """Write what was added to the end, or all of it once more below."""
        text = _on_one_line(buffer.text)
        is_longer = text.startswith(self._shown)
        self._write(text[len(self._shown) :] if is_longer else f"\n{self._prompt}{text}")
        self._shown = text


def _on_one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n")


class PlainTerminal:
    """Prompts, one after the other."""

    def __init__(self, asyncio_thread: AsyncioThread) -> None:
        self._thread = asyncio_thread
        self._session: PromptSession[str] | None = None

    @property
    def obeys(self) -> bool:
        """Whether it obeys escape sequences: it does not."""
        return False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, now."""
        try:
            size = os.get_terminal_size(sys.stdin.fileno())
        except (OSError, ValueError):
            return 80, 24
        return size.columns or 80, size.lines or 24

    @property
    def room(self) -> int:
        """How many lines of the screen are free: nothing lives here."""
        return self.size[1]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Do nothing: each prompt begins and ends by itself."""
        yield

    def write(self, text: str) -> None:
        """Print whole lines; one that is gone sees nothing, and the signal that tells of it ends the chat."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            discard(sys.stdout)

    def refresh(self) -> None:
        """Nothing lives here that could be drawn."""

    def notify(self, how: str, text: str) -> None:
        """Ring a bell; this terminal shows no notice."""
        if how == "bell" and text:
            self.write("\x07")

    def copy(self, text: str) -> bool:  # noqa: ARG002
        """Take nothing: this terminal obeys no sequences."""
        return False

    def edit(self) -> bool:
        """Open nothing: a prompt is one line here."""
        return False

    async def message(self) -> Typed:
        """Return the next message, as `Terminal.message`."""
        while True:
            try:
                return Typed(await self._thread.run_cancellable(self._read, "› ", "", False))
            except Interrupt:
                self.write("(Ctrl-D or /exit leaves)\n")

    async def key(self, prompt: str, *, again: bool = False) -> str:
        """Return the first letter of a line, as `Terminal.key`."""
        lines = f"{choices_within(self.size[0] - 3, prompt.rstrip())} "
        typed = await self._thread.run_cancellable(self._read, lines, "", not again)
        return typed.strip()[:1]

    async def answer(self, prompt: str, text: str = "") -> str:
        """Return a line, as `Terminal.answer`."""
        return await self._thread.run_cancellable(self._read, prompt, text, True)

    async def page(self, sections: Sequence[Section]) -> bool:
        """Print all of the texts."""
        for section in sections:
            self.write(f"{visible(section.title)}\n")
            self.write("".join(f"{visible(plain_text(line))}\n" for line in section.lines))
        return True

    async def _read(self, prompt: str, text: str, discards: bool) -> str:
        # Made inside the asyncio thread: prompt_toolkit binds to the loop it is made in.
        if self._session is None:
            self._session = PromptSession(
                output=DummyOutput(), interrupt_exception=Interrupt, eof_exception=Closed
            )
        session = self._session
        if discards:
            clear_typeahead(session.input)
            with suppress(OSError, ValueError, termios.error):
                termios.tcflush(session.input.fileno(), termios.TCIFLUSH)
        asyncio.get_running_loop().set_exception_handler(partial(end_with, session.app))
        echo = Echo(prompt, text, self.write)
        session.default_buffer.on_text_changed += echo.changed
        try:
            return await session.prompt_async(
                "", default=text, set_exception_handler=False, handle_sigint=False
            )
        except (EOFError, OSError) as error:
            raise Gone from error
        finally:
            session.default_buffer.on_text_changed -= echo.changed
            self.write("\n")


def end_with(app: Application[Any], _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """End a prompt with what went wrong behind it, where prompt_toolkit would print it and wait for a key."""
    error = context.get("exception")
    if isinstance(error, Exception) and app.future is not None and not app.future.done():
        app.exit(exception=error)
